//! Processes of the command, one test at a time: UDP port 4791 belongs to the whole machine.

use core::time::Duration;
use std::fs::File;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

/// The eight tests.
pub(crate) const TESTS: [&str; 8] = [
    "write-bw",
    "write-lat",
    "read-bw",
    "read-lat",
    "send-bw",
    "send-lat",
    "atomic-bw",
    "atomic-lat",
];

/// How long any process may take.
const BOUND: Duration = Duration::from_secs(60);

/// The right to use UDP port 4791, until dropped.
pub(crate) struct Turn {
    _lock: File,
}

impl Turn {
    pub(crate) fn take() -> Self {
        let path = std::env::temp_dir().join("roce-udp-4791.lock");
        let lock = File::options()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        Self { _lock: lock }
    }
}

/// What a process said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Returns the first column of each row of the table.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        self.out
            .lines()
            .skip_while(|line| !line.starts_with(" #bytes"))
            .skip(1)
            .map_while(|line| line.split_whitespace().next()?.parse().ok())
            .collect()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A running process, killed when dropped.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn start(words: &str) -> Self {
        Self::start_in(words, ".".as_ref())
    }

    pub(crate) fn start_in(words: &str, folder: &Path) -> Self {
        Self::start_with(words, folder, &[])
    }

    /// With variables of its environment.
    pub(crate) fn start_with(words: &str, folder: &Path, set: &[(&str, &str)]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_roce"))
            .args(words.split_whitespace())
            .current_dir(folder)
            .envs(set.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child: Some(child) }
    }

    pub(crate) fn interrupt(&self) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), Signal::INT).unwrap();
    }

    /// Waits for its end, within a bound.
    pub(crate) fn finish(mut self) -> Said {
        let until = Instant::now() + BOUND;
        let mut child = self.child.take().unwrap();
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                child.kill().unwrap();
                let said = Said::from(child.wait_with_output().unwrap());
                panic!("it did not end within {BOUND:?}: {said:#?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _killed = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Runs the command to its end.
pub(crate) fn roce(words: &str) -> Said {
    Running::start(words).finish()
}

/// As [`roce`], in a folder.
pub(crate) fn roce_in(words: &str, folder: &Path) -> Said {
    Running::start_in(words, folder).finish()
}

/// Returns a TCP port that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("[::]:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts a server and waits until it listens.
pub(crate) fn server(words: &str, port: u16) -> Running {
    listening(Running::start(&format!("{words} -p {port}")))
}

/// Waits until a server listens.
pub(crate) fn listening(mut running: Running) -> Running {
    // It says so before it takes a client; reading less than a pipe holds leaves the rest for the end.
    said_until(&mut running, "Waiting for client");
    running
}

/// Returns what a process says until some words are among it.
pub(crate) fn said_until(running: &mut Running, words: &str) -> String {
    let out = running.child.as_mut().unwrap().stdout.as_mut().unwrap();
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.contains(words) {
        assert_eq!(out.read(&mut byte).unwrap(), 1, "it said: {seen}");
        seen.push(char::from(byte[0]));
    }
    seen
}

/// Runs a server and a client with the same options to their ends.
pub(crate) fn pair(words: &str, host: &str) -> (Said, Said) {
    pair_of(words, words, host)
}

/// As [`pair`], with different options.
pub(crate) fn pair_of(server_words: &str, client_words: &str, host: &str) -> (Said, Said) {
    let port = free_port();
    let server = server(server_words, port);
    let client = roce(&format!("{client_words} -p {port} {host}"));
    (server.finish(), client)
}
