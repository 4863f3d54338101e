//! The options of the matrix, and which tests take each.

use std::fmt;

use super::case::{Family, Test};

/// Options of one case, and what they ask of its path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// What a reader calls it: the options as perftest's users type them.
    pub name: String,
    /// The options of both sides, with the iterations.
    pub words: Vec<String>,
    /// Options of our side alone.
    pub ours: Vec<String>,
    /// Options of the stock side alone.
    pub theirs: Vec<String>,
    /// The interface MTU that it needs, if one alone does.
    pub mtu: Option<u32>,
    /// The family that it fixes.
    pub family: Option<Family>,
    /// What the guest's network does to everything that the guest sends: netem's options.
    pub netem: Option<&'static str>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Choice {
    fn new(name: &str) -> Self {
        let words = match name {
            "defaults" => vec![],
            options => options.split_whitespace().map(str::to_owned).collect(),
        };
        Self {
            name: name.to_owned(),
            words,
            ..Self::default()
        }
    }

    /// Adds options that only serve the first: sizes and depths that keep a case short.
    fn with(mut self, more: &str) -> Self {
        self.words
            .extend(more.split_whitespace().map(str::to_owned));
        self
    }

    fn on_mtu(mut self, mtu: u32) -> Self {
        self.mtu = Some(mtu);
        self
    }

    fn of_family(mut self, family: Family) -> Self {
        self.family = Some(family);
        self
    }

    /// Whether packets are lost or change places on their way.
    #[must_use]
    pub fn is_faulty(&self) -> bool {
        self.netem.is_some() || self.ours.iter().any(|word| word == "--impair")
    }

    /// Whether a link of ours has what this takes. A device in the guest moves its packets itself, and not over the
    /// network.
    #[must_use]
    pub fn can_run_over(&self, link: &str) -> bool {
        link != "verbs" || !self.is_faulty()
    }

    /// The value after a flag.
    #[must_use]
    pub fn value(&self, flag: &str) -> Option<u64> {
        let at = self.words.iter().position(|word| word == flag)?;
        self.words.get(at + 1)?.parse().ok()
    }

    /// Whether a word is among the options.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    /// Adds `-n` where neither iterations nor a time are given, so that a case moves few megabytes: an emulated
    /// machine takes a second for ten. A sweep and messages of 8 MiB move more even with the fewest iterations that
    /// perftest takes.
    fn bounded(self, test: Test) -> Self {
        const MOST_BYTES: u64 = 4 << 20;
        const FEWEST: u64 = 5;
        if self.has("-n") || self.has("-D") {
            return self;
        }
        let both_ways = self.has("-b") || !test.is_bandwidth();
        let default = match (test.has_sizes(), test.is_bandwidth()) {
            (false, _) => 8,
            (true, true) => 65536,
            (true, false) => 2,
        };
        let size = match self.has("-a") {
            true => 16 << 20,
            false => self.value("-s").unwrap_or(default),
        };
        let round = size * self.value("-q").unwrap_or(1) * if both_ways { 2 } else { 1 };
        let n = match self.name.as_str() {
            // Bandwidth tests signal every hundredth request and have 128 under way: let both be seen.
            "defaults" | "-Q 100" => 200,
            _ => (MOST_BYTES / round).clamp(FEWEST, 200),
        };
        let n = if n >= 8 { n / 8 * 8 } else { n };
        self.with(&format!("-n {n}"))
    }
}

/// All choices that a test has, in the order of the document.
#[must_use]
pub fn choices(test: Test) -> Vec<Choice> {
    let mut list = vec![Choice::new("defaults")];
    list.extend(transports(test));
    if test.is_bandwidth() {
        list.extend(bandwidth(test));
    }
    list.extend(["256", "512", "1024", "2048", "4096"].map(path_mtu));
    if test.has_sizes() {
        list.extend(sizes(test));
    }
    list.extend(operations(test));
    list.push(Choice::new("--tclass=106"));
    list.extend([
        // The rows of both GID tables, in the kernel's order: link-local, IPv4, IPv6.
        Choice::new("-x 0").of_family(Family::V6),
        Choice::new("-x 1").of_family(Family::V4),
        Choice::new("-x 2").of_family(Family::V6),
    ]);
    list.push(Choice::new("--flow_label 5"));
    list.extend(reports(test));
    list.push(Choice::new("-D 4"));
    list.extend(faults(test));
    list.into_iter()
        .map(|choice| choice.bounded(test))
        .collect()
}

fn path_mtu(value: &str) -> Choice {
    let choice = Choice::new(&format!("-m {value}")).with("-n 24");
    match value {
        "2048" | "4096" => choice.on_mtu(4200),
        _ => choice,
    }
}

fn transports(test: Test) -> Vec<Choice> {
    let mut list = Vec::new();
    let send = matches!(test, Test::SendBw | Test::SendLat);
    let write = matches!(test, Test::WriteBw | Test::WriteLat);
    if send || write {
        // Nothing is sent again: what is under way has to fit the guest's queues.
        let few = if test.is_bandwidth() {
            "-s 4096 -n 100 -t 16"
        } else {
            "-s 4096 -n 100"
        };
        list.push(Choice::new("-c UC").with(few));
    }
    if send {
        let few = if test.is_bandwidth() {
            "-n 100 -t 16"
        } else {
            "-n 100"
        };
        list.push(Choice::new("-c UD").with(few));
        list.push(Choice::new("--use-srq"));
    }
    list
}

