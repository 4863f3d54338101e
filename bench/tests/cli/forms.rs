//! The form of the output against what stock perftest prints: `tests/data/perftest/` has samples of each test with
//! each option that changes it, made in the guest by `cargo run -p roce-tests --example samples`.
//!
//! The same options run here, and both ends' lines must be the same but for what they measured and what the
//! devices are. What depends on perftest's version is that of 6.20 here, while the samples' is older:
//! the warning about a peak that is not measured, and what [`json`] leaves out.

mod json;
mod shape;

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::process::{Running, Said, Turn, free_port, roce_in};

const SEPARATOR: &str =
    "---------------------------------------------------------------------------------------";

/// What both ends of a stock run printed.
struct Sample {
    options: String,
    client: String,
    server: String,
    json: Option<String>,
}

fn samples(test: &str) -> Vec<Sample> {
    let path = format!("../tests/data/perftest/{test}.txt");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let of = text.split("\n@@ ib_").skip(1);
    of.map(|sample| {
        let mut parts = sample.split("\n@ ");
        let (_, options) = parts.next().unwrap().split_once(' ').unwrap();
        let mut part = |name: &str| {
            let text = parts.next()?.strip_prefix(name)?.strip_prefix('\n')?;
            Some(text.trim_end_matches('\n').to_owned())
        };
        Sample {
            options: options.to_owned(),
            client: part("client").unwrap(),
            server: part("server").unwrap(),
            json: part("json"),
        }
    })
    .collect()
}

/// A folder for files that runs write, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roce-forms-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

/// Waits for a server that may say nothing about it.
fn listens(port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    let row = format!(":{port:04X} ");
    loop {
        let is_there = ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
            let table = fs::read_to_string(table).unwrap_or_default();
            let mut rows = table.lines();
            rows.any(|line| line.contains(&row) && line.contains(" 0A "))
        });
        if is_there {
            return;
        }
        assert!(Instant::now() < until, "no server on port {port}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn both_ends(test: &str, options: &str, folder: &Path) -> (Said, Said) {
    let port = free_port();
    let words = |side: &str| {
        let file = match options.contains("--out_json") {
            true => format!("--out_json_file {side}.json"),
            false => String::new(),
        };
        // The guest's path MTU, which datagrams are as long as.
        format!("{test} -F -m 1024 -p {port} {options} {file}")
    };
    let server = Running::start_in(&words("server"), folder);
    listens(port);
    let client = roce_in(&format!("{} 127.0.0.1", words("client")), folder);
    (server.finish(), client)
}

/// Returns the lines that perftest has, too.
fn perftests(out: &str) -> Vec<&str> {
    let kept = out
        .rfind(SEPARATOR)
        .map_or(out, |at| &out[..at + SEPARATOR.len()]);
    let ours = |line: &&str| line.starts_with(" device udp:lo: ");
    let newer = |line: &&str| line.starts_with(" WARNING: BW peak won't be measured");
    let mut lines: Vec<&str> = Vec::new();
    let mut left_out = false;
    for line in kept.lines() {
        // A blank line follows the warning.
        let blank = left_out && line.is_empty();
        left_out = newer(&line);
        if !(ours(&line) || left_out || blank) {
            lines.push(line);
        }
    }
    lines
}

/// Takes out the line that perftest draws before the banner above its remark (on stderr) that it doesn't know how
/// rxe copies data inline. READs and atomics bring it on.
fn of_known_devices<'a>(test: &str, mut lines: Vec<&'a str>) -> Vec<&'a str> {
    if test.starts_with("read") || test.starts_with("atomic") {
        let drawn = |two: &[&str]| two[0] == SEPARATOR && matches!(two[1], SEPARATOR | "");
        let at = lines.windows(2).position(drawn).unwrap_or(0);
        assert_eq!(lines.remove(at), SEPARATOR, "{test}");
    }
    lines
}

fn has_the_form_of_stock(test: &str) {
    let _turn = Turn::take();
    let folder = Folder::new(test);
    let mut wrong = String::new();
    let samples = samples(test);
    assert!(samples.len() >= 10, "{test}: {} samples", samples.len());
    for sample in samples {
        let (server, client) = both_ends(test, &sample.options, &folder.0);
        for (side, theirs, said) in [
            ("client", &sample.client, &client),
            ("server", &sample.server, &server),
        ] {
            said.assert_code(0);
            let theirs = of_known_devices(test, theirs.lines().collect());
            let difference =
                shape::difference(test, &sample.options, &theirs, &perftests(&said.out));
            if let Some(difference) = difference {
                wrong += &format!("\n{test} {} ({side}): {difference}", sample.options);
            }
        }
        if let Some(theirs) = &sample.json {
            let ours = fs::read_to_string(folder.0.join("client.json")).unwrap();
            if let Some(difference) = json::difference(theirs, &ours) {
                wrong += &format!("\n{test} {} (JSON): {difference}", sample.options);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn write_bw_has_the_form_of_stock() {
    has_the_form_of_stock("write-bw");
}

#[test]
fn send_bw_has_the_form_of_stock() {
    has_the_form_of_stock("send-bw");
}

#[test]
fn read_bw_has_the_form_of_stock() {
    has_the_form_of_stock("read-bw");
}

#[test]
fn read_lat_has_the_form_of_stock() {
    has_the_form_of_stock("read-lat");
}

#[test]
fn write_lat_has_the_form_of_stock() {
    has_the_form_of_stock("write-lat");
}

#[test]
fn atomic_bw_has_the_form_of_stock() {
    has_the_form_of_stock("atomic-bw");
}

#[test]
fn send_lat_has_the_form_of_stock() {
    has_the_form_of_stock("send-lat");
}

#[test]
fn atomic_lat_has_the_form_of_stock() {
    has_the_form_of_stock("atomic-lat");
}
