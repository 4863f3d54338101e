//! Endpoints in processes of their own, as they are used.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use backend_udp::{Config, Endpoint, Local, OpenError, UdpLink};
use roce_engine::link::Link;

/// One test at a time: a process that another test starts holds copies of this one's sockets until its `exec`.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names the role that a copy of this test binary plays.
const ROLE: &str = "BACKEND_UDP_TEST_ROLE";

fn open(port: u16, role: Endpoint) -> Result<UdpLink, OpenError> {
    UdpLink::open(Config {
        port,
        ..Config::new(Local::Interface("lo".to_owned()), role)
    })
}

/// Starts a process that holds an endpoint of `port` until it is killed.
fn start(port: u16, role: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_an_endpoint", "--nocapture"])
        .env(ROLE, format!("{role} {port}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The test harness prints lines of its own.
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line.contains("ready"));
    assert!(ready, "the process ended without an endpoint");
    child
}

/// The other process; does nothing as a test.
#[test]
fn holds_an_endpoint() {
    let Ok(what) = std::env::var(ROLE) else {
        return;
    };
    let (role, port) = what.split_once(' ').unwrap();
    let role = if role == "server" {
        Endpoint::Server
    } else {
        Endpoint::Client
    };
    let _link = open(port.parse().unwrap(), role).unwrap();
    println!("ready");
    // Bounded, should the parent die.
    std::thread::sleep(Duration::from_secs(30));
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_process_leaves_its_place_to_the_next() {
    let _turn = turn();
    let server = open(24_831, Endpoint::Server).unwrap();
    for _ in 0..10 {
        let client = start(24_831, "client");
        let Err(third) = open(24_831, Endpoint::Client) else {
            panic!("three endpoints on one address")
        };
        let holder = format!("(pid {})", client.id());
        assert!(third.to_string().contains(&holder), "{third}");
        kill(client);
        let mine = open(24_831, Endpoint::Client).unwrap();
        assert_eq!(mine.caps().qpn_parity, Some(1));
    }
    drop(server);
}

#[test]
fn a_place_is_free_at_once_while_the_killed_process_is_still_dying() {
    let _turn = turn();
    for _ in 0..10 {
        let mut client = start(24_832, "client");
        let mut server = start(24_832, "server");
        client.kill().unwrap();
        // Not waited for: the kernel may be closing its descriptors right now.
        let deadline = Instant::now() + Duration::from_secs(2);
        let mine = loop {
            match open(24_832, Endpoint::Client) {
                Ok(link) => break link,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        assert_eq!(mine.caps().qpn_parity, Some(1));
        client.wait().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
