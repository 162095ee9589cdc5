//! The scalability model through the command: fit, advice and charts.

use crate::files::{Workdir, particles};

#[test]
fn a_place_is_measured_and_its_model_asked() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 50_000));
    let output = workdir.run("model fit t --output fit.json --plot fit.png").ok();
    assert!(output.out.contains("a directory") && output.out.contains("1.0 MiB"), "{}", output.out);
    let fit: serde_json::Value = serde_json::from_slice(&std::fs::read(workdir.path("fit.json")).unwrap()).unwrap();
    assert_eq!((&fit["nodes"], &fit["table"]["rows"]), (&1.into(), &50_000.into()));
    // Nine sizes, 1 to 64 concurrent requests up to 16 MiB, three times.
    assert_eq!(fit["measured"].as_array().unwrap().len(), 3 * (7 * 7 + 6 + 5));
    assert!(fit["model"]["request"]["line"]["ms_per_element"].as_f64().unwrap() > 0.0);
    assert!(fit["decode_ms_per_byte"].as_f64().unwrap() > 0.0);
    let left: Vec<_> = std::fs::read_dir(workdir.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains(".fit-")), "{left:?}");

    let advice = workdir.run("model advise fit.json --nodes 16 --plot advice.png --json").ok().json();
    assert_eq!(
        (&advice["nodes"], &advice["rows"], &advice["table_capacity"]),
        (&16.into(), &50_000.into(), &2048.into())
    );
    assert!(advice["parallel"].as_u64().unwrap() >= 16);
    assert!(advice["loss"].as_f64().unwrap() > 0.0);
    let text = workdir.run("model advise fit.json --nodes 16 --rows 1000000 --row-bytes 36").ok().out;
    assert!(text.contains("1,000,000 records, 36.0 bytes each, on 16 nodes"), "{text}");
    assert!(text.lines().last().unwrap().trim_start().starts_with("32 "), "{text}");
    for picture in ["fit.png", "advice.png"] {
        let drawn = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(workdir.path(picture)).unwrap()));
        assert!(drawn.read_info().unwrap().info().width >= 1240, "{picture}");
    }

    let explained = workdir.run("explain t --box x=0.2:0.6 --fit fit.json --plot stages.png").ok().out;
    for word in ["requests", "planned", "queued", "in the store", "decoded", "predicted"] {
        assert!(explained.lines().any(|line| line.starts_with(word)), "{word} in {explained}");
    }
    assert!(workdir.path("stages.png").exists());
    let explained = workdir.run("explain t --sample 10% --json").ok().json();
    assert!(explained["stages"]["requests"].as_u64().unwrap() > 0 && explained["predicted"].is_null());
}

#[test]
fn what_is_no_fit_is_said() {
    let workdir = Workdir::new();
    workdir.table("t", &particles(0, 100));
    workdir.write("fit.json", "{}");
    workdir.run("model advise fit.json --nodes 4").fails(2, &["fit.json", "not a fit", "kubist model fit"]);
    workdir.run("explain t --fit fit.json").fails(2, &["not a fit"]);
    workdir.run("explain t --fit nowhere.json").fails(3, &["nowhere.json"]);
    workdir.run("model advise nowhere.json --nodes 4").fails(3, &["nowhere.json: no such file"]);
    workdir.run("model advise fit.json --nodes 0").fails(2, &["nodes"]);
    workdir.run("model fit nowhere/t -o nowhere/fit.json").fails(3, &["nowhere/fit.json"]);
}
