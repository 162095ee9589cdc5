//! Table maintenance through the command.

use crate::files;
use crate::files::{Workdir, files_below, particles, rows};
use kubist::Table;

#[test]
fn columns_units_and_metadata_come_later() {
    let workdir = Workdir::new();
    let batch = particles(0, 2000);
    workdir.save("in.parquet", &batch);
    let ingest = "ingest t in.parquet --dimensions x,y,z --identity pid --create units=x=m,y=m --create metadata=run=7";
    workdir.run(ingest).ok();
    // Repeating the command works; another unit or value is refused.
    workdir.run(&format!("{ingest} --again")).ok();
    workdir.run("ingest t in.parquet --create units=x=mm").fails(2, &["column x", "in m, not in mm"]);
    workdir.run("ingest t in.parquet --create metadata=run=8").fails(2, &["\"run\"", "7, not 8"]);
    workdir.run("ingest new in.parquet --dimensions x --create units=q=m").fails(2, &["'q'", "the columns are pid, x"]);

    let altered = workdir
        .run_of(&[
            "alter",
            "t",
            "--add-column",
            "age:float64=0.5",
            "--add-column",
            "note:string",
            "--unit",
            "age=s",
            "--no-unit",
            "y",
            "--set",
            "inlet={\"flow\": 0.5}",
            "--unset",
            "run",
        ])
        .ok();
    assert!(altered.err.contains("t: column \"age\" added (Float64)"), "{}", altered.err);
    workdir.run("alter t --of z --set axis=streamwise").ok();
    let info = workdir.run("info t").ok().out;
    for line in [
        "x       Float32  m",
        "age     Float64  s     added, 0.5 before",
        "note    Utf8           added, null before",
        "z       Float32        axis=streamwise",
        "inlet     {\"flow\":0.5}",
    ] {
        assert!(info.contains(line), "{line:?} in {info}");
    }
    let info = workdir.run("info t --json").ok().json();
    assert_eq!(info["metadata"], serde_json::json!({"format": "parquet", "inlet": {"flow": 0.5}}));
    assert_eq!(info["columns"][1]["unit"], "m");
    assert_eq!(info["columns"][2]["unit"], serde_json::Value::Null);
    workdir.run("ingest t in.parquet --again").ok();
    workdir.write("more.csv", "pid,x,y,z,kind,stuck,age\n9000,0.5,0.5,0.5,water,true,2\n");
    workdir.run("ingest t more.csv").ok();
    assert_eq!(
        workdir.run_of(&["query", "t", "--where", "age > 1", "--columns", "pid,age,note"]).ok().out,
        "pid,age,note\n9000,2.0,\n"
    );
    assert_eq!(workdir.run_of(&["query", "t", "--where", "age = 0.5", "--count"]).ok().out, "6000\n");
    workdir.run("verify t").ok();
}

#[test]
fn what_cannot_be_altered_is_said() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 10));
    let before = workdir.run("info t --json").ok().json()["columns"].clone();
    for (arguments, parts) in [
        ("alter t", &["nothing to change"][..]),
        ("alter t --add-column x:float32", &["\"x\" is in the table already"]),
        ("alter t --add-column age", &["expected NAME:TYPE"]),
        ("alter t --add-column age:quaternion", &["not a type"]),
        ("alter t --add-column age:uint8=300", &["\"age\"", "300"]),
        ("alter t --add-column age:uint8=much", &["\"much\" is not a value"]),
        ("alter t --add-column age:uint8 --required", &["\"age\"", "must not be null"]),
        ("alter t --unit q=m", &["no column `q`", "`pid`, `x`"]),
        ("alter t --of q --set a=1", &["no column `q`"]),
        ("alter t --of x", &["--of"]),
        ("alter t --set a=1 --unset a", &["--unset a"]),
    ] {
        workdir.run(arguments).fails(2, parts);
    }
    workdir.run("alter nowhere --unit x=m").fails(3, &["nowhere"]);
    assert_eq!(workdir.run("info t --json").ok().json()["columns"], before);
}

