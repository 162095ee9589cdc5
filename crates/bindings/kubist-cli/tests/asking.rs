//! Query options as users type them, and the messages for mistyped input.

use crate::files::{Workdir, csv_column, particles, rows};

fn column(workdir: &Workdir, options: &[&str], name: &str) -> Vec<f64> {
    csv_column(&workdir.run_of(&[&["query", "t", "--format", "csv"], options].concat()).ok().out, name)
}

#[test]
fn records_come_in_the_order_asked_for() {
    let workdir = Workdir::new();
    let batch = particles(0, 5000);
    workdir.table("t", &batch);
    let mut expected: Vec<f64> =
        rows(&batch).iter().filter_map(|particle| particle.x.to_string().parse().ok()).collect();
    expected.sort_by(|one, other| other.total_cmp(one));
    assert_eq!(column(&workdir, &["--order-by", "x desc"], "x"), expected);
    assert_eq!(column(&workdir, &["--order-by", "X DESC,pid", "--limit", "7"], "x"), expected[..7]);
    let by_priority = column(&workdir, &["--order-by", "priority"], "pid");
    assert_eq!(column(&workdir, &["--limit", "100"], "pid"), by_priority[..100]);
    assert_eq!(
        column(&workdir, &["--window", "0:1%", "--inclusion", "p"], "p"),
        column(&workdir, &["--sample", "1%", "--inclusion", "p"], "p")
    );
    assert!(column(&workdir, &["--sample", "1%", "--inclusion", "p"], "p").iter().all(|p| *p == 0.01));
    // No row belongs to a step, so an open range includes these rows, and a range with a lower bound does not.
    assert_eq!(workdir.run("query t --steps :7 --count").ok().out, "5000\n");
    assert_eq!(workdir.run("query t --steps 3:7 --count").ok().out, "0\n");
    assert_eq!(workdir.run("query t --order-by x --limit 3 --count").ok().out, "3\n");
    let table = workdir.run("query t --order-by pid --limit 2 --format table").ok();
    assert!(table.out.lines().count() == 4, "{}", table.out);
    let plan = workdir.run_of(&["explain", "t", "--order-by", "x desc,pid", "--limit", "5"]).ok();
    assert!(plan.out.contains("x desc, pid, the first 5"), "{}", plan.out);
    workdir.run_of(&["query", "t", "--order-by", "x", "--limit", "3", "--inclusion", "p"]).fails(2, &["no sample"]);
    workdir.run("query t --order-by diametre").fails(2, &["order_by: no column `diametre`"]);
    workdir.run("query t --order-by kid").fails(2, &["did you mean `kind` or `pid`?"]);
}

#[test]
fn expressions_are_columns() {
    let workdir = Workdir::new();
    let batch = particles(0, 500);
    workdir.table("t", &batch);
    let asked = "pid, atan2(y, x) as phi, greatest(x, y)";
    let found = workdir.run_of(&["query", "t", "--columns", asked, "--order-by", "phi desc,pid", "--format", "csv"]);
    let csv = found.ok().out;
    assert_eq!(csv.lines().next().unwrap(), "pid,phi,\"greatest(x, y)\"");
    let phi = csv_column(&csv, "phi");
    assert!(phi.len() == 500 && phi.is_sorted_by(|one, other| one >= other), "{phi:?}");
    workdir.run_of(&["query", "t", "--columns", "x, y as x"]).fails(2, &["\"x\" is asked for twice"]);
    workdir.run_of(&["query", "t", "--columns", "sqrt(speed)"]).fails(2, &["sqrt(speed): no column `speed`"]);
    workdir.run_of(&["query", "t", "--columns", "x,,y"]).fails(2, &["expected columns separated by commas"]);
    let named = ["estimate", "t", "mean(x) as m", "--group-by", "floor(x * 2) as half", "--sample", "1", "--json"];
    let found = workdir.run_of(&named).ok().json();
    let figure = &found["figures"][0];
    assert_eq!((figure["aggregate"].as_str(), figure["group"]["half"].as_str()), (Some("m"), Some("0.0")), "{found}");
}

