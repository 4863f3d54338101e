//! `roce` against the kernel's soft-RoCE and stock perftest, in both roles.
//!
//! ```text
//! cargo test -p roce-tests --test interop -- [FILTER…] [--smoke | --full] [--link NAME]… [--list] [--keep]
//!                                            [--peer SUITE] [--times N] [--exec COMMAND]
//! ```
//!
//! Without `--smoke` or `--full`, every test with every option in both roles runs on one path each: one kernel with
//! its perftest, one MTU, one address family, turned so that each pair of values occurs. `--full` runs all paths
//! and renews the table of `docs/interop.md`. Filters are parts of a case's name, all of which must match.
//! `--peer sid` has Debian's newest kernel and packages as the peer of all cases. `--times` runs each case so often, to
//! catch what fails now and then. `--exec` runs one command in each guest in place of the cases; `roce` is there, too.

mod document;
mod faults;
mod options;
mod run;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use options::Options;
use roce_tests::needs;

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

fn start() -> Result<(u32, u32)> {
    let options = Options::parse(std::env::args().skip(1))?;
    let (cases, faults) = (options.cases(), options.faults());
    if options.list {
        for case in &cases {
            println!("{case}");
        }
        for (peer, fault) in &faults {
            println!("{}", options::fault_name(*peer, fault));
        }
        return Ok((0, 0));
    }
    if cases.is_empty() && faults.is_empty() {
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
    run::all(&options, &cases, &faults)
}