#[test]
fn a_copy_and_another_grid() {
    let workdir = Workdir::new();
    let batch = particles(0, 3000);
    workdir.table("t", &batch);
    workdir.run("alter t --add-column age:int32=3 --unit x=m --set run=a").ok();
    let told = workdir.run("copy t same").ok();
    assert!(told.err.contains("same: 3,000 records from t in "), "{}", told.err);
    let copied = workdir.run("copy t other --dimensions x=0:8,y=quantile,z --capacity 100 --json").ok().json();
    assert_eq!(copied["rows"], 3000);
    workdir.run("copy same turned --dimensions z --memory 64KiB").ok();
    let sample = |table: &str| workdir.run(&format!("query {table} --limit 50")).ok().out;
    for table in ["same", "other", "turned"] {
        workdir.run(&format!("verify {table}")).ok();
        workdir.run(&format!("query {table} -o out.parquet")).ok();
        assert_eq!(rows(&workdir.parquet("out.parquet")), rows(&batch), "{table}");
        assert_eq!(sample(table), sample("t"));
    }
    let info = |table: &str| workdir.run(&format!("info {table} --json")).ok().json();
    assert_eq!(info("same")["columns"], info("t")["columns"]);
    assert_eq!(info("same")["metadata"]["run"], "a");
    assert_eq!(info("same")["dimensions"], info("t")["dimensions"]);
    assert_eq!((&info("other")["dimensions"][0]["high"], &info("other")["capacity"]), (&8.0.into(), &100.into()));
    assert_eq!(info("turned")["dimensions"].as_array().unwrap().len(), 1);
    workdir.run("copy t same").fails(3, &["same already exists"]);
    workdir.run("copy nowhere new").fails(3, &["nowhere"]);
    workdir.run("copy t new --dimensions age").fails(2, &["\"age\" was added later"]);
    workdir.run("copy t new --step 4").fails(2, &["step 4 is not complete"]);
    assert!(!workdir.path("new").exists());
}

#[test]
fn another_grid_for_a_table_that_has_rows() {
    let workdir = Workdir::new();
    let batch = particles(0, 3000);
    workdir.table("t", &batch);
    workdir.run("alter t --add-column age:int32=3").ok();
    let sample = || workdir.run("query t --limit 50 --columns pid,x").ok().out;
    let before = sample();
    let told = workdir.run("regrid t --dimensions age,y=quantile,x=0:8").ok();
    assert!(told.err.contains("t: grid 1; 3,000 records moved to it"), "{}", told.err);
    let info = || workdir.run("info t --json").ok().json();
    assert_eq!((&info()["grid"], &info()["rows_to_move"]), (&1.into(), &0.into()));
    let dimension = |d: usize, key: &str| info()["dimensions"][d][key].clone();
    assert_eq!(
        (dimension(0, "column"), dimension(1, "scale"), dimension(2, "high")),
        ("age".into(), "quantile".into(), 8.0.into())
    );
    assert_eq!(workdir.run("regrid t --json").ok().json()["grid"], 2);
    assert_eq!(sample(), before);
    workdir.run("verify t --deep").ok();
    workdir.run("regrid t --dimensions nope").fails(2, &["nope"]);
    workdir.run("regrid nowhere").fails(3, &["nowhere"]);
}

