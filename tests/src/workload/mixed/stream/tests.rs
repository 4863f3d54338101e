//! The model itself: it accepts a right run of each service and names each wrong one.

use super::*;
use crate::workload::mixed::plan::Kind;

#[test]
fn a_message_arrives_whole_or_it_is_noticed() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        let mut case = Case::new(service, false);
        case.sends(0, &[1, 2, 3, 4]).unwrap();
        for wrong in [&[1, 2, 3][..], &[1, 2, 3, 5], &[1, 2, 3, 4, 0], &[]] {
            let mut case = Case::new(service, false);
            assert!(case.sends(0, wrong).is_err(), "{service:?} {wrong:?}");
        }
    }
}

#[test]
fn order_and_number_are_exact_unless_the_network_repeats() {
    for service in [Service::Rc, Service::Uc, Service::Ud] {
        for repeats in [false, true] {
            let lax = repeats && service != Service::Rc;
            let mut case = Case::new(service, repeats);
            case.sends(0, &[1, 2, 3, 4]).unwrap();
            assert_eq!(case.sends(0, &[1, 2, 3, 4]).is_ok(), lax, "twice");
            case.sends(0, &[5, 6, 7, 8]).unwrap();
            assert_eq!(case.sends(0, &[1, 2, 3, 4]).is_ok(), lax, "late");
        }
    }
}

#[test]
fn only_a_reliable_message_may_not_be_missing() {
    for (service, right) in [
        (Service::Rc, false),
        (Service::Uc, true),
        (Service::Ud, true),
    ] {
        let mut case = Case::new(service, false);
        assert_eq!(case.sends(0, &[5, 6, 7, 8]).is_ok(), right, "{service:?}");
    }
}

#[test]
fn what_has_the_wrong_key_or_receiver_never_arrives() {
    let mut case = Case::new(Service::Ud, false);
    assert!(case.sends(1, &[1, 2, 3, 4]).is_err(), "another link's");
    case.stream.ops[0].good_key = false;
    assert!(case.sends(0, &[1, 2, 3, 4]).is_err());
    let mut early = Case::new(Service::Ud, false);
    early.stream.posted = 0;
    assert!(early.sends(0, &[1, 2, 3, 4]).is_err(), "not posted");
}

#[test]
fn a_write_may_break_off_at_a_packet_only() {
    for (bytes, right) in [
        (&[0, 0, 0, 0], true),
        (&[9, 10, 0, 0], true),
        (&[9, 10, 11, 12], true),
        (&[9, 0, 0, 0], false),
        (&[0, 0, 11, 12], false),
    ] {
        let case = Case::new(Service::Uc, false);
        case.target.write(2, bytes);
        assert_eq!(case.end(false).is_ok(), right, "{bytes:?}");
        assert!(case.end(true).is_err(), "messages are missing");
        case.target.store(0, 1);
        assert!(case.end(false).is_err(), "beside the request");
    }
}

#[test]
fn a_reliable_write_that_completed_is_there() {
    let mut case = Case::new(Service::Rc, false);
    case.sends(0, &[1, 2, 3, 4]).unwrap();
    case.sends(0, &[5, 6, 7, 8]).unwrap();
    for index in 0..3 {
        let wc = Completion {
            opcode: if index == 2 {
                WcOpcode::Write
            } else {
                WcOpcode::Send
            },
            ..Completion::default()
        };
        case.stream.on_sent(index, &wc).unwrap();
    }
    assert!(case.end(true).is_err());
    case.target.write(2, &[9, 10, 11, 12]);
    case.end(true).unwrap();
}

#[test]
fn send_completions_come_once_and_in_order() {
    for order in [&[1, 0][..], &[0, 0], &[0, 3]] {
        let mut case = Case::new(Service::Uc, false);
        let wc = Completion::default();
        let outcome = order
            .iter()
            .try_for_each(|at| case.stream.on_sent(*at, &wc));
        assert!(outcome.is_err(), "{order:?}");
    }
}

/// Two SENDs and a WRITE of four bytes each, all posted, over packets of two bytes.
struct Case {
    stream: Stream,
    target: Region,
}

impl Case {
    fn new(service: Service, repeats: bool) -> Self {
        let source = Region::zeroed(12, 8).unwrap();
        source.write(0, &core::array::from_fn::<u8, 12, _>(|at| at as u8 + 1));
        let op = |kind, source| Op {
            kind,
            len: 4,
            source,
            slot: 2,
            to: 0,
            flags: SendFlags::SIGNALED,
            inline: false,
            good_key: true,
        };
        let ops = vec![op(Kind::Send, 0), op(Kind::Send, 4), op(Kind::Write, 8)];
        let mut stream = Stream::new("test".into(), service, ops, 2, &source, repeats);
        stream.posted = 3;
        let target = Region::zeroed(8, 8).unwrap();
        Self { stream, target }
    }

    fn sends(&mut self, link: usize, bytes: &[u8]) -> Verdict {
        let wc = Completion {
            opcode: WcOpcode::Recv,
            ..Completion::default()
        };
        self.stream.on_arrival(link, &wc, bytes, &self.target)
    }

    fn end(&self, all: bool) -> Verdict {
        self.stream.on_end(&self.target, &[0; 8], 2, all)
    }
}
