//! Runs cases: a guest per peer, both at once, each judged while the next case runs.

use core::sync::atomic::{AtomicU16, Ordering};
use core::time::Duration;
use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use roce_tests::command;
use roce_tests::guest::case::{Case, Peer};
use roce_tests::guest::duel::{self, Duel, Ground, Wire};
use roce_tests::guest::{Guest, Image, judge, matrix};

use super::document;
use super::faults::{Fault, Field};
use super::options::{Breadth, Options, fault_name};

/// Where things are, and how they are kept.
#[derive(Clone)]
struct Place {
    images: PathBuf,
    roce: PathBuf,
    folder: PathBuf,
    keep: bool,
}

/// What was run.
pub(crate) enum What {
    Case(Case),
    Fault(Peer, &'static str),
}

/// How it went.
pub(crate) struct Told {
    pub(crate) what: What,
    pub(crate) passed: bool,
}

pub(crate) fn all(
    options: &Options,
    cases: &[Case],
    faults: &[(Peer, Fault)],
) -> Result<(u32, u32)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("..")
        .canonicalize()?;
    let images = target.join("guest");
    let folder = images.join(format!("run-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let place = Place {
        images,
        roce: command::binary(&target)?,
        folder,
        keep: options.keep,
    };
    // A full run that is cut off has at least been through these.
    let first: HashSet<String> = matrix::rotated(&options.links)
        .iter()
        .map(ToString::to_string)
        .collect();
    let first = &first;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = Peer::KNOWN
            .into_iter()
            .filter_map(|peer| {
                let mut own: Vec<Case> = cases
                    .iter()
                    .filter(|case| case.path.peer == peer)
                    .cloned()
                    .collect();
                // An MTU is set once in each half.
                own.sort_by_key(|case| (!first.contains(&case.to_string()), case.path.mtu));
                let faults: Vec<Fault> = faults
                    .iter()
                    .filter(|(of, _)| *of == peer)
                    .map(|(_, fault)| *fault)
                    .collect();
                let place = place.clone();
                (!own.is_empty() || !faults.is_empty()).then(|| {
                    scope.spawn(move || one_peer(scope, &place, peer, own, &faults, options))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("panicked"))))
            .collect::<Vec<_>>()
    });
    let (mut told, mut lost) = (Vec::new(), 0);
    for result in results {
        match result {
            Ok(results) => told.extend(results),
            Err(error) => {
                println!("FAILED a guest: {error:#}");
                lost += 1;
            }
        }
    }
    let passed = told.iter().filter(|one| one.passed).count();
    let failed = told.len() - passed + lost;
    if failed == 0 && !options.keep {
        let _ = std::fs::remove_dir_all(&place.folder);
    }
    Ok((passed as u32, failed as u32))
}

/// Boots a peer's guest and runs its cases.
fn one_peer<'scope>(
    scope: &'scope Scope<'scope, '_>,
    place: &Place,
    peer: Peer,
    cases: Vec<Case>,
    faults: &[Fault],
    options: &Options,
) -> Result<Vec<Told>> {
    let image = Image::prepare(&place.images, peer.suite())?;
    let folder = place.folder.join(peer.suite());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    // Whoever looks around in the guest may want to run our command there.
    let image = match options.exec.is_some() || cases.iter().any(Case::needs_roce_inside) {
        true => image.with_roce(&place.roce, &folder)?,
        false => image,
    };
    let mut guest = Guest::boot(&image, &folder)?;
    println!(
        "guest: Linux {} of Debian's {}",
        guest.kernel(),
        peer.suite()
    );
    if let Some(command) = &options.exec {
        let reply = guest.run(command, Duration::from_secs(600))?;
        print!("{}", reply.text);
        println!("status {}", reply.status);
        return Ok(vec![]);
    }
    let mut results = Results {
        told: Vec::new(),
        written: 0,
        document: options.breadth == Breadth::Full,
    };
    let mut judged: Option<Judgement<'_>> = None;
    for case in cases {
        let fought = guest
            .set_mtu(case.path.mtu)
            .and_then(|()| on_its_network(&mut guest, &place.roce, &case, &folder));
        if fought.is_err() {
            // Whatever state it is in, the next case starts from a known one.
            guest = Guest::boot(&image, &folder)?;
        }
        let keep = place.keep;
        // What dumpcap takes to finish passes while the next case runs.
        let judge = move || match fought {
            Ok((duel, capture)) => say(&duel, capture, keep),
            Err(error) => lost(&error),
        };
        let thread = scope.spawn(judge);
        if let Some(before) = judged.replace(Judgement { case, thread }) {
            results.take(before.tell())?;
        }
    }
    if let Some(last) = judged {
        results.take(last.tell())?;
    }
    guest.set_mtu(1500)?;
    for fault in faults {
        results.take(one_fault(&mut guest, place, peer, &folder, *fault))?;
    }
    results.write()?;
    Ok(results.told)
}

