//! How many send requests of a QP its device may still hold, as far as completions have told.
//!
//! Only QPs that take requests by `ibv_wr_*` are counted: a list that is too long is refused by all providers, a batch
//! that is too long has some of them write over requests that wait (mlx5's `_common_wqe_init_op`).

use std::collections::VecDeque;

use roce_engine::verbs::{PostError, SendFlags, SendWr};

/// The requests of a QP that are under way.
#[derive(Debug)]
pub(crate) struct Flight {
    /// How many requests each completion that is to come will end.
    groups: VecDeque<u32>,
    /// Requests behind the last one that completes.
    open: u32,
    /// All of them together.
    under_way: u32,
    /// Whether it can no longer be told.
    lost: bool,
    /// Every request has a completion.
    all_signaled: bool,
}

impl Flight {
    /// Counts for a queue of so many requests; none for one that is not counted.
    pub(crate) fn new(max_send_wr: u32, all_signaled: bool) -> Self {
        Self {
            groups: VecDeque::with_capacity(max_send_wr as usize),
            open: 0,
            under_way: 0,
            lost: false,
            all_signaled,
        }
    }

    /// Returns how many more requests a queue of `max_send_wr` surely has room for.
    #[inline]
    pub(crate) fn room(&self, max_send_wr: u32) -> usize {
        if self.lost {
            return 0;
        }
        max_send_wr.saturating_sub(self.under_way) as usize
    }

    /// Requests were posted, or some of them.
    #[inline]
    pub(crate) fn posted(&mut self, requests: &[SendWr<'_>], result: &Result<(), PostError>) {
        let count = match result {
            Ok(()) => requests.len(),
            Err(PostError::QueueFull { posted }) => *posted,
            Err(_) => {
                self.lost = true;
                return;
            }
        };
        for request in &requests[..count.min(requests.len())] {
            self.under_way += 1;
            self.open += 1;
            if self.all_signaled || request.flags.contains(SendFlags::SIGNALED) {
                self.groups.push_back(self.open);
                self.open = 0;
            }
        }
    }

    /// A send request was completed, and all before it.
    #[inline]
    pub(crate) fn completed(&mut self, success: bool) {
        match self.groups.pop_front() {
            Some(count) if success => self.under_way -= count,
            // A QP that has failed completes requests that asked for none, too.
            _ => self.lost = true,
        }
    }

    /// The QP was reset: nothing is under way.
    pub(crate) fn reset(&mut self) {
        self.groups.clear();
        (self.open, self.under_way, self.lost) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use roce_engine::verbs::{Payload, SendOp};

    use super::*;

    fn request(flags: SendFlags) -> SendWr<'static> {
        SendWr {
            wr_id: 0,
            op: SendOp::Send,
            payload: Payload::Sges(&[]),
            flags,
        }
    }

    #[test]
    fn a_completion_ends_all_requests_before_it() {
        let (silent, telling) = (request(SendFlags::NONE), request(SendFlags::SIGNALED));
        let mut flight = Flight::new(8, false);
        flight.posted(&[silent, silent, telling, silent], &Ok(()));
        assert_eq!(flight.room(8), 4);
        flight.completed(true);
        assert_eq!(flight.room(8), 7);
        flight.posted(&[telling; 8], &Err(PostError::QueueFull { posted: 7 }));
        assert_eq!(flight.room(8), 0);
        flight.completed(true);
        assert_eq!(flight.room(8), 2);
    }

    #[test]
    fn what_cannot_be_told_leaves_no_room_until_a_reset() {
        for trouble in [
            |flight: &mut Flight| flight.completed(false),
            |flight: &mut Flight| flight.completed(true),
            |flight: &mut Flight| flight.posted(&[], &Err(PostError::Device(22))),
        ] {
            let mut flight = Flight::new(8, true);
            trouble(&mut flight);
            assert_eq!(flight.room(8), 0);
            flight.reset();
            assert_eq!(flight.room(8), 8);
        }
    }
}
