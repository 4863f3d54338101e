//! `roce` on two hosts that a cable joins: network namespaces with a veth pair, as root.
//!
//! Both ends record with `--pcap`; the files are judged by this crate's own ICRC check and by tshark.

use core::net::IpAddr;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use roce_tests::guest::case::Test;
use roce_tests::hosts::{self, CLIENT_V4, CLIENT_V6, Hosts, SERVER_V4, SERVER_V6};
use roce_tests::process::{Process, Reply};
use roce_tests::{command, frames, needs, table};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 18515;

#[test]
fn the_eight_tests_cross_the_cable_over_ipv4() {
    let Some(bench) = Bench::new("v4", 1500) else {
        return;
    };
    for test in Test::ALL {
        bench.run_and_judge(test, &[], SERVER_V4, "1024[B]");
    }
}

#[test]
fn the_eight_tests_cross_the_cable_over_ipv6() {
    let Some(bench) = Bench::new("v6", 1500) else {
        return;
    };
    for test in Test::ALL {
        bench.run_and_judge(test, &["--ipv6-addr", "--ipv6"], SERVER_V6, "1024[B]");
    }
}

#[test]
fn a_path_of_4096_bytes_is_used_where_frames_are_large() {
    let Some(bench) = Bench::new("jumbo", 9000) else {
        return;
    };
    for test in [Test::WriteBw, Test::ReadBw, Test::SendBw] {
        bench.run_and_judge(test, &["-b"], SERVER_V4, "4096[B]");
    }
}

#[test]
fn every_message_survives_a_path_that_loses_doubles_and_reorders() {
    let Some(bench) = Bench::new("faults", 1500) else {
        return;
    };
    let faults = [
        "--verify",
        "--impair",
        "drop=1%,dup=1%,reorder=1%,corrupt=1%,seed=7",
    ];
    for test in [Test::WriteBw, Test::ReadBw, Test::SendBw, Test::AtomicBw] {
        let (client, server) = bench.run(test, &faults, SERVER_V4);
        for (side, reply) in [("client", client), ("server", server)] {
            assert_eq!(reply.status, 0, "{test:?}: the {side} said\n{}", reply.text);
        }
    }
}

#[test]
fn a_cut_cable_ends_the_client_with_the_status_and_the_qp() {
    let Some(bench) = Bench::new("cut", 1500) else {
        return;
    };
    let options = ["-D", "30"];
    let _server = bench.start_server(Test::WriteBw, &options, "cut");
    let client = bench.start_client(Test::WriteBw, &options, SERVER_V4, "cut");
    std::thread::sleep(Duration::from_secs(3));
    let cut = Instant::now();
    bench
        .hosts
        .server
        .shell("ip link set eth0 down")
        .expect("the server's interface goes down");
    let reply = client.finish(LIMIT).expect("the client's output");
    assert_eq!(reply.status, 1, "{}", reply.text);
    assert!(
        cut.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        cut.elapsed()
    );
    assert!(
        reply.text.contains("IBV_WC_RETRY_EXC_ERR (12)"),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("QPN 0x"), "{}", reply.text);
}

/// Two hosts, the command, and a folder for logs and recordings.
struct Bench {
    hosts: Hosts,
    roce: PathBuf,
    folder: PathBuf,
}

impl Bench {
    /// Makes the hosts, or says why this machine can't; in CI that is a failure.
    fn new(name: &str, mtu: u32) -> Option<Self> {
        if let Some(reason) = needs::unavailable(needs::NETNS) {
            assert!(
                std::env::var_os("CI").is_none(),
                "{reason}, and in CI no tier may be skipped"
            );
            println!("skipped: {reason}");
            return None;
        }
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
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
        })
    }

    /// Runs a test with recordings, expects success and judges both files.
    fn run_and_judge(&self, test: Test, options: &[&str], server: &str, mtu: &str) {
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

    fn run(&self, test: Test, options: &[&str], server: &str) -> (Reply, Reply) {
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
    fn start_server(&self, test: Test, options: &[&str], name: &str) -> Process {
        let log = self.folder.join(format!("{name}.server.log"));
        let words = words(test, options, None);
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

    fn start_client(&self, test: Test, options: &[&str], server: &str, name: &str) -> Process {
        let log = self.folder.join(format!("{name}.client.log"));
        let words = words(test, options, Some(server));
        hosts::start(&self.hosts.client, &self.roce, &words, &log).expect("the client starts")
    }
}

/// The arguments of one side: few messages unless the options say how long.
fn words(test: Test, options: &[&str], server: Option<&str>) -> Vec<String> {
    let mut words = vec![test.name(), "-d", "udp:eth0"];
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
