//! Scripts that people wrote for stock perftest: the same commands read its output and ours, which runs through
//! links with perftest's names.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use roce_tests::guest::duel::Ground;
use roce_tests::guest::net;

use super::{Fault, Field, LIMIT};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "a script that takes columns of the bandwidth table",
        play: bandwidth,
    },
    Fault {
        name: "a script that takes columns of the latency table",
        play: latency,
    },
    Fault {
        name: "a script that takes values of the JSON",
        play: json,
    },
];

/// Takes a column of the last row of a table with so many columns.
fn column(columns: u32, column: u32) -> String {
    format!(
        "awk '/^ #bytes/ {{ t = 1; next }} /^--/ {{ t = 0 }} t && NF == {columns} {{ v = ${column} }} END {{ print v }}'"
    )
}

/// Takes a value of the JSON; version 4.5 does not quote its keys.
fn key(name: &str) -> String {
    format!(r#"sed -n 's/.*{name}"*: *\([0-9.]*\).*/\1/p'"#)
}

/// Makes a link with perftest's name for a test to our command.
fn link(field: &Field<'_>, program: &str) -> Result<PathBuf> {
    let link = field.ground.folder.join(program);
    let _old = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(field.ground.roce, &link).context("cannot make a link")?;
    Ok(link)
}

/// Runs both programs of one name, the stock one as client if `we_serve`, and gives the script to both outputs.
fn both(
    field: &mut Field<'_>,
    program: &str,
    (options, ours_only, theirs_only): (&str, &str, &str),
    we_serve: bool,
    commands: &[(String, Option<(&str, &str)>)],
) -> Result<Vec<(f64, f64)>> {
    let link = link(field, program)?;
    let ground = Ground {
        roce: &link,
        ..field.ground
    };
    let command = field.stock(program, &format!("{options} {theirs_only}"), we_serve);
    let mut words = field.our_words(&format!("link {options} {ours_only}"));
    words.remove(0);
    if we_serve {
        let server = ground.serve(field.guest, &words)?;
        field.guest.spawn(&command)?;
        let ours = server.finish(LIMIT)?;
        ensure!(ours.status == 0, "roce: {}", ours.text);
    } else {
        field.guest.serve(&command, ground.port)?;
        words.push(net::GUEST_V4.to_owned());
        let ours = ground.start(field.guest, &words)?.finish(LIMIT)?;
        ensure!(ours.status == 0, "roce: {}", ours.text);
    }
    let theirs = field.guest.served(LIMIT)?;
    ensure!(theirs.status == 0, "stock perftest: {}", theirs.text);
    let log = ground.folder.join(format!("{}.roce.log", ground.port));
    let log = log.to_str().context("a path that is not UTF-8")?;
    let mut figures = Vec::new();
    for (script, files) in commands {
        let (our_file, their_file) = files.unwrap_or((log, "/tmp/served.out"));
        let ours = field
            .guest
            .namespace()
            .shell(&format!("{script} <{our_file}"))?;
        let theirs = field.guest.must(&format!("{script} <{their_file}"))?;
        let number = |text: &str, whose: &str| -> Result<f64> {
            let text = text.trim();
            text.parse()
                .with_context(|| format!("`{script}` makes `{text}` of the output of {whose}"))
        };
        figures.push((number(&ours, "roce")?, number(&theirs, "stock perftest")?));
    }
    Ok(figures)
}

/// What the side that is told prints is what it was told, to the last digit.
fn bandwidth(field: &mut Field<'_>) -> Result<()> {
    let columns: Vec<_> = [1, 2, 4, 5].map(|at| (column(5, at), None)).to_vec();
    for we_serve in [true, false] {
        let figures = both(field, "ib_write_bw", ("-n 64", "", ""), we_serve, &columns)?;
        for (ours, theirs) in &figures {
            ensure!(ours == theirs && *ours > 0.0, "the columns are {figures:?}");
        }
        field.ground.port = super::super::run::next_port();
    }
    Ok(())
}

fn latency(field: &mut Field<'_>) -> Result<()> {
    let columns: Vec<_> = (1..=9).map(|at| (column(9, at), None)).collect();
    let figures = both(field, "ib_send_lat", ("-n 64", "", ""), false, &columns)?;
    ensure!(
        figures[..2] == [(2.0, 2.0), (64.0, 64.0)],
        "size and iterations are {figures:?}"
    );
    for (ours, theirs) in [2, 3, 4, 5, 7, 8].map(|at| figures[at]) {
        ensure!(ours > 0.0 && theirs > 0.0, "the columns are {figures:?}");
    }
    Ok(())
}

fn json(field: &mut Field<'_>) -> Result<()> {
    let ours = field.ground.folder.join("script.json");
    let ours = ours
        .to_str()
        .context("a path that is not UTF-8")?
        .to_owned();
    let theirs = "/tmp/script.json";
    let keys = ["MsgSize", "n_iterations", "BW_average", "MsgRate"];
    let values: Vec<_> = keys
        .map(|name| (key(name), Some((ours.as_str(), theirs))))
        .to_vec();
    let options = (
        "-n 64 --out_json",
        &*format!("--out_json_file {ours}"),
        &*format!("--out_json_file {theirs}"),
    );
    let figures = both(field, "ib_read_bw", options, false, &values)?;
    for (ours, theirs) in &figures {
        ensure!(ours == theirs && *ours > 0.0, "the values are {figures:?}");
    }
    Ok(())
}
