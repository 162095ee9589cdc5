//! The command as users run it: input files, rows, plots, messages and exit codes.

use crate::files;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::files::{Workdir, csv_column, files_below, particles, rows};
use arrow_array::RecordBatch;

const MANY: i64 = 5000;

#[test]
fn every_input_format_gives_the_same_records() {
    let workdir = Workdir::new();
    let batch = particles(0, MANY);
    let options = "--dimensions x,y,z --identity pid --read types=x=float32,y=float32,z=float32";
    for ending in ["parquet", "arrow", "arrows", "csv"] {
        workdir.save(&format!("in.{ending}"), &batch);
        workdir.run(&format!("ingest {ending}.kubist in.{ending} {options}")).ok();
        workdir.run(&format!("query {ending}.kubist -o {ending}.out.parquet")).ok();
        assert_eq!(rows(&workdir.parquet(&format!("{ending}.out.parquet"))), rows(&batch), "{ending}");
    }
}

#[test]
fn numpy_archives_longer_than_a_batch() {
    let workdir = Workdir::new();
    let batch = particles(0, 70_000);
    workdir.save("in.npz", &batch);
    workdir.run("ingest t in.npz --dimensions x,y,z --identity pid").ok();
    workdir.run("query t -o out.arrow").ok();
    let out = workdir.arrow("out.arrow");
    let names: Vec<String> = out.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["pid", "x", "y", "z", "stuck"]);
    let mut found: Vec<(i64, u32)> = pairs(&out);
    found.sort();
    assert_eq!(found, pairs(&batch));
}

fn pairs(batch: &RecordBatch) -> Vec<(i64, u32)> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Int64Type};
    let pid = batch.column_by_name("pid").unwrap().as_primitive::<Int64Type>().clone();
    let y = batch.column_by_name("y").unwrap().as_primitive::<Float32Type>().clone();
    pid.values().iter().zip(y.values()).map(|(pid, y)| (*pid, y.to_bits())).collect()
}

#[test]
fn every_output_format_holds_the_same_records() {
    let workdir = Workdir::new();
    let batch = particles(0, MANY);
    workdir.table("t", &batch);
    let expected: Vec<_> = rows(&batch).into_iter().filter(|p| p.x >= 0.25 && p.x <= 0.5 && p.y <= 0.5).collect();
    assert!(!expected.is_empty());
    let query = "query t --box x=0.25:0.5,y=:0.5";
    workdir.run(&format!("{query} -o out.parquet")).ok();
    assert_eq!(rows(&workdir.parquet("out.parquet")), expected);
    workdir.run(&format!("{query} -o out.arrow")).ok();
    assert_eq!(rows(&workdir.arrow("out.arrow")), expected);
    workdir.run(&format!("{query} -o out.arrows")).ok();
    assert_eq!(rows(&workdir.arrow("out.arrows")), expected);
    workdir.run(&format!("{query} -o out.bin --format parquet")).ok();
    assert_eq!(rows(&workdir.parquet("out.bin")), expected);
    let pids = |text: &str| {
        let mut pids = csv_column(text, "pid");
        pids.sort_by(f64::total_cmp);
        pids
    };
    let expected: Vec<f64> = expected.iter().map(|particle| particle.pid as f64).collect();
    workdir.run(&format!("{query} -o out.csv")).ok();
    assert_eq!(pids(&std::fs::read_to_string(workdir.path("out.csv")).unwrap()), expected);
    let piped = workdir.run(query).ok();
    assert_eq!(pids(&piped.out), expected);
    assert!(piped.err.contains(&format!("{} records; ", expected.len())), "{}", piped.err);
    let count = workdir.run(&format!("{query} --count")).ok();
    assert_eq!(count.out, format!("{}\n", expected.len()));
}

#[test]
fn columns_conditions_and_an_empty_answer() {
    let workdir = Workdir::new();
    let batch = particles(0, MANY);
    workdir.table("t", &batch);
    let expected = rows(&batch).iter().filter(|p| p.stuck && p.z > 0.5).count();
    let found = workdir.run_of(&["query", "t", "--columns", "z,pid", "--where", "stuck AND z > 0.5"]).ok();
    assert_eq!(found.out.lines().next(), Some("z,pid"));
    assert_eq!(found.out.lines().count(), expected + 1);
    let pid = workdir.run("query t --box pid=17 --columns pid,kind").ok();
    assert_eq!(pid.out, "pid,kind\n17,\"oil, heavy\"\n");
    let none = workdir.run("query t --box x=5: --columns pid").ok();
    assert_eq!(none.out, "pid\n");
    workdir.run("query t --box x=5: -o none.parquet").ok();
    assert_eq!(workdir.parquet("none.parquet").num_rows(), 0);
}

