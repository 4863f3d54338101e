//! Measures what the bare link carries between two processes on this machine: the packets of RDMA
//! WRITEs with neither protocol nor ICRC behind them.
//!
//! `cargo run --release --example blast -- [ADDRESS] [--sleep]`; the address is 127.0.0.1 or ::1 or
//! one of an interface. With `--sleep` both ends sleep in `poll` when they have nothing to do,
//! instead of spinning.

use core::error::Error;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::process::{Child, Command};
use std::time::Instant;

use backend_udp::{Config, Endpoint, Local, UdpLink};
use roce_engine::link::{Flow, FrameNote, Link};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Not 4791, so that it doesn't meet a test that is running.
const PORT: u16 = 24_791;

/// What the first byte of a packet asks of the other end.
const DATA: u8 = 0;
const PING: u8 = 1;
const REPORT: u8 = 2;
const QUIT: u8 = 3;

const SERVER_QPN: u32 = 2;
const CLIENT_QPN: u32 = 3;

/// Packets without a report: the receiver's buffer holds them.
const WINDOW_BYTES: u64 = 1 << 20;
const WINDOW_PACKETS: u64 = 1024;

/// The receiver reports after this part of a window.
const REPORTS_PER_WINDOW: u64 = 4;

const RUN: Duration = Duration::from_secs(2);
/// Nothing heard for so long is a loss: shorter silences are the scheduler.
const SILENCE: Duration = Duration::from_millis(500);

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sleep = arguments.iter().any(|word| word == "--sleep");
    let serve = arguments.iter().any(|word| word == "--serve");
    let address = arguments.iter().find(|word| !word.starts_with("--"));
    let address = address.map_or(Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)), |word| word.parse())?;
    let role = if serve {
        Endpoint::Server
    } else {
        Endpoint::Client
    };
    let mut end = End::open(address, role, sleep)?;
    if serve {
        return end.serve();
    }
    let mut server = Command::new(std::env::current_exe()?);
    server.arg("--serve").arg(address.to_string());
    if sleep {
        server.arg("--sleep");
    }
    let mut server = server.spawn()?;
    let result = measure(&mut end, &mut server);
    // It ends by itself when it is told to; this is for the case that it could not be told.
    let _ = server.kill();
    server.wait()?;
    result
}

fn measure(end: &mut End, server: &mut Child) -> Outcome<()> {
    end.round_trips(1, 64, Duration::from_secs(5))?;
    if let Some(status) = server.try_wait()? {
        return Err(format!("the server ended early: {status}").into());
    }
    // A 64 KiB WRITE at path MTU 4096: FIRST has a RETH, so it opens a batch of its own.
    let mut write64k = vec![4112; 16];
    write64k[0] = 4128;
    end.stream("64 KiB WRITEs, MTU 4096", &write64k)?;
    end.stream("equal packets of 4112 B", &[4112; 15])?;
    end.stream("equal packets of 1040 B", &[1040; 62])?;
    end.stream("equal packets of 80 B", &[80; 64])?;
    for len in [32, 1040, 4112] {
        let half = end.round_trips(20_000, len, Duration::from_secs(10))?;
        let [p50, p99] = [50, 99].map(|percent| {
            let nanos = half[half.len() * percent / 100].as_nanos();
            nanos as f64 / 1e3
        });
        println!("ping-pong, {len:4} B: half round trip {p50:.2} us (99%: {p99:.2} us)");
    }
    for (name, value) in end.link.counters().iter().filter(|row| row.1 > 0) {
        println!("  {name} {value}");
    }
    end.send(16, QUIT, 0);
    Ok(end.link.flush()?)
}

struct End {
    link: UdpLink,
    flow: Flow,
    qpn: u32,
    sleep: bool,
}

/// What a received packet says.
#[derive(Clone, Copy)]
struct Heard {
    kind: u8,
    number: u64,
    len: usize,
}

impl End {
    fn open(address: IpAddr, role: Endpoint, sleep: bool) -> Outcome<Self> {
        let mut link = UdpLink::open(Config {
            port: PORT,
            ..Config::new(Local::Address(address), role)
        })?;
        let source_port = link.source_port(address, 0xc000);
        let qpn = match role {
            Endpoint::Server => CLIENT_QPN,
            Endpoint::Client => SERVER_QPN,
        };
        Ok(Self {
            link,
            flow: Flow {
                local: address,
                remote: address,
                source_port,
                traffic_class: 0,
                hop_limit: 64,
                flow_label: 0,
            },
            qpn,
            sleep,
        })
    }

