//! What the user of a link should be told, bounded and without repetitions.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use roce_engine::link::LinkEvent;

/// Events that wait to be read. More than that are lost: they say the same again.
const CAPACITY: usize = 32;

/// The same peer's troubles are reported again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// The events of a link.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<LinkEvent>,
    reported: VecDeque<(IpAddr, i32, Instant)>,
}

impl Events {
    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.queue.pop_front()
    }

    /// Tells something.
    pub(crate) fn notice(&mut self, text: String) {
        self.push(LinkEvent::Notice(text));
    }

    /// Tells that packets to `remote` don't arrive, at most once a second for an error.
    pub(crate) fn unreachable(
        &mut self,
        remote: IpAddr,
        errno: i32,
        reason: impl FnOnce() -> String,
    ) {
        let now = Instant::now();
        self.reported
            .retain(|row| now.duration_since(row.2) < AGAIN);
        let same = |row: &(IpAddr, i32, Instant)| (row.0, row.1) == (remote, errno);
        if self.reported.len() == CAPACITY || self.reported.iter().any(same) {
            return;
        }
        self.reported.push_back((remote, errno, now));
        let reason = reason();
        self.push(LinkEvent::Unreachable { remote, reason });
    }

    fn push(&mut self, event: LinkEvent) {
        if self.queue.len() < CAPACITY {
            self.queue.push_back(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_bounded_and_says_nothing_twice() {
        let mut events = Events::default();
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        events.unreachable(ip, 1, || "once".to_owned());
        events.unreachable(ip, 1, || "twice".to_owned());
        let remote = ip;
        let reason = "once".to_owned();
        assert_eq!(
            events.pop(),
            Some(LinkEvent::Unreachable { remote, reason })
        );
        assert_eq!(events.pop(), None);
        for index in 0..1000_u32 {
            events.unreachable(IpAddr::from(index.to_be_bytes()), 1, String::new);
        }
        assert!(events.queue.len() <= CAPACITY && events.reported.len() <= CAPACITY);
    }
}
