//! The command line of the tests.

use anyhow::{Context, Result, bail};
use roce_tests::guest::case::{Case, Peer};
use roce_tests::guest::matrix;

use super::faults::{self, Fault};

/// Which cases a run takes its choice from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breadth {
    Smoke,
    Rotated,
    Full,
}

pub(crate) struct Options {
    pub(crate) filters: Vec<String>,
    pub(crate) breadth: Breadth,
    pub(crate) links: Vec<String>,
    /// The one peer that all cases are tried with; each case's own if none.
    peer: Option<Peer>,
    /// Whether a part of the matrix over other links goes along.
    samples: bool,
    pub(crate) list: bool,
    pub(crate) keep: bool,
    /// How often each case runs: what fails now and then needs more than one look.
    times: usize,
    pub(crate) exec: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self {
            filters: vec![],
            breadth: Breadth::Rotated,
            links: vec![],
            peer: None,
            samples: false,
            list: false,
            keep: false,
            times: 1,
            exec: None,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--full" => options.breadth = Breadth::Full,
                "--smoke" => options.breadth = Breadth::Smoke,
                "--list" => options.list = true,
                "--keep" => options.keep = true,
                "--link" => options
                    .links
                    .push(arguments.next().context("--link takes a name, as udp")?),
                "--peer" => {
                    let name = arguments.next().context("--peer takes a suite, as sid")?;
                    let peer = Peer::of_suite(&name);
                    options.peer = Some(peer.with_context(|| format!("no guest of {name}"))?);
                }
                "--times" => {
                    let times = arguments.next().context("--times takes a number")?;
                    options.times = times.parse().context("--times takes a number")?;
                }
                "--exec" => {
                    options.exec = Some(arguments.next().context("--exec takes a command")?)
                }
                // Cargo hands these to every test program when asked to.
                "--nocapture" | "--quiet" | "-q" | "--include-ignored" => {}
                flag if flag.starts_with("--test-threads") || flag.starts_with("--color") => {}
                flag if flag.starts_with("--") => bail!("unknown option {flag}"),
                filter => options.filters.push(filter.to_owned()),
            }
        }
        if options.peer.is_some() && options.breadth == Breadth::Full {
            bail!(
                "--peer goes without --full: the table is of the peers that every change has to pass"
            );
        }
        if options.links.is_empty() {
            options.links = matrix::LINKS.map(str::to_owned).to_vec();
            options.samples = options.breadth == Breadth::Rotated;
        }
        Ok(options)
    }

    pub(crate) fn cases(&self) -> Vec<Case> {
        let all = match self.breadth {
            Breadth::Smoke => matrix::smoke(&self.links),
            Breadth::Rotated => matrix::rotated(&self.links),
            Breadth::Full => matrix::full(&self.links),
        };
        let samples = if self.samples {
            matrix::sampled()
        } else {
            vec![]
        };
        all.into_iter()
            .chain(samples)
            .map(|mut case| {
                case.path.peer = self.peer.unwrap_or(case.path.peer);
                case
            })
            .filter(|case| self.takes(&case.to_string()))
            .flat_map(|case| vec![case; self.times])
            .collect()
    }

    /// What goes wrong with which peer: with both in turn, with each of them in a full run.
    pub(crate) fn faults(&self) -> Vec<(Peer, Fault)> {
        let mut list = Vec::new();
        for (nth, fault) in faults::all().into_iter().enumerate() {
            let peers = match (self.breadth, &self.peer) {
                (Breadth::Smoke, _) => &[][..],
                (_, Some(peer)) => core::slice::from_ref(peer),
                (Breadth::Rotated, None) => &Peer::ALL[nth % 2..=nth % 2],
                (Breadth::Full, None) => &Peer::ALL[..],
            };
            list.extend(peers.iter().map(|peer| (*peer, fault)));
        }
        list.retain(|(peer, fault)| self.takes(&fault_name(*peer, fault)));
        list
    }

    /// Whether all filters are in a name. A part of a name that ends with a space has to end a word.
    fn takes(&self, name: &str) -> bool {
        let name = format!("{name} ");
        self.filters
            .iter()
            .all(|filter| name.contains(filter.as_str()))
    }
}

/// What a fault with a peer is called.
pub(crate) fn fault_name(peer: Peer, fault: &Fault) -> String {
    format!("fault {}: {}", peer.kernel(), fault.name)
}
