use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use super::*;
use crate::link::memory::{MemoryLink, flow, packet};

/// A clock that is set by hand.
#[derive(Clone, Debug, Default)]
struct HandClock(Rc<Cell<Instant>>);

impl HandClock {
    fn advance(&self, by: Duration) {
        self.0.set(self.0.get().after(by));
    }
}

impl Clock for HandClock {
    fn now(&self) -> Instant {
        self.0.get()
    }
}

type Impaired = Impair<MemoryLink, HandClock>;

fn impaired(config: ImpairConfig) -> (Impaired, HandClock) {
    let clock = HandClock::default();
    let link = Impair::new(MemoryLink::new(), clock.clone(), config);
    (link, clock)
}

fn send(link: &mut Impaired, number: u32) -> bool {
    link.send(&flow(), 64, FrameNote::default(), |slot| {
        packet(slot, number)
    })
}

/// Sends 0, 1, 2, … with a flush after each.
fn send_all(link: &mut Impaired, count: u32) {
    for number in 0..count {
        assert!(send(link, number));
        link.flush().unwrap();
    }
}

fn counter(link: &Impaired, name: &str) -> u64 {
    let counters = link.counters();
    counters.iter().find(|row| row.0 == name).unwrap().1
}

/// Returns whether a count is what a rate makes of 10,000, five sigma wide.
fn is_about(count: u64, rate: f64) -> bool {
    let expected = 10_000.0 * rate;
    let five_sigma = 25.0 * expected * (1.0 - rate);
    (count as f64 - expected).powi(2) < five_sigma
}

#[test]
fn without_faults_everything_passes_untouched() {
    let (mut link, _) = impaired(ImpairConfig::default());
    send_all(&mut link, 100);
    assert!(link.inner.numbers().into_iter().eq(0..100));
    assert!(link.inner.sent.iter().all(|kept| kept.note.fault.is_none()));
    assert!(link.counters().is_empty());
}

#[test]
fn dropped_packets_are_filled_and_shown_but_not_sent() {
    let (mut link, _) = impaired(ImpairConfig {
        drop: 0.1,
        ..ImpairConfig::default()
    });
    send_all(&mut link, 10_000);
    let dropped = counter(&link, "impair_dropped");
    assert!(is_about(dropped, 0.1), "{dropped}");
    assert_eq!(link.inner.sent.len() as u64, 10_000 - dropped);
    assert_eq!(link.inner.withheld.len() as u64, dropped);
    let fault = Some(Fault::Dropped);
    assert!(link.inner.withheld.iter().all(|note| note.fault == fault));
    let numbers = link.inner.numbers();
    assert!(numbers.is_sorted());
}

#[test]
fn duplicates_carry_the_icrc_of_their_own_identification() {
    let (mut link, _) = impaired(ImpairConfig {
        duplicate: 0.2,
        ..ImpairConfig::default()
    });
    send_all(&mut link, 10_000);
    let duplicated = counter(&link, "impair_duplicated");
    assert!(is_about(duplicated, 0.2), "{duplicated}");
    assert!(link.inner.intact().into_iter().all(|intact| intact));
    let numbers = link.inner.numbers();
    let twice = numbers.windows(2).filter(|two| two[0] == two[1]).count();
    assert_eq!(twice as u64, duplicated);
}

#[test]
fn corruption_is_always_one_that_the_icrc_finds() {
    let (mut link, _) = impaired(ImpairConfig {
        corrupt: 0.5,
        ..ImpairConfig::default()
    });
    send_all(&mut link, 10_000);
    let corrupted = counter(&link, "impair_corrupted");
    assert!(is_about(corrupted, 0.5), "{corrupted}");
    for (kept, intact) in link.inner.sent.iter().zip(link.inner.intact()) {
        assert_eq!(kept.note.fault, (!intact).then_some(Fault::Corrupted));
    }
}

#[test]
fn a_reordered_packet_is_overtaken_by_at_most_eight_and_stays_whole() {
    let (mut link, clock) = impaired(ImpairConfig {
        reorder: 0.1,
        ..ImpairConfig::default()
    });
    send_all(&mut link, 10_000);
    clock.advance(OVERTAKEN_BY);
    link.flush().unwrap();
    let reordered = counter(&link, "impair_reordered");
    assert!(is_about(reordered, 0.1), "{reordered}");
    let numbers = link.inner.numbers();
    assert_eq!(numbers.len(), 10_000);
    let mut overtaken = 0;
    for (place, number) in numbers.iter().enumerate() {
        let late = numbers[..place].iter().filter(|other| *other > number);
        let late = late.count();
        // Held packets hold each other up: the one in front counts as passed only when it left.
        assert!(late <= 2 * 8, "{number} was overtaken by {late}");
        overtaken += u64::from(late > 0);
    }
    assert!(
        overtaken * 10 >= reordered * 9,
        "{overtaken} of {reordered}"
    );
    assert!(link.inner.intact().into_iter().all(|intact| intact));
}

