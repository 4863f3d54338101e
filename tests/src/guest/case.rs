//! One interoperability case as data, and the lists of them.

use std::fmt;

use super::net;

/// The eight tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Test {
    WriteBw,
    WriteLat,
    ReadBw,
    ReadLat,
    SendBw,
    SendLat,
    AtomicBw,
    AtomicLat,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WriteBw,
        Self::WriteLat,
        Self::ReadBw,
        Self::ReadLat,
        Self::SendBw,
        Self::SendLat,
        Self::AtomicBw,
        Self::AtomicLat,
    ];

    /// The word that `roce` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteBw => "write-bw",
            Self::WriteLat => "write-lat",
            Self::ReadBw => "read-bw",
            Self::ReadLat => "read-lat",
            Self::SendBw => "send-bw",
            Self::SendLat => "send-lat",
            Self::AtomicBw => "atomic-bw",
            Self::AtomicLat => "atomic-lat",
        }
    }

    /// Whether it measures bandwidth, and so takes the options of bandwidth tests.
    #[must_use]
    pub fn is_bandwidth(self) -> bool {
        self.name().ends_with("-bw")
    }

    /// Whether its message size is a choice.
    #[must_use]
    pub fn has_sizes(self) -> bool {
        !matches!(self, Self::AtomicBw | Self::AtomicLat)
    }

    /// Whether the side without a server name prints a result row too.
    #[must_use]
    pub fn server_prints(self) -> bool {
        !matches!(self, Self::ReadLat | Self::AtomicLat)
    }
}

/// Which side of the TCP exchange is ours; stock perftest is the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `roce` connects to a stock server in the guest.
    Client,
    /// `roce` waits for a stock client in the guest.
    Server,
}

/// A run of one test, the same options on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// What runs.
    pub test: Test,
    /// Who we are.
    pub role: Role,
    /// Options in perftest's letters.
    pub options: &'static [&'static str],
}

impl Case {
    /// The value after a flag among the options.
    #[must_use]
    pub fn value(&self, flag: &str) -> Option<u64> {
        let at = self.options.iter().position(|&option| option == flag)?;
        self.options.get(at + 1)?.parse().ok()
    }

    /// Whether a flag is among the options.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.options.contains(&flag)
    }

    /// The iterations that a row has to report, where the options fix them.
    #[must_use]
    pub fn expected_iterations(&self) -> Option<u64> {
        Some(self.value("-n")? * self.value("-q").unwrap_or(1))
    }

    /// Our arguments, for the device on the tap and a TCP port.
    #[must_use]
    pub fn our_arguments(&self, port: u16) -> Vec<String> {
        let mut arguments = vec![
            self.test.name().to_owned(),
            "-d".into(),
            format!("udp:{}", net::TAP),
        ];
        self.push_common(&mut arguments, port);
        if self.role == Role::Client {
            arguments.push(net::GUEST_V4.into());
        }
        arguments
    }

    /// The command line of the stock program in the guest.
    #[must_use]
    pub fn their_command(&self, port: u16) -> String {
        let mut words = vec![format!("ib_{}", self.test.name().replace('-', "_"))];
        words.extend(["-d".to_owned(), "rxe0".to_owned(), "-F".to_owned()]);
        self.push_common(&mut words, port);
        if self.role == Role::Server {
            words.push(net::OUR_V4.into());
        }
        words.join(" ")
    }

    fn push_common(&self, words: &mut Vec<String>, port: u16) {
        words.extend(["-p".to_owned(), port.to_string()]);
        words.extend(self.options.iter().map(|&option| option.to_owned()));
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Client => "to-stock",
            Role::Server => "from-stock",
        };
        write!(f, "{} {role} {}", self.test.name(), self.options.join(" "))
    }
}

/// The cases that every run of the tests includes: four tests, both roles.
#[must_use]
pub fn smoke() -> Vec<Case> {
    both_roles(&[
        (Test::WriteBw, &["-s", "65536", "-n", "200"]),
        (Test::ReadBw, &["-s", "65536", "-n", "200"]),
        (Test::SendLat, &["-s", "64", "-n", "200"]),
        (Test::AtomicLat, &["-n", "200"]),
    ])
}