/// What is known so far, in the document now and then: a full run is long, and may be cut off.
struct Results {
    told: Vec<Told>,
    written: usize,
    document: bool,
}

impl Results {
    fn take(&mut self, told: Told) -> Result<()> {
        const OFTEN: usize = 25;
        self.told.push(told);
        match self.told.len() - self.written >= OFTEN {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn write(&mut self) -> Result<()> {
        if self.document {
            document::renew(&self.told[self.written..])?;
            self.written = self.told.len();
        }
        Ok(())
    }
}

/// Makes one thing go wrong and prints how that went.
fn one_fault(guest: &mut Guest, place: &Place, peer: Peer, folder: &Path, fault: Fault) -> Told {
    let started = Instant::now();
    let ground = Ground {
        roce: &place.roce,
        folder,
        port: next_port(),
    };
    let outcome = fault.run(&mut Field { guest, ground });
    let name = fault_name(peer, &fault);
    match &outcome {
        Ok(()) => println!("ok     {name}: {:.1} s", started.elapsed().as_secs_f64()),
        Err(error) => println!("FAILED {name}: {error:#}"),
    }
    let _ = std::io::stdout().flush();
    Told {
        what: What::Fault(peer, fault.name),
        passed: outcome.is_ok(),
    }
}

/// A case that is being judged.
struct Judgement<'scope> {
    case: Case,
    thread: ScopedJoinHandle<'scope, (bool, String)>,
}

impl Judgement<'_> {
    fn tell(self) -> Told {
        let (passed, words) = self
            .thread
            .join()
            .unwrap_or_else(|_| (false, "the judge panicked\n".to_owned()));
        let mark = if passed { "ok    " } else { "FAILED" };
        print!("{mark} {}: {words}", self.case);
        let _ = std::io::stdout().flush();
        Told {
            what: What::Case(self.case),
            passed,
        }
    }
}

/// Runs a case while the guest's network does what the case asks for.
fn on_its_network(
    guest: &mut Guest,
    roce: &Path,
    case: &Case,
    folder: &Path,
) -> Result<(Duel, Wire)> {
    if case.choice.netem.is_none() {
        return with_a_clock(guest, roce, case, folder);
    }
    guest.set_netem(case.choice.netem)?;
    let fought = with_a_clock(guest, roce, case, folder);
    guest.set_netem(None)?;
    fought
}

fn with_a_clock(
    guest: &mut Guest,
    roce: &Path,
    case: &Case,
    folder: &Path,
) -> Result<(Duel, Wire)> {
    const TRIES: u32 = 3;
    let mut tried = 1;
    loop {
        let port = next_port();
        let ground = Ground { roce, folder, port };
        let mut capture = ground.capture(guest, case.own_link())?;
        let duel = duel::run(guest, &ground, case, &mut capture)?;
        if !duel.lacks_a_clock() || tried == TRIES {
            return Ok((duel, capture));
        }
        println!("again  {case}: stock perftest could not calibrate its clock");
        tried += 1;
    }
}

fn lost(error: &anyhow::Error) -> (bool, String) {
    (false, format!("{error:#}\n"))
}

fn say(duel: &Duel, capture: Wire, keep: bool) -> (bool, String) {
    let verdict = match capture.finish().and_then(|()| judge::judge(duel)) {
        Ok(verdict) => verdict,
        Err(error) => return lost(&error),
    };
    if !verdict.faults.is_empty() {
        let faults = verdict.faults.join("; ");
        return (false, format!("{faults}\n{}", duel.evidence()));
    }
    if !keep {
        duel.discard();
    }
    (true, format!("{}\n", verdict.summary))
}

/// A TCP port that no run before had, so that none meets the remains of another.
pub(crate) fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(18515);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