#[test]
fn samples_are_nested_and_windows_meet() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 20_000));
    let pids = |options: &str| {
        let mut pids = csv_column(&workdir.run(&format!("query t --columns pid {options}")).ok().out, "pid");
        pids.sort_by(f64::total_cmp);
        pids
    };
    let (tenth, percent) = (pids("--sample 10%"), pids("--sample 0.01"));
    assert!((1700..2300).contains(&tenth.len()), "{}", tenth.len());
    assert!((120..280).contains(&percent.len()), "{}", percent.len());
    assert!(percent.iter().all(|pid| tenth.contains(pid)));
    let mut both = [percent.clone(), pids("--window 1%:10%")].concat();
    both.sort_by(f64::total_cmp);
    assert_eq!(both, tenth);
    let lowest = pids("--limit 100");
    assert_eq!(lowest.len(), 100);
    assert!(lowest.iter().all(|pid| percent.contains(pid)));
    let cells = pids("--per-cell 2:x=0.5,y=0.5");
    assert!((4..=2 * 9).contains(&cells.len()), "{}", cells.len());
}

#[test]
fn the_cost_is_told_to_people_and_to_scripts() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, MANY));
    let told = workdir.run("query t --sample 0.1 -o a.csv").ok();
    assert!(told.out.is_empty());
    for word in [" records, fraction 0.1; ", " read, ", " each; ", " of "] {
        assert!(told.err.contains(word), "{word:?} in {}", told.err);
    }
    let cost = workdir.run("query t --sample 0.1 -o a.csv --json").ok().json();
    let written = std::fs::read_to_string(workdir.path("a.csv")).unwrap().lines().count() as u64 - 1;
    assert_eq!(cost["rows_returned"], written);
    assert_eq!(cost["fraction"], 0.1);
    for figure in ["rows_read", "bytes_read", "pages_read", "cubes_visited", "seconds"] {
        assert!(cost[figure].is_number(), "{figure}");
    }
    let piped = workdir.run("query t --limit 5 --json").ok();
    assert_eq!(piped.out.lines().count(), 6);
    assert!(serde_json::from_str::<serde_json::Value>(&piped.err).is_ok(), "{}", piped.err);
    assert_eq!(workdir.run("query t --count --json").ok().json()["count"], MANY);
}