fn bandwidth(test: Test) -> Vec<Choice> {
    let mut list = vec![
        Choice::new("-b"),
        Choice::new("-q 4"),
        Choice::new("-l 8"),
        Choice::new("-Q 1"),
        Choice::new("-Q 100"),
        Choice::new("-t 1").with("-n 40"),
        Choice::new("--report_gbits"),
        Choice::new("-b --report-both"),
        Choice::new("--reversed"),
        Choice::new("-q 2 --mr_per_qp"),
    ];
    if test == Test::SendBw {
        list.push(
            Choice::new("--rate_limit 0.02 --rate_limit_type SW").with("-s 4096 -t 16 -n 80"),
        );
    } else {
        // Before 25.07 a warm-up waits for ever where not every request is signaled.
        list.push(Choice::new("--perform_warm_up").with("-Q 1 -t 16 -n 32"));
    }
    // More requests than the depth, or it would be lowered to their number.
    list.push(match test.has_sizes() {
        true => Choice::new("-t 512").with("-s 16384 -n 640"),
        false => Choice::new("-t 512").with("-n 640"),
    });
    list
}

fn sizes(test: Test) -> Vec<Choice> {
    let mut list = vec![Choice::new("-a")];
    let few = |size: &str| match (size, test.is_bandwidth()) {
        ("8388608", _) => "-n 5",
        (_, true) => "",
        (_, false) => "-n 40",
    };
    list.extend(
        ["1", "3", "33", "1024", "1025", "65536", "65537", "8388608"]
            .map(|size| Choice::new(&format!("-s {size}")).with(few(size))),
    );
    list
}

fn operations(test: Test) -> Vec<Choice> {
    let mut list = Vec::new();
    let atomic = matches!(test, Test::AtomicBw | Test::AtomicLat);
    let read = matches!(test, Test::ReadBw | Test::ReadLat);
    if atomic {
        list.push(Choice::new("-A CMP_AND_SWAP"));
    }
    if atomic || read {
        list.extend([Choice::new("-o 1"), Choice::new("-o 4")]);
    }
    if !matches!(test, Test::WriteBw | Test::WriteLat) {
        list.push(Choice::new("-e"));
    }
    list
}

fn reports(test: Test) -> Vec<Choice> {
    let mut list = vec![Choice::new("--out_json")];
    if !test.is_bandwidth() {
        list.extend([Choice::new("-H"), Choice::new("-U")]);
    }
    list
}

/// A network that loses, doubles and reorders: made by us in both directions, or by the guest on its way out.
fn faults(test: Test) -> Vec<Choice> {
    const KINDS: [(&str, &str, &str); 4] = [
        ("1% loss", "drop=1%,seed=7", "loss 1%"),
        ("5% loss", "drop=5%,seed=7", "loss 5%"),
        ("duplicates", "dup=5%,seed=7", "duplicate 5%"),
        (
            "reordering",
            "reorder=5%,seed=7",
            "delay 3ms reorder 90% 25%",
        ),
    ];
    if !test.is_bandwidth() {
        return vec![];
    }
    let few = if test.has_sizes() {
        "-s 8192 -n 64"
    } else {
        "-n 64"
    };
    let faulty = |name: String| Choice {
        words: few.split_whitespace().map(str::to_owned).collect(),
        name,
        ..Choice::default()
    };
    let mut list = Vec::new();
    for (kind, impair, netem) in KINDS {
        list.push(Choice {
            ours: vec!["--impair".to_owned(), impair.to_owned()],
            ..faulty(format!("{kind} by --impair"))
        });
        list.push(Choice {
            netem: Some(netem),
            ..faulty(format!("{kind} by netem"))
        });
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_moves_at_most_16_mb_where_perftest_lets_it() {
        for test in Test::ALL {
            for choice in choices(test) {
                let Some(n) = choice.value("-n") else {
                    assert_eq!(choice.name, "-D 4");
                    continue;
                };
                let default = match (test.has_sizes(), test.is_bandwidth()) {
                    (true, true) => 64 << 10,
                    _ => 8,
                };
                let size = choice.value("-s").unwrap_or(default);
                let bytes = n * size * choice.value("-q").unwrap_or(1);
                let least = choice.has("-a") || choice.value("-s") == Some(8 << 20);
                assert!(
                    bytes <= 16 << 20 || least && n == 5,
                    "{test:?} {choice}: {bytes}"
                );
            }
        }
    }

    #[test]
    fn a_list_of_requests_divides_the_iterations() {
        for test in Test::ALL {
            for choice in choices(test) {
                if let Some(list) = choice.value("-l") {
                    assert_eq!(choice.value("-n").unwrap() % list, 0);
                }
            }
        }
    }

    #[test]
    fn names_of_a_tests_choices_differ() {
        for test in Test::ALL {
            let mut names: Vec<String> = choices(test).into_iter().map(|c| c.name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