#[test]
fn a_drop_is_meant() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    workdir.run("drop t").fails(2, &["--yes"]);
    workdir.run("info t").ok();
    let writer = Table::open(workdir.path("t").to_str().unwrap()).unwrap().writer(&Default::default()).unwrap();
    workdir.run("drop t --yes").fails(4, &["busy"]);
    workdir.run("query t --count").ok();
    drop(writer);
    let dropped = workdir.run("drop t --yes").ok();
    assert!(dropped.err.contains("t: dropped, "), "{}", dropped.err);
    assert!(!workdir.path("t").exists());
    workdir.run("drop t --yes").fails(3, &["t does not exist"]);
    std::fs::create_dir(workdir.path("mine")).unwrap();
    workdir.write("mine/table", "not Kubist's");
    assert_ne!(workdir.run("drop mine --yes --force").code, 0);
    assert!(workdir.path("mine/table").exists());
    workdir.table("t", &particles(0, 100));
    workdir.write("t/notes.txt", "mine");
    let dropped = workdir.run("drop t --yes --json").ok().json();
    assert_eq!(dropped["files_left"], 1);
    assert_eq!(files_below(&workdir.path("t")), [workdir.path("t/notes.txt")]);
}

/// Even root cannot follow a loop of links.
#[test]
fn what_cannot_be_looked_at_is_not_said_to_be_absent() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    workdir.save("in.parquet", &particles(0, 100));
    std::os::unix::fs::symlink("loop", workdir.path("loop")).unwrap();
    for at in ["loop", "loop/t"] {
        for command in [
            &format!("info {at}"),
            &format!("query {at} --count"),
            &format!("drop {at} --yes"),
            &format!("clean {at}"),
            &format!("copy t {at}"),
            &format!("ingest {at} in.parquet --dimensions x,y,z --identity pid"),
        ] {
            workdir.run(command).fails(4, &[at, "symbolic links"]);
        }
    }
    workdir.run("info nowhere").fails(3, &["nowhere does not exist"]);
}

#[test]
fn a_strangers_links_and_pipes_are_named_and_not_followed() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 2000));
    workdir.run("ingest t in.parquet --dimensions x,y,z --identity pid --commit-rows 100").ok();
    std::fs::create_dir(workdir.path("mine")).unwrap();
    for name in ["mine/0123456789abcdef", "mine/letter"] {
        workdir.write(name, "mine");
    }
    std::fs::remove_dir_all(workdir.path("t/tmp")).unwrap();
    std::os::unix::fs::symlink("../mine", workdir.path("t/tmp")).unwrap();
    for command in ["optimize t --debt 1%", "clean t --retention-hours 0", "alter t --set run=1", "drop t --yes"] {
        workdir.run(command).fails(1, &["t/tmp", "a symbolic link, not a directory"]);
    }
    assert_eq!(files_below(&workdir.path("mine")).len(), 2);
    std::fs::remove_file(workdir.path("t/tmp")).unwrap();
    workdir.run("verify t --deep").ok();
    let logs = files_below(&workdir.path("t/logs"));
    let log = logs.iter().find(|path| path.extension().is_some_and(|ending| ending == "log")).unwrap();
    std::fs::remove_file(log).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(log).status().unwrap().success());
    let ended = std::process::Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_kubist"), "query", "t", "--count"])
        .current_dir(workdir.path("."))
        .output()
        .unwrap();
    files::Ran::from(ended).fails(1, &[".log", "a named pipe"]);
}

#[test]
fn the_disk_is_accounted_for() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 2000));
    workdir.run("ingest t in.parquet --dimensions x,y,z --identity pid --commit-rows 100").ok();
    workdir.run("optimize t --debt 1%").ok();
    let disk = &workdir.run("info t --json").ok().json()["disk"];
    let bytes: u64 = files_below(&workdir.path("t")).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(disk["total"], bytes);
    let causes = ["primary", "replicas", "zone_maps", "lookups", "dead", "logs", "rewrites", "checkpoints", "other"];
    assert_eq!(causes.iter().map(|cause| disk[cause].as_u64().unwrap()).sum::<u64>(), bytes);
    assert!(disk["dead"].as_u64().unwrap() > 1000);
    let info = workdir.run("info t").ok().out;
    assert!(info.contains("\ndisk        ") && info.contains(", dead "), "{info}");
}