#[test]
fn figures_are_of_expressions_and_have_all_their_digits() {
    let workdir = Workdir::new();
    let batch = particles(0, 4_000);
    workdir.table("t", &batch);
    let far = (1i64 << 60) + 999;
    let text = format!("max(pid * 0 + {far})");
    let exact = ["estimate", "t", &text, "--sample", "1"];
    assert!(workdir.run_of(&exact).ok().out.contains("1,152,921,504,606,847,975 exactly"));
    let output = workdir.run_of(&[&exact[..], &["--json"]].concat()).ok().json();
    assert_eq!(output["figures"][0]["value"], far);
    let text = format!("sum(pid * 0 + {far})");
    let output = workdir.run_of(&["estimate", "t", &text, "--sample", "1", "--json"]).ok().json();
    assert_eq!(output["figures"][0]["value"], (4_000 * i128::from(far)).to_string());
    let by = "bin(x, 0.25), CASE WHEN stuck THEN 'stuck' ELSE 'moving' END";
    let asked = ["estimate", "t", "sum(stuck * y) / sum(y)", "--group-by", by, "--sample", "1", "--json"];
    let output = workdir.run_of(&asked).ok().json();
    let figures = output["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 8);
    for figure in figures {
        let group = figure["group"].as_object().unwrap();
        let stuck = group["CASE WHEN stuck THEN 'stuck' ELSE 'moving' END"] == "stuck";
        let expected = f64::from(u8::from(stuck));
        assert!((figure["value"].as_f64().unwrap() - expected).abs() < 1e-12, "{figure}");
        assert!(["0.0", "0.25", "0.5", "0.75"].contains(&group["bin(x, 0.25)"].as_str().unwrap()), "{figure}");
    }
    let selected =
        workdir.run_of(&["query", "t", "--count", "--where", "CASE WHEN stuck THEN x ELSE 0 END >= 0.5"]).ok();
    let expected = rows(&batch).iter().filter(|particle| particle.stuck && particle.x >= 0.5).count();
    assert_eq!(selected.out.trim().replace(',', ""), expected.to_string());
    for (by, message) in [
        ("pid", "there are more than 10,000 groups"),
        ("CASE WHEN stuck THEN 1 ELSE 'a' END", "the number 1 in one branch and the text 'a' in another"),
    ] {
        let many = particles(0, 40_000);
        workdir.table("many", &many);
        workdir.run_of(&["estimate", "many", "count()", "--group-by", by, "--sample", "1"]).fails(2, &[message]);
        std::fs::remove_dir_all(workdir.path("many")).unwrap();
    }
}

#[test]
fn estimates_hold_the_truth_and_say_so() {
    let workdir = Workdir::new();
    let batch = particles(0, 40_000);
    workdir.table("t", &batch);
    let records = rows(&batch);
    let mean = records.iter().map(|p| p.x as f64).sum::<f64>() / records.len() as f64;
    let found = workdir.run_of(&["estimate", "t", "mean(x), count()", "max(y)", "--error", "2%"]).ok();
    assert!(found.out.contains("mean(x)") && found.out.contains(" ± "), "{}", found.out);
    assert!(found.out.contains("40,000 exactly"), "{}", found.out);
    assert!(
        found.err.contains("95 % confidence; ") && found.err.contains("the error goal is reached"),
        "{}",
        found.err
    );
    let output = workdir.run_of(&["estimate", "t", "mean(x)", "--error", "0.02", "--json"]).ok().json();
    let figure = &output["figures"][0];
    let (value, low, high) =
        (figure["value"].as_f64().unwrap(), figure["low"].as_f64().unwrap(), figure["high"].as_f64().unwrap());
    assert!(low < value && value < high && (high - low) / 2.0 <= 0.02 * value, "{output}");
    assert!((low..high).contains(&mean), "the seed is fixed, and this one is no exception: {output} {mean}");
    assert_eq!((output["stopped"].as_str(), figure["exact"].as_bool()), (Some("goal"), Some(false)));
    let groups =
        workdir.run_of(&["estimate", "t", "count()", "--group-by", "stuck", "--sample", "1", "--json"]).ok().json();
    let stuck = records.iter().filter(|p| p.stuck).count() as f64;
    assert_eq!(groups["figures"][1]["group"]["stuck"], "true");
    assert_eq!(groups["figures"][1]["value"].as_f64(), Some(stuck));
    let bins = workdir.run_of(&["estimate", "t", "histogram(x, 4, 0, 1)", "--box", "y=:0.5"]).ok();
    assert_eq!(bins.out.lines().count(), 6);
    assert!(bins.out.contains("0.25:0.5"), "{}", bins.out);
    let sampled = ["estimate", "t", "histogram(x * 2, 4, 0.5, 1)", "--sample", "0.1"];
    let sampled = workdir.run_of(&sampled).ok().out;
    assert!(sampled.contains("below 0.625") && sampled.contains("from 0.875"), "{sampled}");
    workdir.run_of(&["estimate", "t", "mean(x)", "--error", "0.05 abs", "--max-rows", "100000"]).ok();
    workdir.run_of(&["estimate", "t", "mean(x)", "--error", "x abs"]).fails(2, &["an absolute error is a number"]);
    let watched = workdir.run_of(&["estimate", "t", "mean(x)", "--watch", "--sample", "1", "--json"]).ok();
    let widths: Vec<f64> = watched
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|output| output["figures"][0]["high"].as_f64().unwrap() - output["figures"][0]["low"].as_f64().unwrap())
        .collect();
    assert!(widths.len() > 2 && widths[0] > 0.0 && widths[widths.len() - 1] == 0.0, "{widths:?}");
}

#[test]
fn a_table_for_people() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, MANY));
    let page = workdir.run("query t --format table --columns pid,kind,x").ok();
    assert_eq!(page.out.lines().count(), 42);
    assert!(page.out.lines().nth(1).unwrap().starts_with('─'));
    assert!(page.err.contains("the first 40 records"), "{}", page.err);
    let page = workdir.run("query t --format table --limit 3").ok();
    assert_eq!(page.out.lines().count(), 5);
    assert!(page.err.contains("3 records"), "{}", page.err);
}

