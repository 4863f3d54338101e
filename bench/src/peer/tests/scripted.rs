//! A peer made of bytes.

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use anyhow::Result;
use roce_engine::verbs::{Gid, Mtu, Psn, Qpn, RKey};

use crate::peer::{BwReport, Endpoint, Exchange, Idle, Params, Session, rest};
use crate::spec::{Role, Spec};

/// One lock-step exchange, as the scripted peer sees it: what it sends. It expects as many bytes.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Message(Vec<u8>),
    /// Sends the message in pieces.
    Split(Vec<u8>),
    /// Sends this and expects nothing more.
    Last(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Says nothing, but stays, until our end leaves.
    Hang,
}

pub(super) const GID_LINE: &[u8; 108] = b"0000:0001:5cfb01:36bcce:00000101:00007fd5400b9000:\
    00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01:00000000:\0";

/// The line of a peer's QP, counted from 0.
pub(super) fn line_of(qp: u8) -> Step {
    Step::Message(healthy_qp(108, qp))
}

/// What a healthy peer sends in a message of that many bytes.
pub(super) fn healthy(bytes: usize) -> Vec<u8> {
    match bytes {
        16 => b"6.06\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
        2 => b"3\0".to_vec(),
        108 => GID_LINE.to_vec(),
        8 => 7_u64.to_be_bytes().to_vec(),
        // The page size comes first, then the line: both accept this.
        _ => 4096_u32.to_be_bytes().to_vec(),
    }
}

/// As [`healthy`], with a QPN of its own in a line about the QP `qp`.
pub(super) fn healthy_qp(bytes: usize, qp: u8) -> Vec<u8> {
    let mut message = healthy(bytes);
    if bytes == 108 {
        // The last digit of `5cfb01`.
        message[15] = b'1' + qp;
    }
    message
}

pub(super) fn script(sizes: &[usize]) -> Vec<Step> {
    sizes
        .iter()
        .map(|bytes| Step::Message(healthy(*bytes)))
        .collect()
}

/// Runs the peer's side. Returns how many bytes came after the script.
fn follow(mut stream: TcpStream, steps: Vec<Step>, is_client: bool) -> usize {
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut buf = [0; 256];
    for step in steps {
        let (message, split) = match step {
            Step::Message(message) => (message, false),
            Step::Split(message) => (message, true),
            Step::Last(message) => {
                stream.write_all(&message).unwrap();
                continue;
            }
            Step::Close => return 0,
            Step::Hang => {
                while stream.read(&mut buf).is_ok_and(|count| count > 0) {}
                return 0;
            }
        };
        for speaks in [is_client, !is_client] {
            if speaks && split {
                for byte in &message {
                    stream.write_all(core::slice::from_ref(byte)).unwrap();
                    thread::yield_now();
                }
            } else if speaks {
                stream.write_all(&message).unwrap();
            } else {
                // A stock peer reads once, and dies if a message is not whole then.
                let count = stream.read(&mut buf[..message.len()]).unwrap();
                assert_eq!(count, message.len(), "our message was short");
            }
        }
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut surplus = 0;
    while let Ok(count @ 1..) = stream.read(&mut buf) {
        surplus += count;
    }
    surplus
}

/// Starts a peer; returns our end of the connection to it.
pub(super) fn peer(steps: Vec<Step>, we_are_client: bool) -> (TcpStream, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    (
        ours,
        thread::spawn(move || follow(theirs, steps, !we_are_client)),
    )
}

pub(super) fn local(qp: u32) -> Endpoint {
    Endpoint {
        out: 1,
        qpn: Qpn::new(0x10 + 2 * qp),
        psn: Psn::new(qp),
        rkey: RKey(9),
        vaddr: 4096,
        gid: Gid::from_ip("127.0.0.1".parse().unwrap()),
        ..Endpoint::default()
    }
}

pub(super) const PARAMS: Params = Params {
    page: 4096,
    cache_line: 64,
    mtu: Mtu::B4096,
};

/// Runs all of our side of a session, with nothing between the messages.
pub(super) fn run(spec: &Spec, stream: TcpStream) -> Result<Vec<Option<BwReport>>> {
    let idle = &mut rest;
    let setup = spec.connect_timeout;
    let exchange = Exchange::new(stream, spec.is_client(), setup, false)?;
    let mut session = Session::new(exchange, spec);
    session.prefix(PARAMS, idle)?;
    let _gid = session.client_gid(idle)?;
    session.introduce((0..spec.qps).map(local).collect(), idle)?;
    session.confirm(idle)?;
    let sizes = spec.sizes();
    let mut reports = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        session.begin(idle)?;
        let ours = BwReport {
            size: *size,
            ..BwReport::default()
        };
        reports.push(session.end(index + 1 == sizes.len(), &ours, idle)?);
    }
    session.close(&mut || Ok(Idle::Rest))?;
    Ok(reports)
}

pub(super) fn as_client(spec: &Spec) -> Spec {
    Spec {
        role: Role::Client {
            host: "peer".into(),
        },
        ..spec.clone()
    }
}
