//! `roce` against the kernel's soft-RoCE and stock perftest, in both roles.
//!
//! ```text
//! cargo test -p roce-tests --test interop -- [FILTER…] [--full] [--mtu N] [--list] [--keep]
//!                                            [--exec COMMAND]
//! ```
//!
//! A case passes if both sides exit with 0 and print the rows they should, every RoCE frame that we
//! sent has a good ICRC by a check of this crate's own, and tshark finds none malformed. Filters are
//! parts of a case's name, all of which must match; `--full` takes the wide matrix; `--exec` runs one
//! command in the guest in place of the cases.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use roce_tests::guest::case::{self, Case};
use roce_tests::guest::{Guest, Image, duel};
use roce_tests::{command, needs};

fn main() -> ExitCode {
    match start() {
        Ok((passed, failed)) => {
            println!("{passed} passed, {failed} failed");
            if failed == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            println!("interop: {error:#}");
            println!("0 passed, 1 failed");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    filters: Vec<String>,
    full: bool,
    list: bool,
    keep: bool,
    mtu: u32,
    exec: Option<String>,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut options = Self {
            filters: vec![],
            full: false,
            list: false,
            keep: false,
            mtu: 1500,
            exec: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--full" => options.full = true,
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--mtu" => {
                    let value = arguments.next().context("--mtu takes a number")?;
                    options.mtu = value.parse().context("--mtu takes a number")?;
                }
                "--exec" => {
                    options.exec = Some(arguments.next().context("--exec takes a command")?)
                }
                // Cargo hands these to every test program when asked to.
                "--nocapture" | "--quiet" | "-q" | "--include-ignored" => {}
                flag if flag.starts_with("--test-threads") || flag.starts_with("--color") => {}
                flag if flag.starts_with('-') => bail!("unknown option {flag}"),
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }

    fn cases(&self) -> Vec<Case> {
        let all = if self.full {
            case::full()
        } else {
            case::smoke()
        };
        let matches = |case: &Case| {
            let name = case.to_string();
            self.filters
                .iter()
                .all(|filter| name.contains(filter.as_str()))
        };
        all.into_iter().filter(matches).collect()
    }
}

fn start() -> Result<(u32, u32)> {
    let options = Options::parse()?;
    let cases = options.cases();
    if options.list {
        for case in &cases {
            println!("{case}");
        }
        return Ok((0, 0));
    }
    if cases.is_empty() {
        println!("interop: no case matches {:?}", options.filters);
        return Ok((0, 0));
    }
    let no_taps = || {
        let missing = !Path::new("/dev/net/tun").exists();
        missing.then(|| "this machine has no /dev/net/tun".to_owned())
    };
    if let Some(reason) = needs::unavailable(needs::GUEST).or_else(no_taps) {
        if std::env::var_os("CI").is_some() {
            bail!("{reason}, and in CI no tier may be skipped");
        }
        println!("interop: skipped, {reason}");
        return Ok((0, 0));
    }
    run(&options, &cases)
}

fn run(options: &Options, cases: &[Case]) -> Result<(u32, u32)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("..")
        .canonicalize()?;
    let folder = RunFolder::new(&target)?;
    let image = Image::prepare(&target.join("guest"))?;
    let roce = command::binary(&target)?;
    let mut guest = Guest::boot(&image, options.mtu, &folder.path)?;
    println!("guest: Linux {}, MTU {}", guest.kernel(), options.mtu);
    if let Some(command) = &options.exec {
        let reply = guest.run(command, Duration::from_secs(60))?;
        print!("{}", reply.text);
        println!("status {}", reply.status);
        return Ok((0, 0));
    }
    let (mut passed, mut failed) = (0, 0);
    for case in cases {
        if passes(&mut guest, &roce, *case, &folder.path, options.keep) {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    if failed == 0 && !options.keep {
        folder.remove();
    }
    Ok((passed, failed))
}

/// Runs a case and prints how it went.
fn passes(guest: &mut Guest, roce: &Path, case: Case, folder: &Path, keep: bool) -> bool {
    const TRIES: u32 = 3;
    let mut tried = 1;
    let outcome = loop {
        match duel::run(guest, roce, case, next_port(), folder) {
            Ok(outcome) if outcome.lacks_a_clock() && tried < TRIES => {
                println!("again  {case}: stock perftest could not calibrate its clock");
                tried += 1;
            }
            Ok(outcome) => break outcome,
            Err(error) => {
                println!("FAILED {case}: {error:#}");
                return false;
            }
        }
    };
    let faults = outcome.faults();
    if !faults.is_empty() {
        println!("FAILED {case}: {}", faults.join("; "));
        print!("{}", outcome.evidence());
        return false;
    }
    println!("ok     {case}: {}", outcome.summary());
    if !keep {
        outcome.discard();
    }
    true
}

/// A TCP port that no run before had, so that none meets the remains of another.
fn next_port() -> u16 {
    use core::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(18515);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Where a run's logs and captures are; kept when something failed.
struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    fn new(target: &Path) -> Result<Self> {
        let path = target
            .join("guest")
            .join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