#[test]
fn files_are_appended_one_commit_each() {
    let workdir = Workdir::new();
    for part in 0..4 {
        workdir.save(&format!("{part}.parquet"), &particles(part * 1000, 1000));
    }
    let made = workdir.run(
        "ingest t 0.parquet --dimensions x=0:1,y=0:1 --dimensions z=quantile --identity pid --create seed=7 --json",
    );
    let made = made.ok().json();
    assert_eq!((&made["created"], &made["rows"]), (&true.into(), &1000.into()));
    let told = workdir.run("ingest t 1.parquet 2.parquet").ok();
    assert!(told.err.contains("t: 2,000 records from 2 files in "), "{}", told.err);
    workdir
        .run(
            "ingest t 3.parquet --dimensions x,y,z --identity pid --create seed=7 --commit-rows 300 --writer name=late",
        )
        .ok();
    let info = workdir.run("info t --json").ok().json();
    assert_eq!(info["rows"], 4000);
    let commits: u64 =
        info["writers"].as_array().unwrap().iter().map(|writer| writer["commits"].as_u64().unwrap()).sum();
    assert_eq!(commits, 1 + 2 + 4);
    assert!(info["writers"].as_array().unwrap().iter().any(|writer| writer["name"] == "late"));
    assert_eq!(info["seed"], 7);
    workdir.run("query t -o all.parquet").ok();
    assert_eq!(rows(&workdir.parquet("all.parquet")), rows(&particles(0, 4000)));
}

#[test]
fn a_file_is_ingested_once_unless_it_is_asked_for_again() {
    let workdir = Workdir::new();
    workdir.save("a.parquet", &particles(0, 1000));
    workdir.save("b.csv", &particles(1000, 1000));
    let count = || workdir.run("query t --count").ok().out;
    workdir.run("ingest t a.parquet --dimensions x,y,z --identity pid --writer name=one").ok();
    // A file counts as ingested for any writer and any form of its path.
    let told = workdir.run("ingest t ./a.parquet b.csv b.csv --writer name=other").ok().err;
    assert!(told.contains("t: 1,000 records from 1 file in "), "{told}");
    assert!(told.contains("; 2 files were ingested already (--again takes them again)"), "{told}");
    let told = workdir.run("ingest t a.parquet").ok().err;
    assert!(told.contains("t: nothing new in ") && told.contains("; 1 file was ingested already (--again"), "{told}");
    assert_eq!(workdir.run("ingest t a.parquet b.csv --json").ok().json()["skipped"], 2);
    assert_eq!(count(), "2000\n");
    workdir.run("ingest t a.parquet --again").ok();
    assert_eq!(count(), "3000\n");
    workdir.save("a.parquet", &particles(2000, 500));
    workdir.run("ingest t a.parquet").ok();
    assert_eq!(count(), "3500\n");
}

#[test]
fn what_was_committed_of_a_file_is_not_taken_again() {
    let workdir = Workdir::new();
    let lines = |rows: std::ops::Range<u64>| rows.map(|n| format!("{n},{n}\n")).collect::<String>();
    workdir.write("sound.csv", "pid,x\n".to_string() + &lines(0..1000));
    let told = workdir.run("ingest t sound.csv --dimensions x --identity pid --commit-rows 100 --json").ok().json();
    assert_eq!(told["files"][0]["commits"], 10);
    assert_eq!(workdir.run("ingest t sound.csv --commit-rows 300 --json").ok().json()["skipped"], 1);
    workdir.write("damaged.csv", "pid,x\n".to_string() + &lines(0..200_000) + "1,one\n");
    let count = || workdir.run("query t --count").ok().out.trim().parse::<u64>().unwrap();
    workdir.run("ingest t damaged.csv --commit-rows 7000").fails(2, &["committed and kept: the first "]);
    let kept = count();
    assert!(kept > 7000 && kept % 7000 == 1000, "{kept}");
    workdir.run("ingest t damaged.csv --commit-rows 7000").fails(2, &["damaged.csv"]);
    assert_eq!(count(), kept);
}

#[test]
fn a_file_that_fails_adds_no_columns() {
    let workdir = Workdir::new();
    workdir.write("a.csv", "x\n1\n2\n");
    workdir.run("ingest t a.csv --dimensions x").ok();
    workdir.write("b.csv", "x,late\n3,4\n5,five\n");
    workdir.run("ingest t b.csv --read columns=x,late").ok();
    workdir.write("c.csv", "x,new\n".to_string() + &"1,1\n".repeat(100_000) + "6,seven\n");
    workdir.run("ingest t c.csv").fails(2, &["c.csv: row 100001, column \"new\": cannot read \"seven\" as Int64"]);
    let columns = workdir.run("info t --json").ok().json()["columns"].clone();
    let names: Vec<_> = columns.as_array().unwrap().iter().map(|column| column["name"].clone()).collect();
    assert_eq!(names, ["x", "late"]);
    assert_eq!(workdir.run("query t --count").ok().out, "4\n");
}