/// All tests in both roles over the options that change what is on the wire.
#[must_use]
pub fn full() -> Vec<Case> {
    const ANY: [&[&str]; 2] = [&["-n", "100"], &["-D", "4"]];
    const SIZED: [&[&str]; 7] = [
        &["-a", "-n", "5"],
        &["-s", "1", "-n", "100"],
        &["-s", "1025", "-n", "100"],
        &["-s", "4097", "-n", "100"],
        &["-s", "65537", "-n", "50"],
        &["-m", "256", "-s", "4096", "-n", "100"],
        &["-m", "512", "-s", "8191", "-n", "100"],
    ];
    const BANDWIDTH: [&[&str]; 3] = [
        &["-b", "-n", "100"],
        &["-q", "4", "-n", "50"],
        &["-b", "-q", "4", "-n", "50"],
    ];
    const SIZED_BANDWIDTH: [&[&str]; 3] = [
        &["-b", "-s", "2049", "-n", "100"],
        &["-t", "16", "-Q", "4", "-n", "96"],
        &["-b", "-D", "4"],
    ];
    let mut list: Vec<(Test, &'static [&'static str])> = Vec::new();
    for test in Test::ALL {
        let (sizes, bandwidth) = (test.has_sizes(), test.is_bandwidth());
        let options = (ANY.into_iter())
            .chain(SIZED.into_iter().filter(|_| sizes))
            .chain(BANDWIDTH.into_iter().filter(|_| bandwidth))
            .chain(SIZED_BANDWIDTH.into_iter().filter(|_| sizes && bandwidth));
        list.extend(options.map(|options| (test, options)));
    }
    list.extend([
        (Test::AtomicBw, &["-A", "CMP_AND_SWAP", "-n", "100"][..]),
        (Test::AtomicLat, &["-A", "CMP_AND_SWAP", "-n", "100"]),
        (Test::ReadBw, &["-o", "4", "-n", "100"]),
        (Test::WriteBw, &["--report_gbits", "-n", "100"]),
        (Test::SendBw, &["-r", "16", "-t", "16", "-n", "100"]),
        (Test::WriteBw, &["--tclass", "104", "-n", "100"]),
        // Row 2 of both GID tables is the IPv6 address.
        (Test::WriteBw, &["-x", "2", "-n", "100"]),
        (Test::ReadBw, &["-x", "2", "-s", "5000", "-n", "100"]),
        (Test::SendLat, &["-x", "2", "-n", "100"]),
        (Test::AtomicLat, &["-x", "2", "-n", "100"]),
    ]);
    both_roles(&list)
}

fn both_roles(list: &[(Test, &'static [&'static str])]) -> Vec<Case> {
    list.iter()
        .flat_map(|&(test, options)| {
            [Role::Client, Role::Server].map(|role| Case {
                test,
                role,
                options,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_sides_get_the_same_options_and_only_the_client_gets_a_server() {
        let options = &["-s", "64", "-n", "200"];
        let case = Case {
            test: Test::SendLat,
            role: Role::Client,
            options,
        };
        assert_eq!(
            case.our_arguments(18515).join(" "),
            "send-lat -d udp:tap0 -p 18515 -s 64 -n 200 192.168.77.2"
        );
        assert_eq!(
            case.their_command(18515),
            "ib_send_lat -d rxe0 -F -p 18515 -s 64 -n 200"
        );
        let case = Case {
            role: Role::Server,
            ..case
        };
        assert!(case.their_command(1).ends_with(" 192.168.77.1"));
        assert!(!case.our_arguments(1).contains(&net::GUEST_V4.to_owned()));
    }

    #[test]
    fn iterations_are_counted_over_all_qps_and_open_in_timed_runs() {
        let mut case = Case {
            test: Test::WriteBw,
            role: Role::Client,
            options: &["-q", "4", "-n", "50"],
        };
        assert_eq!(case.expected_iterations(), Some(200));
        case.options = &["-D", "4"];
        assert_eq!(case.expected_iterations(), None);
    }

    #[test]
    fn no_case_is_listed_twice() {
        for list in [smoke(), full()] {
            let mut names: Vec<String> = list.iter().map(ToString::to_string).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
