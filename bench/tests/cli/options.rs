//! What options print, and the exit statuses that they lead to.

use crate::process::{Turn, pair, roce};

const SEPARATOR: &str =
    "---------------------------------------------------------------------------------------";

#[test]
fn one_figure_is_the_whole_output() {
    let _turn = Turn::take();
    for (words, least) in [
        ("write-bw --lab -n 100 --output bandwidth", 0.001),
        ("send-bw --lab -n 100 --output message_rate", 0.000_001),
        ("read-lat --lab -n 50 --output latency", 0.1),
        ("send-lat --lab -D 1 -f 0 --output latency", 0.1),
    ] {
        let said = roce(words);
        said.assert_code(0);
        assert_eq!(said.out.lines().count(), 1, "{words}: {said:#?}");
        let figure: f64 = said.out.trim().parse().unwrap();
        assert!(figure > least, "{words}: {figure}");
    }
}

#[test]
fn missed_limits_have_a_status_of_their_own() {
    let _turn = Turn::take();
    for (words, status, error) in [
        ("write-bw --lab -n 100 -w 0.001 -y 0", 0, ""),
        (
            "write-bw --lab -n 100 -w 1e9",
            4,
            "BW result is below bw limit",
        ),
        (
            "read-bw --lab -n 100 -y 1000",
            4,
            "Msg rate  is below msg_rate limit",
        ),
    ] {
        let said = roce(words);
        said.assert_code(status);
        assert!(said.err.contains(error), "{words}: {said:#?}");
        assert!(
            said.out.contains(" #bytes"),
            "the table comes first: {said:#?}"
        );
        assert!(!said.err.contains("server:"), "{words}: {said:#?}");
    }
}

#[test]
fn both_directions_are_reported_by_both_ends() {
    let _turn = Turn::take();
    let (server, client) = pair("write-bw -b -n 200 --report-both", "127.0.0.1");
    let rows = |out: &str| -> Vec<f64> {
        out.lines()
            .filter(|line| line.starts_with(" 65536 "))
            .map(|line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
            .collect()
    };
    for said in [&server, &client] {
        said.assert_code(0);
        let found = rows(&said.out);
        assert_eq!(found.len(), 3, "{said:#?}");
        assert!((found[0] - found[1] - found[2]).abs() < 0.05, "{found:?}");
        let heading = format!("{SEPARATOR}\n\n Local results: \n{SEPARATOR}\n #bytes");
        assert!(said.out.contains(&heading), "{said:#?}");
    }
    // What one end calls local is remote at the other.
    assert_eq!(
        rows(&server.out)[1..],
        [rows(&client.out)[2], rows(&client.out)[1]]
    );
}

#[test]
fn business_and_cycles_are_measured() {
    let _turn = Turn::take();
    let (server, client) = pair("write-bw -D 1 -f 0 --cpu_util", "127.0.0.1");
    for said in [&server, &client] {
        said.assert_code(0);
        let mut lines = said
            .out
            .lines()
            .skip_while(|line| !line.starts_with(" #bytes"));
        assert!(
            lines
                .next()
                .unwrap()
                .ends_with("MsgRate[Mpps]    CPU_Util[%]")
        );
        let (_, busy) = lines.next().unwrap().rsplit_once("\t    ").unwrap();
        let busy: f64 = busy.trim().parse().unwrap();
        assert!((0.1..=100.0).contains(&busy), "{busy}");
    }
    let typical = |words: &str| -> f64 {
        let said = roce(words);
        said.assert_code(0);
        let row = said
            .out
            .lines()
            .find(|line| line.starts_with(" 2 "))
            .unwrap();
        row.split_whitespace().nth(4).unwrap().parse().unwrap()
    };
    // A loaded machine is slow at times, yet not hundreds of times slower in the first of the two.
    let (micros, cycles) = (
        typical("read-lat --lab -n 500"),
        typical("read-lat --lab -n 500 -C"),
    );
    assert!(cycles > micros * 10.0, "{cycles} cycles, {micros} us");
}

#[test]
fn unwanted_peak_is_zero() {
    let _turn = Turn::take();
    let said = roce("write-bw --lab -n 100 -N");
    said.assert_code(0);
    let row = said
        .out
        .lines()
        .find(|line| line.starts_with(" 65536 "))
        .unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some("0.00"), "{row}");
    assert!(!said.out.contains("WARNING"), "{said:#?}");
}
