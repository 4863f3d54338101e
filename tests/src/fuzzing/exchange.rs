//! perftest's exchange with a peer that says anything, in pieces of any size, and leaves at any time.

mod stream;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use anyhow::{Result, ensure};
use roce_bench::peer::{BwReport, Endpoint, Exchange, Idle, Params, Session};
use roce_bench::report;
use roce_bench::spec::{Metric, Op, Role, Spec, Test};
use roce_bench::stats::Unit;
use roce_engine::verbs::{Gid, Mtu, Psn, Qpn, RKey};

use super::input::Input;
use stream::{Ending, Pieces};

/// How often a wait may call back before the caller loses patience.
const PATIENCE: u32 = 400;
/// The longest error: a peer's bytes are quoted, escaped, at most once a stage.
const MAX_ERROR: usize = 2000;
/// What a healthy peer says of its QP.
const LINE: &[u8; 108] = b"0000:0001:5cfb01:36bcce:00000101:00007fd5400b9000:\
    00:00:00:00:00:00:00:00:00:00:ff:ff:7f:00:00:01:00000000:\0";

/// Runs our side of a session, from versions to goodbye, with an input as the peer's stream.
///
/// # Panics
///
/// It panicked, or a value came out that can't come from a peer, or an error without a sentence.
pub fn exchange(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let spec = spec(&mut input);
    let ending = Ending::ALL[input.below(Ending::ALL.len())];
    let setup = Duration::from_secs(input.below(2) as u64 * 3600);
    let pieces = input.u32();
    let stream = Pieces::new(input.rest(), pieces, ending);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 18515);
    let exchange = Exchange::over(Box::new(stream), [address; 2], spec.is_client(), setup);
    let mut session = Session::new(exchange, &spec);
    let result = run(&spec, &mut session);
    if let Err(error) = result {
        let text = format!("{error:#}");
        assert!(!text.is_empty() && text.len() < MAX_ERROR, "{text}");
    }
    // What is said of a run that failed comes from the peer, too.
    let remark = session.address_note();
    assert_ne!(remark.as_deref(), Some(""));
}

fn spec(input: &mut Input<'_>) -> Spec {
    let choice = input.u8();
    let ops = [Op::Write, Op::Read, Op::Send, Op::Atomic];
    let metric = if choice & 4 == 0 {
        Metric::Bandwidth
    } else {
        Metric::Latency
    };
    let mut spec = Spec::new(Test::new(ops[usize::from(choice & 3)], metric));
    if choice & 8 != 0 {
        spec.role = Role::Client {
            host: String::from("peer"),
        };
    }
    spec.bidirectional = choice & 0x10 != 0 && spec.test.is_bandwidth();
    spec.all_sizes = choice & 0x20 != 0;
    spec.qps = 1 + u32::from(choice >> 6);
    spec
}

/// All of our side, with nothing between the messages.
fn run(spec: &Spec, session: &mut Session) -> Result<()> {
    let mut left = PATIENCE;
    let mut idle = || {
        left = left.saturating_sub(1);
        ensure!(left > 0, "the caller has waited long enough");
        Ok(match left % 3 {
            0 => Idle::Progress,
            1 => Idle::Spin,
            _ => Idle::Rest,
        })
    };
    let ours = Params {
        page: 4096,
        cache_line: 64,
        mtu: Mtu::B4096,
    };
    let agreed = session.prefix(ours, &mut idle)?;
    assert!((4096..=1 << 24).contains(&agreed.page), "{agreed:?}");
    assert!((64..=4096).contains(&agreed.cache_line), "{agreed:?}");
    let version = session.exchange().peer_version().expect("it was exchanged");
    assert!(version.number() >= 5.7 && !version.to_string().is_empty());
    let client = session.client_gid(&mut idle)?;
    assert_eq!(client.is_some(), !spec.is_client());

    let local: Vec<Endpoint> = (0..spec.qps).map(local).collect();
    session.introduce(local.clone(), &mut idle)?;
    session.confirm(&mut idle)?;
    assert_eq!(session.remote().len(), local.len());
    assert!(!report::addresses(spec, &local, session.remote()).is_empty());
    let sizes = spec.sizes();
    for (index, size) in sizes.iter().enumerate() {
        session.begin(&mut idle)?;
        let ours = BwReport {
            size: *size,
            ..BwReport::default()
        };
        let theirs = session.end(index + 1 == sizes.len(), &ours, &mut idle)?;
        if let Some(report) = theirs {
            for unit in [Unit::Gigabits, Unit::Mebibytes] {
                let precision = report::Precision::of(unit, report.average);
                assert!(!report::bandwidth_row(precision, &report).is_empty());
            }
        }
    }
    session.close(&mut idle)
}

fn local(qp: u32) -> Endpoint {
    Endpoint {
        out: 1,
        qpn: Qpn::new(0x10 + qp),
        psn: Psn::new(qp),
        rkey: RKey(9),
        vaddr: 4096,
        gid: Gid::from_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ..Endpoint::default()
    }
}

/// Which QP each of twelve lines is about: a round of all before and after the QPs are connected, then the first.
fn order(spec: &Spec) -> impl Iterator<Item = u8> + use<> {
    let all = 0..spec.qps as u8;
    let test = spec.test;
    let extra = u8::from(test.metric == Metric::Latency && test.op != Op::Send);
    let between = u8::from(test == Test::new(Op::Send, Metric::Bandwidth));
    let first = |count| core::iter::repeat_n(0, usize::from(count));
    (first(extra).chain(all.clone()).chain(first(between)))
        .chain(all)
        .chain(core::iter::repeat(0))
        .take(12)
}

/// Returns what healthy peers say, for each test and role: one that finishes it, and a version that is all.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for choice in 0..=u8::MAX {
        let mut stream = vec![choice, 0, 1, 0, 0, 0, 0];
        stream.extend_from_slice(b"6.06\0\0\0\0\0\0\0\0\0\0\0\0");
        stream.extend_from_slice(&[0, 0, 16, 0, 0, 0, 0, 64]);
        stream.extend_from_slice(b"3\0");
        // As many lines as any test has; where five reports stand between them, they are read from lines.
        for qp in order(&spec(&mut Input::new(&[choice]))) {
            let mut line = *LINE;
            line[15] = b'1' + qp;
            stream.extend_from_slice(&line);
        }
        seeds.push(stream);
    }
    // The one-sided bandwidth tests: reports where they belong.
    for choice in [0_u8, 1, 3, 8, 9, 11] {
        let mut stream = seeds[usize::from(choice)].clone();
        stream.truncate(7 + 26 + 4 * LINE.len());
        for value in [7_u64, 8, 2.5_f64.to_bits(), f64::NAN.to_bits(), u64::MAX] {
            stream.extend_from_slice(&value.to_be_bytes());
        }
        stream.extend_from_slice(LINE);
        seeds.push(stream);
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without seeds that reach the end, the target would only ever see errors.
    #[test]
    fn healthy_peers_are_followed_to_the_end() {
        let mut finished = 0;
        for seed in seeds() {
            let mut input = Input::new(&seed);
            let spec = spec(&mut input);
            let _settings = input.take(6);
            let stream = Pieces::new(input.rest(), 0, Ending::Closed);
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
            let setup = Duration::from_secs(3600);
            let exchange = Exchange::over(Box::new(stream), [address; 2], spec.is_client(), setup);
            let mut session = Session::new(exchange, &spec);
            finished += u32::from(run(&spec, &mut session).is_ok());
        }
        assert!(finished > 100, "{finished} sessions reached their end");
    }
}