#[test]
fn the_optimizer_copies_what_the_table_says() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 5000));
    workdir
        .run("ingest t in.parquet --dimensions x,y --identity pid --create capacity=64 --create replication=full")
        .ok();
    workdir.run("ingest t in.parquet --create replication=none").fails(2, &["replication full, not none"]);
    workdir
        .run("ingest u in.parquet --dimensions x --create replication=most")
        .fails(2, &["none, outlook, outlook(BOOST)"]);
    let info = workdir.run("info t").ok().out;
    assert!(info.contains("0 copied into deeper cubes (replication full)"), "{info}");
    let report = workdir.run("optimize t --json").ok().json();
    assert!(report["rows_copied"].as_u64() > Some(0), "{report}");
    assert_eq!(workdir.run("info t --json").ok().json()["replica_rows"], report["rows_copied"]);
    assert_eq!(workdir.run("query t --count").ok().out, "5000\n");
    workdir.run("verify t --deep").ok();
    assert_eq!(workdir.run("optimize t --replication none --json").ok().json()["rows_copied"], 0);
}

#[test]
fn records_are_looked_up() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 5000));
    workdir
        .run("ingest t in.parquet --dimensions x,y --identity pid --create capacity=64 --create lookup=kind,pid")
        .ok();
    workdir.run("ingest t in.parquet --create lookup=pid").fails(2, &["the lookup kind,pid, not pid"]);
    workdir
        .run("ingest u in.parquet --dimensions x --create lookup=none")
        .fails(2, &["lookup column \"none\" is not in"]);
    let info = workdir.run("info t").ok().out;
    assert!(info.contains("\nlookup      kind, pid\n") && info.contains(", lookups "), "{info}");
    let cost = |filter: &str| workdir.run_of(&["query", "t", "--json", "-o", "a.csv", "--where", filter]).ok().json();
    let found = cost("pid IN (17, 4999) AND x < 1e9");
    assert_eq!(found["rows_returned"], 2);
    assert!(found["runs_looked_up"].as_u64() > Some(0) && found["rows_read"].as_u64() < Some(500), "{found}");
    assert_eq!(cost("x < 1e9")["runs_looked_up"], 0);
    workdir.run("verify t --deep").ok();
}

#[test]
fn a_table_without_its_logs_is_said_to_be_damaged() {
    let workdir = Workdir::new();
    workdir.save("in.parquet", &particles(0, 2000));
    workdir.run("ingest t in.parquet --dimensions x,y,z --identity pid").ok();
    // As by `rsync --exclude '*.log'`.
    for entry in std::fs::read_dir(workdir.path("t/logs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            std::fs::remove_file(path).unwrap();
        }
    }
    for command in ["query t --count", "ingest t in.parquet", "verify t", "clean t", "optimize t"] {
        let ran = workdir.run(command);
        assert!(
            ran.code != 0 && (ran.err.contains("log of ") || ran.out.contains("log of ")),
            "{command}: {}",
            ran.err
        );
    }
    let saved = workdir.run("salvage t saved --json");
    assert!(saved.code != 0 && saved.json()["uncounted"] == true, "{}", saved.out);
    assert_eq!(files_below(&workdir.path("t/logs")).len(), 1, "a log was begun anew");
}

#[test]
fn a_copy_that_was_cut_off_is_repeated() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 500));
    workdir.run("copy t u").ok();
    std::fs::remove_file(workdir.path("u/table")).unwrap();
    kubist::store::Store::put_if_absent(&kubist::store::open_local(&workdir.path("u")).unwrap(), "unfinished", b"id")
        .unwrap();
    let refused = workdir.run("query u --count");
    assert!(refused.code != 0 && refused.err.contains("repeat it, or drop"), "{}", refused.err);
    workdir.run("copy t u").ok();
    assert_eq!(workdir.run("query u --count").ok().out, "500\n");
    std::fs::remove_file(workdir.path("u/table")).unwrap();
    kubist::store::Store::put_if_absent(&kubist::store::open_local(&workdir.path("u")).unwrap(), "unfinished", b"id")
        .unwrap();
    workdir.run("drop u --yes").ok();
    assert!(!workdir.path("u").exists());
}
