use super::*;
use crate::sandbox::{in_a_network, ip};

fn calls(link: &XskLink) -> u64 {
    let counters = link.counters();
    let found = counters.iter().find(|(name, _)| *name == "afxdp_calls");
    found.expect("it is counted").1
}

/// What a device does with its link in a turn.
fn turn(link: &mut XskLink, packets: u32) {
    let flow = Flow {
        local: "10.77.0.1".parse().unwrap(),
        remote: "10.77.0.9".parse().unwrap(),
        source_port: 0xc123,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    };
    link.flush().unwrap();
    link.receive(64, |_, _| {}).unwrap();
    for _ in 0..packets {
        assert!(link.send(&flow, 64, FrameNote::default(), |_| {}));
    }
    link.flush().unwrap();
}

#[test]
fn a_turn_makes_one_system_call_at_most_and_none_when_it_has_nothing_to_send() {
    in_a_network(|| {
        ip("neigh add 10.77.0.9 lladdr 02:00:00:00:00:09 dev near nud permanent");
        for mode in [Mode::Generic, Mode::Driver] {
            let config = Config {
                mode: Some(mode),
                ..Config::new("near")
            };
            let mut link = XskLink::open(&config).unwrap();
            turn(&mut link, 1);
            let before = calls(&link);
            for _ in 0..100 {
                turn(&mut link, 3);
            }
            let busy = calls(&link) - before;
            assert!((1..=100).contains(&busy), "{mode}: {busy} in 100 turns");
            // What was left over goes first.
            for _ in 0..10 {
                turn(&mut link, 0);
            }
            let before = calls(&link);
            for _ in 0..100 {
                turn(&mut link, 0);
            }
            assert_eq!(calls(&link) - before, 0, "{mode}");
        }
    });
}
