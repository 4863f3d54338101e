//! What `roce` over AF_XDP says when it can't be: one line with the object and what to do, and exit status 3.

use core::time::Duration;
use std::time::Instant;

use roce_tests::ends::{Bench, LIMIT};
use roce_tests::guest::case::Test;
use roce_tests::hosts::SERVER_V4;
use roce_tests::namespace::Namespace;

#[test]
fn each_thing_that_is_missing_has_its_line() {
    let Some(bench) = bench("missing") else {
        return;
    };
    let host = &bench.hosts.server;
    let nobody = "setpriv --bounding-set=-all --reuid=65534 --clear-groups --inh-caps=-all";
    let bounded = "setpriv --bounding-set=-ipc_lock prlimit --memlock=65536";
    let cases = [
        (
            "",
            "",
            "afxdp:nosuch0",
            "there is no network interface \"nosuch0\"; there are: ",
        ),
        ("", "", "afxdp:lo", "interface lo has no Ethernet frames"),
        (
            "",
            "",
            "afxdp:eth0:9",
            "interface eth0 has no queue 9: it has ",
        ),
        (
            nobody,
            "",
            "afxdp:eth0",
            "lacks CAP_NET_RAW and CAP_NET_ADMIN and CAP_BPF: run it as root",
        ),
        (nobody, "", "afxdp:eth0", "-d udp:eth0 needs none"),
        (
            "",
            "ip link set eth0 down",
            "afxdp:eth0",
            "interface eth0 is down: ip link set eth0 up",
        ),
        (
            "",
            "ip addr flush dev eth0",
            "afxdp:eth0",
            "interface eth0 has no usable IP address",
        ),
        (
            "",
            "ip link set eth0 mtu 300",
            "afxdp:eth0",
            "the MTU of interface eth0 is 300, RoCE needs 336 at least",
        ),
    ];
    for (wrapper, before, device, words) in cases {
        let said = server_says(&bench, host, wrapper, before, device);
        assert!(said.contains(words), "{device}: {said}");
        let lines = said
            .lines()
            .filter(|line| line.starts_with("roce: "))
            .count();
        assert_eq!(lines, 1, "{said}");
        reset(host);
    }
    let said = server_and_client(&bench, bounded, "");
    assert!(
        said.contains("exceed the limit of locked memory (ulimit -l is 64 KiB)"),
        "{said}"
    );
}

#[test]
fn a_second_process_on_a_queue_is_told_who_has_it() {
    let Some(bench) = bench("busy") else {
        return;
    };
    let server = bench.start_server(Test::WriteBw, &["-D", "20"], "first");
    let client = bench.start_client(Test::WriteBw, &["-D", "20"], SERVER_V4, "first");
    std::thread::sleep(Duration::from_secs(2));
    let other = ["-D", "1", "-p", "18600"];
    let host = &bench.hosts.server;
    let mut second = host.command(bench.roce.to_str().expect("a UTF-8 path"));
    second.args(["write-bw", "-d", "afxdp:eth0"]).args(other);
    let log = bench.folder.join("second.log");
    let waiting = roce_tests::process::Process::start(&mut second, &log).expect("a second server");
    wait_for(host, 18600);
    let mut peer = bench
        .hosts
        .client
        .command(bench.roce.to_str().expect("a UTF-8 path"));
    peer.args(["write-bw", "-d", "udp:eth0"])
        .args(other)
        .arg(SERVER_V4);
    let _peer = peer.output().expect("a second client");
    let reply = waiting.finish(LIMIT).expect("its output");
    assert_eq!(reply.status, 3, "{}", reply.text);
    // Its name is the file's, which the environment may choose.
    for words in ["queue 0 of interface eth0 is in use by roce", "(pid "] {
        assert!(reply.text.contains(words), "{}", reply.text);
    }
    drop((client, server));
}

/// Starts a server that has to refuse at once, and returns what it says.
fn server_says(
    bench: &Bench,
    host: &Namespace,
    wrapper: &str,
    before: &str,
    device: &str,
) -> String {
    // The program is copied to where any user may run it.
    let line = format!(
        "{before}\ncp {} /tmp/roce-errors-$$ && chmod 755 /tmp/roce-errors-$$\n\
         {wrapper} /tmp/roce-errors-$$ write-bw -d {device} --connect-timeout 5 2>&1\n\
         status=$?\nrm /tmp/roce-errors-$$\necho status $status",
        bench.roce.display()
    );
    let said = host.shell(&line).expect("a shell");
    assert!(said.contains("status 3"), "{device}: {said}");
    said
}

/// Runs both ends after the server's host was changed, and returns what the server says.
fn server_and_client(bench: &Bench, wrapper: &str, before: &str) -> String {
    let host = &bench.hosts.server;
    let roce = bench.roce.display();
    let line = format!(
        "{before}\n{wrapper} {roce} write-bw -d afxdp:eth0 --connect-timeout 10 2>&1; echo status $?"
    );
    let mut command = host.command("sh");
    command.args(["-c", &line]);
    let log = bench.folder.join("refusing.log");
    let server = roce_tests::process::Process::start(&mut command, &log).expect("a shell");
    wait_for(host, 18515);
    let client = bench.start_client(Test::WriteBw, &[], SERVER_V4, "refused");
    let _reply = client.finish(LIMIT).expect("the client's output");
    let said = server.finish(LIMIT).expect("the server's output").text;
    assert!(said.contains("status 3"), "{said}");
    said
}

fn wait_for(host: &Namespace, port: u16) {
    let deadline = Instant::now() + LIMIT;
    while !host.listens_on(port) {
        assert!(Instant::now() < deadline, "nobody listens on {port}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn reset(host: &Namespace) {
    host.shell(&format!(
        "ip addr replace {SERVER_V4}/24 dev eth0; ip link set eth0 mtu 1500 up"
    ))
    .expect("the interface as it was");
    std::thread::sleep(Duration::from_millis(200));
}

/// Two hosts, the client's on sockets.
fn bench(name: &str) -> Option<Bench> {
    let devices = ["udp:eth0", "afxdp:eth0"];
    let name = format!("afxdp-{name}");
    Bench::new(&name, 1500, devices, env!("CARGO_TARGET_TMPDIR"))
}