#[test]
fn patterns_are_previewed_followed_and_taken_in_parts_without_python() {
    let workdir = Workdir::new();
    workdir.write("a_9.csv", "x,y\n1,1\n");
    workdir.write("a_10.csv", "x,y\n2,2\n,3\n");
    let plan = workdir.run("ingest t a_*.csv --dimensions x --dry-run").ok().out;
    assert!(plan.contains("files       2: a_9.csv to a_10.csv") && plan.contains("x  int64"), "{plan}");
    assert!(!workdir.path("t").exists());
    let followed = workdir.run("ingest t a_*.csv --dimensions x --read bad_rows=skip --follow=10ms --json").ok().json();
    assert_eq!((&followed["rows"], &followed["rows_skipped"]["a_10.csv"]), (&2.into(), &1.into()));
    workdir.write("a_11.csv", "x,y\nthree,3\n");
    workdir.write("a_12.csv", "x,y\n4,4\n");
    let told = workdir.run("ingest t a_*.csv --keep-going");
    told.fails(2, &["a_11.csv: row 1, column \"x\": cannot read \"three\""]);
    assert_eq!(workdir.run("query t --count").ok().out, "3\n");
}

#[test]
fn columns_can_be_chosen_and_types_widen() {
    let workdir = Workdir::new();
    workdir.save("a.parquet", &particles(0, 100));
    workdir.run("ingest t a.parquet --dimensions x,y --read columns=x,y,pid --read types=x=float64").ok();
    let columns = workdir.run("info t --json").ok().json()["columns"].clone();
    let columns: Vec<_> =
        columns.as_array().unwrap().iter().map(|c| (c["name"].clone(), c["data_type"].clone())).collect();
    let pair = |name: &str, data_type: &str| (name.into(), data_type.into());
    assert_eq!(columns, [pair("x", "Float64"), pair("y", "Float32"), pair("pid", "Int64")]);
    let told = workdir.run("ingest t a.parquet --json").ok().json();
    assert_eq!((&told["skipped"], &told["columns_added"]), (&1.into(), &serde_json::json!([])));
    workdir.run("ingest t a.parquet --read columns=pid,y,x --again").ok();
    assert_eq!(workdir.run("query t --count").ok().out, "200\n");
    workdir
        .run("ingest t2 a.parquet --dimensions x --read types=x=int64")
        .fails(2, &["a.parquet: column \"x\" is Float32, which does not fit the table's Int64 without loss"]);
}

#[test]
fn info_and_verify() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, MANY));
    let info = workdir.run("info t").ok();
    for word in ["records     5,000", "identity    pid (seed 0)", "dimension", "kind", "Utf8", "writer"] {
        assert!(info.out.contains(word), "{word:?} in {}", info.out);
    }
    let info = workdir.run("info t --json").ok().json();
    assert_eq!(info["dimensions"].as_array().unwrap().len(), 3);
    assert_eq!(info["columns"][0]["name"], "pid");
    assert!(workdir.run("verify t").ok().out.starts_with("intact: 5,000 records in "));
    let report = workdir.run("verify t --json").ok().json();
    assert_eq!((&report["rows"], report["findings"].as_array().map(Vec::len)), (&MANY.into(), Some(0)));

    let largest =
        files_below(&workdir.path("t")).into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&largest, bytes).unwrap();
    let found = workdir.run("verify t --deep").fails(1, &["t: ", "finding"]);
    assert!(!found.out.is_empty());
    workdir.run("query t -o all.csv").fails(1, &["damaged data in ", " at byte ", "`kubist salvage`"]);
    assert!(!workdir.path("all.csv").exists());
    let report = workdir.run("verify t --deep --json");
    assert_eq!(report.code, 1);
    assert!(!report.json()["findings"].as_array().unwrap().is_empty());

    let lost = workdir.run("verify t --deep --json").json()["rows_lost"].as_i64().unwrap();
    assert!(lost > 0 && lost < MANY);
    let saved = workdir.run("salvage t saved").fails(1, &["t: ", "lost"]);
    assert!(saved.out.contains("damaged data in ") && saved.out.contains(" costs "), "{}", saved.out);
    assert_eq!(workdir.run("query saved --count").ok().out, format!("{}\n", MANY - lost));
    assert!(workdir.run("verify saved --deep").ok().out.starts_with("intact: "));
    workdir.run("salvage t saved").fails(3, &["saved already exists"]);
    let whole = workdir.run("salvage saved again --json").ok().json();
    assert_eq!((&whole["rows"], &whole["rows_lost"]), (&(MANY - lost).into(), &0.into()));
}

