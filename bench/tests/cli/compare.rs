//! `roce compare` as a process.

use crate::process::{Turn, roce};

#[test]
fn comparison_prints_a_table_and_writes_its_report() {
    let _turn = Turn::take();
    let folder = std::env::temp_dir().join(format!("roce-compare-test-{}", std::process::id()));
    let said = roce(&format!(
        "compare --tests write-bw,send-lat --sizes 64 --rounds 2 --duration 0.1 --backends udp,verbs --report {}",
        folder.display()
    ));
    let file = std::fs::read_to_string(folder.join("compare.json"));
    let _removed = std::fs::remove_dir_all(&folder);
    said.assert_code(0);
    assert!(said.out.contains("verbs is left out: "), "{}", said.out);
    assert!(
        said.out.contains("How far the rounds differ"),
        "{}",
        said.out
    );
    // No progress bar where stderr is not a terminal.
    assert_eq!(said.err, "");

    let value: serde_json::Value = serde_json::from_str(&file.unwrap()).unwrap();
    let runs = value["runs"].as_array().unwrap();
    let tests: Vec<_> = runs
        .iter()
        .map(|run| run["test"].as_str().unwrap())
        .collect();
    assert_eq!(tests, ["write-bw", "send-lat", "write-bw", "send-lat"]);
    for run in runs {
        assert_eq!(run["backend"], "udp");
        assert!(run["iterations"].as_u64().unwrap() > 0, "{run}");
        let figure = if run["test"] == "write-bw" {
            &run["bandwidth_gbps"]
        } else {
            &run["latency_us"]["p999"]
        };
        assert!(figure.as_f64().unwrap() > 0.0, "{run}");
    }
    assert_eq!(value["failures"].as_array().unwrap().len(), 0);
}

#[test]
fn comparison_refuses_what_it_has_not() {
    // A machine with an RDMA device has this one.
    let said = roce("compare --backends verbs --tests write-lat --quick");
    if said.code != Some(0) {
        said.assert_code(3);
        assert!(said.err.contains("verbs is left out: "), "{}", said.err);
    }
    roce("compare --backends tcp").assert_code(2);
    roce("compare 192.0.2.1").assert_code(2);
}