#[test]
fn units_of_columns_are_understood() {
    let workdir = Workdir::new();
    let batch = particles(0, 5000);
    workdir.table("t", &batch);
    workdir.run("alter t --unit X=m").ok();
    let between = rows(&batch).iter().filter(|p| p.x >= 0.25 && p.x <= 0.5).count();
    for question in [
        &["--box", "x=25cm:0.5m"][..],
        &["--box", "X=250mm:0.0005km"],
        &["--box", "x=0.25:0.5"],
        &["--where", "x >= 25cm AND x <= '50 cm'"],
        &["--where", "X BETWEEN 250000um AND 0.5"],
    ] {
        let count = workdir.run_of(&[&["query", "t", "--count"], question].concat()).ok();
        assert_eq!(count.out, format!("{between}\n"), "{question:?}");
    }
    workdir.run("query t --box x=1s:").fails(2, &["column `x` is in m, and cannot be compared with 1 s"]);
    workdir.run("query t --box x=1parsnip:").fails(2, &["the unit `parsnip` of 1 parsnip is not known"]);
    workdir.run("query t --box y=1cm:").fails(2, &["column `y` has no unit, so it cannot be compared with 1 cm"]);
    let of_condition = |text: &str| workdir.run_of(&["query", "t", "--count", "--where", text]).ok().out;
    assert_eq!(of_condition("x * 2 + 1cm > 0.5m"), of_condition("x * 2 > 0.49"));
    workdir.run_of(&["query", "t", "--where", "y + 1 > 1cm"]).fails(2, &["what is computed has no unit"]);
    workdir
        .run_of(&["query", "t", "--where", "x * x > 1cm"])
        .fails(2, &["is in m^2, and cannot be compared with 1 cm"]);
    let cells = |width: &str| workdir.run_of(&["query", "t", "--per-cell", width]).ok().out;
    assert_eq!(cells("1:x=25cm"), cells("1:x=0.25"));
    workdir.run_of(&["query", "t", "--per-cell", "1:x=1s"]).fails(2, &["per_cell: column `x` is in m"]);
    let figures = |asked: &[&str]| {
        let found = workdir.run_of(&[&["estimate", "t", "--sample", "1", "--json"], asked].concat()).ok().json();
        let mut figures = found["figures"].as_array().unwrap().clone();
        figures.iter_mut().for_each(|figure| {
            let figure = figure.as_object_mut().unwrap();
            figure.remove("aggregate");
            figure.remove("group");
        });
        assert!(figures.len() > 3, "{found}");
        figures
    };
    let by = |text: &str| figures(&["count()", "--group-by", text]);
    assert_eq!(by("bin(x, 10cm)"), by("bin(x, 0.1)"));
    assert_eq!(figures(&["histogram(x, 25cm, 0cm, 1m)"]), figures(&["histogram(x, 4, 0, 1)"]));
    assert_eq!(figures(&["histogram(x, '0.25 m')"]).len(), 4);
    workdir.run_of(&["estimate", "t", "histogram(x, 1s)"]).fails(2, &["column `x` is in m, and 1 s is no width of it"]);
    assert!(workdir.run_of(&["estimate", "t", "mean(x * x)"]).ok().out.contains(" m^2"));
    assert_eq!(of_condition("x > 1 + 49cm"), of_condition("x > 0.5"));
}

#[test]
fn a_box_beyond_all_records_is_told_with_where_they_lie() {
    let workdir = Workdir::new();
    workdir.write("a.csv", "lon,time,kind\n190.5,2024-01-01,sea\n260,2024-03-01,land\n");
    workdir.run("ingest t a.csv --dimensions lon,time").ok();
    let beyond = "note: no row has lon in this range; its values are from 190.5 to 260\n";
    for question in
        ["query t", "query t --count", "estimate t mean(lon)", "estimate t count()", "trajectories t --by kind"]
    {
        let ran = workdir.run(&format!("{question} --box LON=-110:-80,time=2024-01-01:2024-02-01")).ok();
        assert!(ran.err.ends_with(beyond), "{question}: {}", ran.err);
    }
    let ran = workdir.run("query t --box time=2025-01-01:").ok();
    assert!(ran.err.contains("time in this range; its values are from 2024-01-01 to 2024-03-01"), "{}", ran.err);
    let ran = workdir.run("query t --box kind=ice").ok();
    assert!(ran.err.ends_with("note: no row has kind in this range\n"), "{}", ran.err);
    // Each range alone has rows but the box has none; JSON output has no notes; the sample is empty.
    for question in ["--box lon=190:191,kind=land", "--json --box lon=0:1", "--box lon=190:191 --sample 1e-9"] {
        let ran = workdir.run(&format!("query t {question}")).ok();
        assert!(!ran.err.contains("no row has"), "{question}: {}", ran.err);
    }
}