#[test]
fn a_packet_that_nothing_follows_leaves_after_a_while() {
    let (mut link, clock) = impaired(ImpairConfig {
        reorder: 1.0,
        ..ImpairConfig::default()
    });
    assert!(send(&mut link, 7));
    link.flush().unwrap();
    assert!(link.inner.sent.is_empty());
    link.wait(Some(Duration::from_secs(1))).unwrap();
    assert_eq!(link.inner.waits, [Some(OVERTAKEN_BY)]);
    clock.advance(OVERTAKEN_BY);
    link.flush().unwrap();
    assert_eq!(link.inner.numbers(), [7]);
}

#[test]
fn delayed_packets_keep_their_order_and_wake_the_sleeper() {
    let delay = Duration::from_micros(50);
    let (mut link, clock) = impaired(ImpairConfig {
        delay,
        ..ImpairConfig::default()
    });
    for number in 0..3 {
        assert!(send(&mut link, number));
        clock.advance(Duration::from_micros(10));
    }
    link.wait(None).unwrap();
    link.wait(Some(Duration::from_micros(5))).unwrap();
    let left = Some(Duration::from_micros(20));
    assert_eq!(link.inner.waits, [left, Some(Duration::from_micros(5))]);
    for sent in 1..=3 {
        clock.advance(Duration::from_micros(if sent == 1 { 20 } else { 10 }));
        link.flush().unwrap();
        assert_eq!(link.inner.sent.len(), sent);
    }
    assert_eq!(link.inner.numbers(), [0, 1, 2]);
    assert!(link.inner.intact().into_iter().all(|intact| intact));
    let fault = Some(Fault::Delayed);
    assert!(link.inner.sent.iter().all(|kept| kept.note.fault == fault));
    link.wait(None).unwrap();
    assert_eq!(link.inner.waits.last(), Some(&None), "nothing is held");
}

#[test]
fn with_a_delay_a_reordered_packet_overtakes() {
    let (mut link, clock) = impaired(ImpairConfig {
        delay: Duration::from_micros(50),
        reorder: 0.2,
        ..ImpairConfig::default()
    });
    send_all(&mut link, 100);
    let early = link.inner.sent.len() as u64;
    assert!(early > 0);
    clock.advance(Duration::from_micros(50));
    link.flush().unwrap();
    assert_eq!(link.inner.sent.len(), 100);
    assert_eq!(counter(&link, "impair_delayed"), 100 - early);
}

#[test]
fn what_is_held_is_bounded_and_then_there_is_no_room() {
    let (mut link, clock) = impaired(ImpairConfig {
        delay: Duration::from_secs(1),
        ..ImpairConfig::default()
    });
    let mut count = 0;
    while send(&mut link, count) {
        count += 1;
    }
    assert_eq!(count as usize, HELD);
    let note = FrameNote::default();
    assert!(!link.send(&flow(), 64, note, |_| panic!("filled without room")));
    clock.advance(Duration::from_secs(1));
    assert!(send(&mut link, count));
    assert!(link.inner.numbers().into_iter().eq(0..count));
}

#[test]
fn a_full_inner_link_loses_nothing_and_draws_no_second_fate() {
    let config = ImpairConfig {
        seed: 11,
        drop: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        corrupt: 0.1,
        ..ImpairConfig::default()
    };
    let run = |slow: bool| {
        let (mut link, clock) = impaired(config);
        for number in 0..2000 {
            while !send(&mut link, number) {
                link.inner.room = 5;
            }
            if slow && number % 3 == 0 {
                link.inner.room = 0;
            }
        }
        link.inner.room = usize::MAX;
        clock.advance(OVERTAKEN_BY);
        link.flush().unwrap();
        let mut numbers = link.inner.numbers();
        // A flipped bit may be one of the number's.
        numbers.retain(|number| *number < 2000);
        numbers.sort_unstable();
        numbers.dedup();
        (numbers, counter(&link, "impair_dropped"))
    };
    let (fast, slow) = (run(false), run(true));
    assert_eq!(fast.1, slow.1);
    assert_eq!(fast.0, slow.0);
}

#[test]
fn equal_seeds_do_equal_harm() {
    let run = |seed| {
        let (mut link, clock) = impaired(ImpairConfig {
            seed,
            drop: 0.05,
            duplicate: 0.05,
            reorder: 0.05,
            corrupt: 0.05,
            ..ImpairConfig::default()
        });
        send_all(&mut link, 1000);
        clock.advance(OVERTAKEN_BY);
        link.flush().unwrap();
        let sent = link.inner.sent.iter().map(|kept| kept.bytes.clone());
        sent.collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