#[test]
fn a_plot_is_a_picture() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, MANY));
    let size = |name: &str| {
        let file = BufReader::new(std::fs::File::open(workdir.path(name)).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        let colors: std::collections::HashSet<&[u8]> = pixels.chunks(3).collect();
        assert!(colors.len() > 50, "{name} is more than paper");
        (info.width, info.height)
    };
    let told = workdir.run("plot t --axes x,y --color z -o a.png --limit 1000").ok();
    assert!(told.err.starts_with("a.png: 1,000 records, fraction 0."), "{}", told.err);
    assert_eq!(size("a.png").0, 1200);
    let options = "--box x=0.2:0.6 --sample 50% --log --size 640x480 --style colormap=magma,theme=dark --json";
    let cost = workdir.run(&format!("plot t --axes x,y --color z -o b.png {options}")).ok().json();
    assert_eq!(size("b.png"), (640, 480));
    assert_eq!((&cost["width"], &cost["fraction"]), (&640.into(), &0.5.into()));
    workdir.run_of(&["plot", "t", "--axes", "x,z", "-o", "c.png", "--title", "Density", "--where", "stuck"]).ok();
    size("c.png");
    workdir.run("plot t --axes X,Z --color Y -o c.png").ok();
    size("c.png");
    let empty = workdir.run("plot t --axes x,y -o d.png --box x=7:").ok();
    assert!(empty.err.contains("the plot is empty"), "{}", empty.err);
    std::fs::write(workdir.path("far.csv"), "x,y,w\n0,0,1.5\n1,0,inf\n0,1,\n1,1,2.5\n").unwrap();
    workdir.run("ingest far far.csv --dimensions x,y").ok();
    workdir.run("plot far --axes x,w -o far.svg").ok();
    let svg = std::fs::read_to_string(workdir.path("far.svg")).unwrap();
    assert!(svg.contains("all 4 points (2 not drawn: no position along x and w)"), "{svg}");
    workdir.run("plot t --axes x,kind -o e.png").fails(2, &["\"kind\" (Utf8) cannot be drawn"]);
    workdir.run("plot t --axes x -o e.png").fails(2, &["two columns"]);
    assert!(!workdir.path("e.png").exists());
}

#[test]
fn wrong_usage_and_wrong_input_are_code_2() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    for (arguments, part) in [
        ("query", "required arguments"),
        ("query t --sample 0", "a fraction is above 0"),
        ("query t --sample 2", "a fraction is above 0"),
        ("query t --window 0.5:0.1", "0 <= LO < HI <= 1"),
        ("query t --limit 0", "--limit"),
        ("query t --limit x", "invalid value 'x' for '--limit <ROWS>': expected an integer"),
        ("retract t --step-after x", "invalid value 'x' for '--step-after <STEP>': expected an integer"),
        ("retract t --step-after 99999999999999999999", "'--step-after <STEP>': the number is too large"),
        ("query t --box x", "expected COLUMN=LOW:HIGH"),
        ("query t --box w=0:1", "the columns are `pid`, `x`, `y`, `z`, `kind`, `stuck`"),
        ("query t --box x=low:high", "\"low\" is not a value for column \"x\" (Float32)"),
        ("query t --per-cell 0:x=1", "expected K:COLUMN=WIDTH"),
        ("query t --columns w", "w"),
        ("query t --where w>1", "w"),
        ("query t --where x>", ""),
        ("query t -o out.xyz", "the file extension names no format"),
        ("query t --count -o out.csv", "cannot be used with"),
        ("estimate t", "required arguments"),
        ("estimate t mode(x)", "there is no aggregate \"mode\""),
        ("estimate t mean(kind)", "`kind` of type Utf8 is not a number"),
        ("estimate t mean(w)", "no column `w`"),
        ("estimate t mean(x) --error 0", "a fraction is above 0"),
        ("estimate t mean(x) --within soon", "is no time, as 2, '2 s' or '500 ms'"),
        ("estimate t mean(x) --confidence 100%", "confidence must be between 0 and 1"),
        ("ingest t2 source.parquet --dimensions w", "no column `w`"),
        ("ingest t2 source.parquet --dimensions x=0:", "a domain needs two bounds"),
        ("ingest t2 source.parquet --dimensions x=1:0", "x"),
        ("ingest t2 source.parquet --dimensions x --identity w", "w"),
        ("ingest t2 source.parquet --dimensions x --writer memory_bytes=lots", "is not a size"),
        ("ingest t source.parquet --dimensions x,y", "has the dimensions x,y,z, not x,y"),
        ("ingest t source.parquet --identity x", "has the identity pid, not x"),
        ("ingest t source.parquet --create seed=3", "has the seed 0, not 3"),
        ("plot t --axes x,y -o p.png --style colormap=rainbow", "rainbow"),
        ("nonsense", "nonsense"),
    ] {
        workdir.run(arguments).fails(2, &[part]);
    }
    assert!(!workdir.path("t2").exists());
}