#[test]
fn a_table_is_made_by_ends_with_units() {
    let workdir = Workdir::new();
    let batch = particles(0, 2000);
    workdir.save("a.parquet", &batch);
    let ingest = |dimensions: &str| {
        let table = format!("t{}", dimensions.len());
        let asked = ["ingest", &table, "a.parquet", "--dimensions", dimensions, "--create", "units=x=m"];
        (workdir.run_of(&asked), table)
    };
    let (made, in_units) = ingest("x=0cm:100 cm,y");
    made.ok();
    let (made, plain) = ingest("x=0:1,y");
    made.ok();
    let dimensions = |table: &str| workdir.run_of(&["info", table, "--json"]).ok().json()["dimensions"].clone();
    assert_eq!(dimensions(&in_units), dimensions(&plain));
    ingest("x=0s:1 s,y").0.fails(2, &["dimension \"x\": column `x` is in m, and cannot be compared with 0 s"]);
    ingest("x,y=0cm:1 cm").0.fails(2, &["dimension \"y\": column `y` has no unit, so 0 cm cannot be used with it"]);
    workdir.run_of(&["regrid", &plain, "--dimensions", "x=0mm:2000mm,y"]).ok();
    let loud = ["ingest", "loud", "a.parquet", "--dimensions", "X=0:1,y", "--create", "units=x=m"];
    workdir.run_of(&loud).ok();
    assert_eq!(dimensions("loud"), dimensions(&in_units));
    workdir.run_of(&["ingest", "twice", "a.parquet", "--dimensions", "x=0:1,X=0:2"]).fails(2, &["twice"]);
    workdir
        .run_of(&["ingest", "none", "a.parquet", "--dimensions", "x,q=0:1"])
        .fails(2, &["--dimensions: no column `q`"]);
}

#[test]
fn trajectories_come_in_order_of_time() {
    let workdir = Workdir::new();
    let batch = particles(0, 3000);
    workdir.table("t", &batch);
    let paths = |options: &[&str]| {
        workdir.run_of(&[&["trajectories", "t", "--by", "kind", "--format", "csv"], options].concat()).ok().out
    };
    let asked = paths(&["--box", "x=0:0.1", "--order-by", "kind,pid"]);
    assert!(asked.lines().count() > 100);
    // Its identity is pid, and it has no time column.
    assert_eq!(paths(&["--box", "x=0:0.1"]), asked);
    assert_eq!(paths(&["--box", "x=0:0.1", "--limit", "7"]).lines().count(), 8);
    assert_eq!(paths(&["--where", "x < 0.1", "--columns", "pid"]).lines().next(), Some("pid"));
    workdir.run_of(&["trajectories", "t", "--by", "kid"]).fails(2, &["did you mean `kind`"]);
}

#[test]
fn messages_say_what_a_person_would() {
    let workdir = Workdir::new();
    workdir.table("run.kubist", &particles(0, 100));
    workdir.run("info rum.kubist").fails(3, &["rum.kubist does not exist; did you mean run.kubist?"]);
    workdir.run("info nope").fails(3, &["nope does not exist"]);
    workdir
        .run_of(&["query", "run.kubist", "--where", "pid >"])
        .fails(2, &["expected a value after `>` at character 6"]);
    workdir.run("query run.kubist --limti 3").fails(2, &["--limit"]);
    workdir.run("query run.kubist --columns PID,klnd").fails(2, &["no column `klnd`; did you mean `kind`?"]);
    workdir.run("estimate run.kubist maen(x)").fails(2, &["there is no aggregate \"maen\"; did you mean mean"]);
    let ending = ["a plot is a PNG, SVG or PDF", "not .jpg"];
    workdir.run("plot run.kubist --axes x,y -o a.jpg").fails(2, &ending);
    workdir.run("plot run.kubist --axes x,y -o a.gif").fails(2, &["not .gif", "an animation needs --animate COLUMN"]);
    workdir
        .run("plot run.kubist --axes x,y --animate pid -o a.svg")
        .fails(2, &["an animation is a GIF, an MP4 or a folder of PNG files", "not .svg"]);
    workdir.run("model fit nowhere --plot a.svg --output f.json").fails(2, &["charts are PNG files", "not .svg"]);
    assert!(!["a.jpg", "a.gif", "a.svg"].iter().any(|name| workdir.path(name).exists()));
    let found = workdir.run("query run.kubist --box PID=7 --columns KIND,Pid").ok();
    assert_eq!(found.out.lines().next(), Some("kind,pid"));
    assert_eq!(found.out.lines().count(), 2);
}

