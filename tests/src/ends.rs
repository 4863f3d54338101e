//! The command on two hosts that a cable joins: both ends, their logs and their recordings.

use core::net::IpAddr;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::guest::case::Test;
use crate::hosts::{self, CLIENT_V4, CLIENT_V6, Hosts, SERVER_V4, SERVER_V6};
use crate::process::{Process, Reply};
use crate::{command, frames, needs, table};

/// How long a program may take.
pub const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 18515;

/// Two hosts, the command, and a folder for logs and recordings.
#[derive(Debug)]
pub struct Bench {
    /// The hosts.
    pub hosts: Hosts,
    /// The command.
    pub roce: PathBuf,
    /// Where logs and recordings are.
    pub folder: PathBuf,
    devices: [&'static str; 2],
}

impl Bench {
    /// Makes the hosts, or says why this machine can't; in CI that is a failure.
    ///
    /// `devices` are the options `-d` of client and server, `temporary` is cargo's folder for tests.
    ///
    /// # Panics
    /// If the command can't be built or the hosts can't be made.
    #[must_use]
    pub fn new(name: &str, mtu: u32, devices: [&'static str; 2], temporary: &str) -> Option<Self> {
        if let Some(reason) = needs::unavailable(needs::NETNS) {
            assert!(
                std::env::var_os("CI").is_none(),
                "{reason}, and in CI no tier may be skipped"
            );
            println!("skipped: {reason}");
            return None;
        }
        let temporary = Path::new(temporary);
        let target = temporary
            .join("..")
            .canonicalize()
            .expect("cargo made the target folder");
        let folder = temporary.join(format!("netns-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder for logs");
        let roce = command::binary(&target).expect("the command");
        let hosts = Hosts::new(mtu).expect("two hosts");
        Some(Self {
            hosts,
            roce,
            folder,
            devices,
        })
    }

    /// Runs a test with recordings, expects success and judges both files.
    ///
    /// # Panics
    /// If something isn't as it should be.
    pub fn run_and_judge(&self, test: Test, options: &[&str], server: &str, mtu: &str) {
        let recordings = [
            self.folder.join("client.pcapng"),
            self.folder.join("server.pcapng"),
        ];
        let (client, served) = self.run_recorded(test, options, server, &recordings);
        let printing = [
            ("client", &client, true),
            ("server", &served, test.server_prints()),
        ];
        for (side, reply, prints) in printing {
            assert_eq!(reply.status, 0, "{test:?}: the {side} said\n{}", reply.text);
            let rows = table::rows(&reply.text);
            assert_eq!(
                rows.len(),
                usize::from(prints),
                "{test:?}: the {side} said\n{}",
                reply.text
            );
            assert!(
                rows.iter().all(table::Row::has_figure),
                "{test:?}: {rows:?}"
            );
            assert!(
                reply.text.contains(&format!(": {mtu}")),
                "{test:?}: {}",
                reply.text
            );
        }
        let addresses = [[CLIENT_V4, CLIENT_V6], [SERVER_V4, SERVER_V6]];
        for (recording, own) in recordings.iter().zip(addresses) {
            let own = own.map(|ip| ip.parse::<IpAddr>().expect("an address"));
            let plain = as_pcap(recording);
            let findings = frames::judge(&plain, &own).expect("a whole recording");
            let what = format!("{test:?}, {}: {findings:?}", recording.display());
            assert!(findings.ours > 0 && findings.theirs > 0, "{what}");
            assert_eq!((findings.our_bad, findings.their_bad), (0, 0), "{what}");
            let malformed = frames::malformed(&plain, &own).expect("tshark reads the recording");
            assert!(malformed.is_empty(), "{test:?}: {malformed:?}");
        }
    }

    /// Runs the bandwidth tests, verified, over a path that loses, repeats, reorders and damages packets.
    ///
    /// # Panics
    /// If an end fails.
    pub fn run_faulty(&self) {
        let faults = [
            "--verify",
            "--impair",
            "drop=1%,dup=1%,reorder=1%,corrupt=1%,seed=7",
        ];
        for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
            let (client, server) = self.run(test, &faults, SERVER_V4);
            for (side, reply) in [("client", client), ("server", server)] {
                assert_eq!(reply.status, 0, "{test:?}: the {side} said\n{}", reply.text);
            }
        }
    }

    /// Runs both ends of a test.
    ///
    /// # Panics
    /// If one can't be started.
    #[must_use]
    pub fn run(&self, test: Test, options: &[&str], server: &str) -> (Reply, Reply) {
        let serving = self.start_server(test, options, "server");
        let client = self.start_client(test, options, server, "client");
        let client = client.finish(LIMIT).expect("the client's output");
        (client, serving.finish(LIMIT).expect("the server's output"))
    }

    fn run_recorded(
        &self,
        test: Test,
        options: &[&str],
        server: &str,
        recordings: &[PathBuf; 2],
    ) -> (Reply, Reply) {
        let [for_client, for_server] = recordings.each_ref().map(|file| {
            let file = file.to_str().expect("a UTF-8 path");
            [options, &["--pcap", file][..]].concat()
        });
        let serving = self.start_server(test, &for_server, "server");
        let client = self.start_client(test, &for_client, server, "client");
        let client = client.finish(LIMIT).expect("the client's output");
        (client, serving.finish(LIMIT).expect("the server's output"))
    }

    /// Starts a server and returns when it listens.
    ///
    /// # Panics
    /// If it doesn't.
    #[must_use]
    pub fn start_server(&self, test: Test, options: &[&str], name: &str) -> Process {
        let log = self.folder.join(format!("{name}.server.log"));
        let words = words(test, self.devices[1], options, None);
        let mut server =
            hosts::start(&self.hosts.server, &self.roce, &words, &log).expect("the server starts");
        let deadline = Instant::now() + LIMIT;
        while !self.hosts.server.listens_on(PORT) {
            let waiting = !server.has_ended() && Instant::now() < deadline;
            assert!(
                waiting,
                "{test:?}: the server does not listen: {}",
                server.output()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Starts a client.
    ///
    /// # Panics
    /// If it can't be started.
    #[must_use]
    pub fn start_client(&self, test: Test, options: &[&str], server: &str, name: &str) -> Process {
        let log = self.folder.join(format!("{name}.client.log"));
        let words = words(test, self.devices[0], options, Some(server));
        hosts::start(&self.hosts.client, &self.roce, &words, &log).expect("the client starts")
    }
}

/// The arguments of one side: few messages unless the options say how long.
fn words(test: Test, device: &str, options: &[&str], server: Option<&str>) -> Vec<String> {
    let mut words = vec![test.name(), "-d", device];
    if !options.contains(&"-D") {
        words.extend(["-n", "200"]);
    }
    words.extend(options);
    words.extend(server);
    words.into_iter().map(str::to_owned).collect()
}

/// Has tshark rewrite a pcapng file as plain pcap, which the judge reads.
fn as_pcap(recording: &Path) -> PathBuf {
    let plain = recording.with_extension("pcap");
    let output = Command::new("tshark")
        .arg("-r")
        .arg(recording)
        .args(["-F", "pcap", "-w"])
        .arg(&plain)
        .output()
        .expect("tshark runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "tshark can't read {}: {stderr}",
        recording.display()
    );
    plain
}