#[test]
fn absent_and_present_places_are_code_3() {
    let workdir = Workdir::new();
    workdir.save("a.parquet", &particles(0, 10));
    for command in ["query none", "info none", "verify none", "plot none --axes x,y -o a.png"] {
        workdir.run(command).fails(3, &["none"]);
    }
    workdir.run("ingest none a.parquet").fails(3, &["there is no table at none; --dimensions makes a new one"]);
    workdir.run("ingest t missing.parquet --dimensions x").fails(3, &["missing.parquet does not exist"]);
    std::fs::create_dir(workdir.path("full")).unwrap();
    workdir.write("full/notes.txt", "mine");
    workdir.run("ingest full a.parquet --dimensions x").fails(3, &["full"]);
    assert_eq!(std::fs::read_to_string(workdir.path("full/notes.txt")).unwrap(), "mine");
    workdir.run("info full").fails(3, &["full"]);
    workdir.table("t", &particles(0, 10));
    workdir.run("query t -o no/such/folder/a.csv").fails(3, &["no/such/folder/a.csv"]);
}

#[test]
fn drift_is_refused_before_anything_is_written() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    let good = particles(100, 100);
    workdir.save("good.parquet", &good);
    workdir.save("missing.parquet", &good.project(&[0, 1, 2, 4, 5]).unwrap());
    workdir.write("short.csv", "pid,x,y,z,kind,stuck\n1,0.1,0.1,0.1,a,true\n2,0.1\n");
    let wide = RecordBatch::try_from_iter(good.schema().fields().iter().zip(good.columns()).map(|(field, column)| {
        let wide = if field.name() == "x" {
            arrow_cast::cast(column, &arrow_schema::DataType::Float64).unwrap()
        } else {
            column.clone()
        };
        (field.name().clone(), wide)
    }));
    workdir.save("wide.arrow", &wide.unwrap());
    for (file, parts) in [
        ("missing.parquet", ["column \"z\" is missing", "the table needs a value in it (Float32)"]),
        ("short.csv", ["incorrect number of fields for line 3", "expected 6 got 2"]),
        ("wide.arrow", ["column \"x\" is Float64", "does not fit the table's Float32 without loss"]),
    ] {
        workdir.run(&format!("ingest t good.parquet {file}")).fails(2, &[&[file][..], &parts].concat());
        assert_eq!(workdir.run("query t --count").ok().out, "100\n", "{file}");
    }
    // An error while reading keeps earlier files, and the message says so.
    workdir.write("typo.csv", "kind,pid,x,y,z,stuck\na,1,0.1,0.1,0.1,true\na,2,0.1,0.1,O.2,true\n");
    let typo = "typo.csv: row 2, column \"z\": cannot read \"O.2\" as Float32";
    workdir.run("ingest t typo.csv").fails(2, &[typo, "nothing was written"]);
    // A new table takes the column as string, which cannot be a dimension.
    let typo = "typo.csv: row 2, column \"z\": cannot read \"O.2\" as Float64";
    workdir.run("ingest new typo.csv --dimensions x,z").fails(2, &[typo, "\"z\" takes numbers"]);
    assert!(!workdir.path("new").exists());
    assert_eq!(workdir.run("query t --count").ok().out, "100\n");
    let typo = "typo.csv: row 2, column \"z\": cannot read \"O.2\" as Float32";
    workdir.run("ingest t good.parquet typo.csv").fails(2, &[typo, "committed and kept: good.parquet"]);
    assert_eq!(workdir.run("query t --count").ok().out, "200\n");
    workdir.run("verify t --deep").ok();
}