#[test]
fn numbers_are_pressed_as_asked_and_info_says_what_columns_take() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 5000));
    let ingest = "in.parquet --dimensions x,y,z --identity pid";
    let columns = |table: &str| workdir.run_of(&["info", table, "--columns", "--json"]).ok().json();
    let held = |table: &str| -> f64 {
        let columns = columns(table)["columns"].clone();
        columns.as_array().unwrap().iter().map(|column| column["bytes_per_row"].as_f64().unwrap()).sum()
    };
    for how in ["fast", "balanced", "small"] {
        workdir.run(&format!("ingest {how} {ingest} --create compression={how}")).ok();
        assert_eq!(workdir.run_of(&["info", how, "--json"]).ok().json()["compression"], how);
    }
    assert!(held("small") <= held("balanced") && held("balanced") < held("fast"));
    assert!(columns("small")["columns"].to_string().contains("\"pco\""));
    assert!(!columns("balanced")["columns"].to_string().contains("\"pco\""));
    let told = workdir.run(&format!("ingest fast {ingest} --create compression=small")).fails(2, &[]).err;
    assert!(told.contains("has the compression fast, not small"), "{told}");
    let told = workdir.run(&format!("ingest new {ingest} --create compression=tiny")).fails(2, &[]).err;
    assert!(told.contains("fast, balanced, small"), "{told}");

    let sizes = held("small");
    workdir.run("alter fast --compression small").ok();
    workdir.run("optimize fast --recompress").ok();
    assert_eq!(workdir.run_of(&["info", "fast", "--json"]).ok().json()["compression"], "small");
    assert!((held("fast") - sizes).abs() < 0.1 * sizes, "{} and {sizes} bytes", held("fast"));
    workdir.run("query fast -o fast.parquet").ok();
    assert_eq!(rows(&workdir.parquet("fast.parquet")), rows(&particles(0, 5000)));
    workdir.run("verify fast --deep").ok();

    let found = columns("balanced");
    let shares = |column: &serde_json::Value| -> f64 {
        column["encodings"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum()
    };
    for column in found["columns"].as_array().unwrap() {
        assert!((shares(column) - 1.0).abs() < 1e-9, "{column}");
        assert!(column["values_per_second"].as_f64().unwrap() > 0.0, "{column}");
    }
    let page = workdir.run("info balanced --columns").ok().out;
    assert!(["pid", "zone maps", "together", "bytes/record", "frame"].iter().all(|word| page.contains(word)), "{page}");
}

#[test]
fn bounds_of_errors_are_said_at_the_creation_and_shown() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 5000));
    let ingest = "in.parquet --dimensions x,y,z --identity pid --create units=x=m";
    workdir.run(&format!("ingest exact {ingest}")).ok();
    let bounded: Vec<&str> = ["ingest", "t"]
        .into_iter()
        .chain(ingest.split(' '))
        .chain(["--create", "accuracy=x=1mm", "--create", "accuracy=y=1e-3,z=1e-3 rel"])
        .collect();
    workdir.run_of(&bounded).ok();
    workdir.run_of(&bounded).ok();
    let told = workdir.run(&format!("ingest t {ingest} --create accuracy=y=1e-4")).fails(2, &[]).err;
    assert!(told.contains("0.001") && told.contains("1e-4") && told.contains("column y"), "{told}");
    let told = workdir.run(&format!("ingest new {ingest} --create accuracy=x=-1")).fails(2, &[]).err;
    assert!(told.contains("\"x\"") && told.contains("-1"), "{told}");

    let shown = workdir.run("info t").ok().out;
    assert!(shown.contains("accuracy 0.001 rel"), "{shown}");
    let of = |table: &str, name: &str| {
        let found = workdir.run_of(&["info", table, "--columns", "--json"]).ok().json();
        let columns = found["columns"].as_array().unwrap().clone();
        columns.into_iter().find(|column| column["name"] == name).unwrap()
    };
    assert_eq!((of("t", "x")["accuracy"].as_str(), of("t", "pid")["accuracy"].as_str()), (Some("0.001"), None));
    for name in ["x", "y", "z"] {
        let bytes = |table| of(table, name)["bytes_per_row"].as_f64().unwrap();
        assert!(bytes("t") < 0.7 * bytes("exact"), "{name}: {} and {} bytes", bytes("t"), bytes("exact"));
    }
    assert!(workdir.run("info t --columns").ok().out.contains("0.001 rel"));
    workdir.run("copy t copy").ok();
    assert_eq!(of("copy", "z")["accuracy"], "0.001 rel");
    workdir.run("verify copy --deep").ok();

    workdir.run_of(&["alter", "t", "--add-column", "age:float64=0.3", "--accuracy", "age=0.01 rel"]).ok();
    assert!(workdir.run("info t").ok().out.contains("accuracy 0.01 rel"));
    let told = workdir.run("alter t --add-column heat:float64 --accuracy age=1").fails(2, &[]).err;
    assert!(told.contains("--add-column does not add this column"), "{told}");
}