    /// Puts a packet into the link; returns false if it has no room.
    fn send(&mut self, len: usize, kind: u8, number: u64) -> bool {
        let qpn = self.qpn;
        let note = FrameNote::default();
        self.link.send(&self.flow, len, note, |slot| {
            // All bytes, because a protocol would write them too.
            slot.bytes.fill(kind);
            slot.bytes[4..8].copy_from_slice(&qpn.to_be_bytes());
            slot.bytes[8..16].copy_from_slice(&number.to_be_bytes());
        })
    }

    fn receive(&mut self, mut hear: impl FnMut(Heard)) -> Outcome<usize> {
        let count = self.link.receive(256, |_, bytes| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[8..16]);
            hear(Heard {
                kind: bytes[0],
                number: u64::from_be_bytes(number),
                len: bytes.len(),
            });
        })?;
        if count == 0 && self.sleep {
            self.link.wait(Some(SILENCE))?;
        }
        Ok(count)
    }

    /// Answers until it is told to end or nobody spoke for some seconds.
    fn serve(&mut self) -> Outcome<()> {
        let mut next = 0;
        let mut owed_bytes = 0;
        let mut owed_packets = 0;
        let mut last = Instant::now();
        loop {
            let mut ping = None;
            let mut quit = false;
            let count = self.receive(|heard| match heard.kind {
                DATA => {
                    // A stream starts again at 0.
                    next = heard.number + 1;
                    owed_bytes += heard.len as u64;
                    owed_packets += 1;
                }
                PING => ping = Some(heard),
                QUIT => quit = true,
                _ => {}
            })?;
            if let Some(ping) = ping {
                self.send(ping.len, PING, ping.number);
            }
            if owed_bytes >= WINDOW_BYTES / REPORTS_PER_WINDOW
                || owed_packets >= WINDOW_PACKETS / REPORTS_PER_WINDOW
            {
                self.send(20, REPORT, next);
                owed_bytes = 0;
                owed_packets = 0;
            }
            self.link.flush()?;
            if count > 0 {
                last = Instant::now();
            } else if quit || last.elapsed() > Duration::from_secs(5) {
                return Ok(());
            }
            if quit {
                return Ok(());
            }
        }
    }

    /// Streams messages of these packets for a while and prints what was reported as received.
    fn stream(&mut self, what: &str, message: &[usize]) -> Outcome<()> {
        let bytes: usize = message.iter().sum();
        let average = (bytes / message.len()) as u64;
        let window = (WINDOW_BYTES / average).min(WINDOW_PACKETS);
        let start = Instant::now();
        let mut heard_at = start;
        let (mut sent, mut acknowledged, mut lost) = (0_u64, 0_u64, 0_u64);
        while start.elapsed() < RUN {
            while sent - acknowledged + message.len() as u64 <= window {
                for len in message {
                    sent += u64::from(self.send(*len, DATA, sent));
                }
            }
            self.link.flush()?;
            let mut reported = acknowledged;
            self.receive(|heard| {
                if heard.kind == REPORT && heard.number <= sent {
                    reported = reported.max(heard.number);
                }
            })?;
            if reported > acknowledged {
                acknowledged = reported;
                heard_at = Instant::now();
            } else if heard_at.elapsed() > SILENCE {
                lost += sent - acknowledged;
                acknowledged = sent;
                heard_at = Instant::now();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let arrived = (acknowledged - lost) as f64;
        let gbps = arrived * average as f64 * 8.0 / seconds / 1e9;
        let mpps = arrived / seconds / 1e6;
        println!("{what}: {gbps:.1} Gb/s, {mpps:.2} Mpps, {lost} packets lost");
        Ok(())
    }

    /// Plays ping-pong; returns half of each round trip, sorted.
    fn round_trips(&mut self, count: u64, len: usize, limit: Duration) -> Outcome<Vec<Duration>> {
        let start = Instant::now();
        let mut halves = Vec::with_capacity(count as usize);
        for number in 0..count {
            let mut began = Instant::now();
            self.send(len, PING, number);
            self.link.flush()?;
            let mut answered = false;
            while !answered {
                self.receive(|heard| answered |= heard.kind == PING && heard.number == number)?;
                if began.elapsed() > SILENCE && !answered {
                    if start.elapsed() > limit {
                        return Err("the server does not answer".into());
                    }
                    began = Instant::now();
                    self.send(len, PING, number);
                    self.link.flush()?;
                }
            }
            halves.push(began.elapsed() / 2);
        }
        halves.sort();
        Ok(halves)
    }
}
