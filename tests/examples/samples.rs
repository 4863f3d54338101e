//! Makes the samples in `tests/data/perftest/`: what stock perftest prints, client and server both in the guest.
//!
//! `cargo run -p roce-tests --example samples [TEST…]`, as root; a test is one of the eight names, as in
//! `write-bw`. A sample that is there stays: delete a file to make it anew. Some minutes each, as perftest often
//! can't calibrate its clock there. `bench/tests/cli/forms.rs` compares what `roce` prints with the form of these.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use roce_tests::guest::case::{Peer, Test};
use roce_tests::guest::{Guest, Image};

const LIMIT: Duration = Duration::from_secs(120);
/// Tries of one sample: an emulated processor is at times paused while perftest calibrates its clock.
const TRIES: u32 = 12;
/// The guest's own address: rxe loops back what is sent to it.
const HOST: &str = "192.168.77.2";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match start(&wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("samples: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(wanted: &[String]) -> Result<()> {
    let target = target()?;
    let folder = target
        .join("guest")
        .join(format!("samples-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let image = Image::prepare(&target.join("guest"), Peer::Bookworm.suite())?;
    let mut guest = Guest::boot(&image, &folder)?;
    let mut port = 18_515;
    for test in Test::ALL {
        let name = test.name();
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let program = format!("ib_{}", name.replace('-', "_"));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("data/perftest/{name}.txt"));
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        let mut text = match old.split_once("\n\n@@ ") {
            Some((head, _)) => format!("{head}\n"),
            None => head(&mut guest, &program)?,
        };
        for options in options(test) {
            if let Some(kept) = kept(&old, &program, options) {
                text.push_str(kept);
                continue;
            }
            port += 1;
            let sample = sample(&mut guest, &program, options, port)
                .with_context(|| format!("{program} {options}"))?;
            println!(
                "{program} {options}: {}",
                sample.as_ref().map_or("no clock", |_| "ok")
            );
            text.extend(sample);
        }
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(path, text)?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.ancestors().nth(3).context("the target folder")?;
    Ok(folder.to_owned())
}

/// Returns the sample of these options in a file, with its title.
fn kept<'a>(file: &'a str, program: &str, options: &str) -> Option<&'a str> {
    let start = file.find(&format!("\n@@ {program} {options}\n"))?;
    let rest = &file[start..];
    let end = rest[1..].find("\n@@ ").map_or(rest.len(), |end| end + 1);
    Some(&rest[..end])
}

/// Says where the samples of a file come from.
fn head(guest: &mut Guest, program: &str) -> Result<String> {
    let version = guest.run(&format!("{program} -V"), LIMIT)?.text;
    Ok(format!(
        "# stdout of stock {program}: perftest of Debian's {} ({}), both ends in one guest with Linux {} over rxe.\n\
         # Each sample: `{program} -d rxe0 -F` and the options, at the client with {HOST} behind them.\n\
         # Made by `cargo run -p roce-tests --example samples {}`.\n",
        Peer::Bookworm.suite(),
        version.trim(),
        guest.kernel(),
        program.trim_start_matches("ib_").replace('_', "-"),
    ))
}

/// Returns the options of a test's samples, each with the ones that keep it short.
fn options(test: Test) -> Vec<&'static str> {
    const BANDWIDTH: [&str; 16] = [
        "-n 20",
        "-n 20 --report_gbits",
        "-n 20 -s 16 --report_gbits",
        "-n 20 -b",
        "-n 20 -b --report-both",
        "-n 20 -b --report-both --report_gbits",
        "-n 20 --output=bandwidth",
        "-n 20 --output=message_rate",
        "-n 20 -N",
        "-n 20 -q 2",
        "-n 20 -l 4",
        "-n 20 --out_json",
        "-n 20 --out_json --report_gbits -b",
        "-n 20 --out_json --output=bandwidth",
        "-D 1",
        "-D 1 --cpu_util",
    ];
    const LATENCY: [&str; 10] = [
        "-n 20",
        "-n 20 -H",
        "-n 20 -U",
        "-n 20 -H -U",
        "-n 20 -C",
        "-n 20 --output=latency",
        "-n 20 --out_json",
        "-D 1",
        "-D 1 --cpu_util",
        "-D 1 --output=latency",
    ];
    let mut list = if test.is_bandwidth() {
        BANDWIDTH.to_vec()
    } else {
        LATENCY.to_vec()
    };
    if test.has_sizes() {
        list.push("-a -n 5");
    } else {
        list.retain(|options| !options.contains("-s "));
    }
    match test {
        Test::SendBw => list.extend(["-n 20 -c UD", "-n 20 -c UC", "-n 20 --use-srq", "-n 20 -e"]),
        Test::SendLat => list.extend(["-n 20 -c UD", "-n 20 -c UC", "-n 20 -e"]),
        Test::WriteBw | Test::WriteLat => list.push("-n 20 -c UC"),
        Test::ReadBw | Test::ReadLat => list.push("-n 20 -o 4"),
        Test::AtomicBw | Test::AtomicLat => list.push("-n 20 -A CMP_AND_SWAP"),
    }
    list
}

/// Runs both ends until their clock was right and returns what they said; nothing if it never was.
fn sample(guest: &mut Guest, program: &str, options: &str, port: u16) -> Result<Option<String>> {
    let plain = format!("{program} -d rxe0 -F -p {port} {options}");
    let file = |side: &str| match options.contains("--out_json") {
        true => format!(" --out_json_file=/tmp/{side}.json"),
        false => String::new(),
    };
    // A run of all sizes calibrates its clock for each row, and nearly always fails on a busy machine.
    let tries = if options.contains("-a") { 3 } else { TRIES };
    for _ in 0..tries {
        let server = format!("sh -c 'exec {plain}{} 2>/tmp/server.err'", file("server"));
        guest.serve(&server, port)?;
        let client = guest.run(
            &format!("{plain}{} {HOST} 2>/tmp/client.err", file("client")),
            LIMIT,
        )?;
        let server = guest.served(LIMIT)?;
        let errors = guest
            .run("cat /tmp/client.err /tmp/server.err", LIMIT)?
            .text;
        if errors.contains("Correlation coefficient") {
            continue;
        }
        ensure!(
            client.status == 0 && server.status == 0,
            "client {}, server {}: {errors}\n{}\n{}",
            client.status,
            server.status,
            client.text,
            server.text
        );
        let mut text = format!("\n@@ {program} {options}\n");
        let mut part = |name: &str, said: &str| {
            let _infallible = writeln!(text, "@ {name}\n{}", said.trim_end_matches('\n'));
        };
        part("client", &client.text);
        part("server", &server.text);
        if options.contains("--out_json") {
            part("json", &guest.must("cat /tmp/client.json")?);
        }
        return Ok(Some(text));
    }
    Ok(None)
}