#[test]
fn text_files_of_one_table_meet_in_one_type() {
    let workdir = Workdir::new();
    workdir.write("a.csv", "pid,x,u\n1,0,0\n2,1,0\n");
    workdir.write("b.csv", "pid,x,u\n3,0.5,1e-3\n");
    workdir.run("ingest t a.csv b.csv --dimensions x --identity pid").ok();
    let info = workdir.run("info t --json").ok().json();
    let types: Vec<&str> =
        info["columns"].as_array().unwrap().iter().map(|c| c["data_type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Int64", "Float64", "Float64"]);
    assert_eq!(workdir.run("query t --box u=0.0005: --columns pid,u").ok().out, "pid,u\n3,0.001\n");
}

#[test]
fn damaged_files_are_errors_that_name_them() {
    let workdir = Workdir::new();
    let batch = particles(0, 1000);
    for name in ["a.parquet", "a.arrow", "a.npz"] {
        workdir.save(name, &batch);
        let bytes = std::fs::read(workdir.path(name)).unwrap();
        workdir.write(name, &bytes[..bytes.len() / 2]);
        workdir.run(&format!("ingest t {name} --dimensions x")).fails(2, &[name]);
    }
    workdir.write("a.csv", "");
    workdir.run("ingest t a.csv --dimensions x").fails(2, &["a.csv: the file is empty"]);
    workdir.write("a.ipc", "\x01HDF");
    workdir.run("ingest t a.ipc --dimensions x").fails(2, &["a.ipc: not a file that can be read here"]);
    assert!(!workdir.path("t").exists());
}

#[test]
fn a_failed_query_leaves_the_old_file_alone() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    workdir.write("out.csv", "old");
    workdir.run_of(&["query", "t", "--where", "x >", "-o", "out.csv"]).fails(2, &[]);
    assert_eq!(std::fs::read_to_string(workdir.path("out.csv")).unwrap(), "old");
    assert_eq!(workdir.files(), ["out.csv", "source.parquet"]);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 20_000));
    let mut child = workdir.command("query t").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "pid,x,y,z,kind,stuck\n");
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn an_interrupted_ingest_keeps_whole_commits() {
    const ROWS: i64 = 20_000;
    let workdir = Workdir::new();
    workdir.save("part.parquet", &particles(0, ROWS));
    let files = vec!["part.parquet"; 1000].join(" ");
    let kubist = workdir.command(&format!("ingest t {files} --dimensions x,y,z --identity pid --again"));
    // The test's parent process may ignore Ctrl-C, and kubist inherits that.
    let child = Command::new("env")
        .arg("--default-signal=INT")
        .arg(kubist.get_program())
        .args(kubist.get_args())
        .current_dir(workdir.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while workdir.run("info t --json").code != 0 || workdir.run("info t --json").json()["rows"] == 0 {
        assert!(started.elapsed() < Duration::from_secs(120), "no commit in two minutes");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output: files::Ran = child.wait_with_output().unwrap().into();
    output.fails(130, &["interrupted; committed and kept: "]);
    let rows = workdir.run("info t --json").ok().json()["rows"].as_i64().unwrap();
    assert!(rows > 0 && rows % ROWS == 0 && rows < 1000 * ROWS, "{rows}");
    assert_eq!(workdir.run("query t --count").ok().out, format!("{rows}\n"));
    workdir.run("verify t --deep").ok();
    workdir.run("ingest t part.parquet").ok();
}

#[test]
fn help_has_examples_and_exit_codes() {
    let workdir = Workdir::new();
    let help = workdir.run("--help").ok().out;
    for code in ["0    done", "1    the table", "2    wrong usage", "3    something", "4    the operating", "130  "] {
        assert!(help.contains(code), "{code}");
    }
    for command in [
        "ingest",
        "index",
        "query",
        "sql",
        "trajectories",
        "info",
        "verify",
        "salvage",
        "plot",
        "alter",
        "copy",
        "sync",
        "clone",
        "deepen",
        "regrid",
        "retract",
        "drop",
        "cache",
    ] {
        let help = workdir.run(&format!("{command} --help")).ok().out;
        assert!(help.contains("Examples:\n  kubist ") && help.contains("Exit codes:"), "{command}");
    }
    assert!(workdir.run("--version").ok().out.starts_with("kubist "));
}
