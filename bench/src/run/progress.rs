//! How far a long measurement is, on a terminal's last line.

use std::io::{IsTerminal as _, Write as _};

use super::clock::SECOND;

/// How often the line is written again.
const INTERVAL: u64 = SECOND / 4;
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// What a measurement goes towards.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Goal {
    /// So many messages.
    Messages(u64),
    /// So many nanoseconds.
    Nanos(u64),
}

/// A line on stderr that comes after a second and goes at the end.
#[derive(Debug)]
pub struct Progress {
    wanted: bool,
    goal: Goal,
    title: String,
    started: u64,
    next: u64,
    shown: bool,
}

impl Progress {
    /// Makes a line that is only shown on a terminal.
    pub fn new() -> Self {
        Self {
            wanted: std::io::stderr().is_terminal(),
            goal: Goal::Messages(0),
            title: String::new(),
            started: 0,
            next: u64::MAX,
            shown: false,
        }
    }

    /// Starts a measurement.
    pub fn begin(&mut self, now: u64, goal: Goal, size: u32) {
        self.goal = goal;
        self.title = format!("{size} bytes");
        self.started = now;
        self.next = if self.wanted { now + SECOND } else { u64::MAX };
    }

    /// Shows how far it is, if it is time to.
    pub fn tick(&mut self, now: u64, messages: u64) {
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.shown = true;
        let line = self.line(now, messages);
        // Nobody is left to see it on a closed terminal.
        let _printed = write!(std::io::stderr(), "{CLEAR}{line}");
    }

    fn line(&self, now: u64, messages: u64) -> String {
        let passed = now.saturating_sub(self.started);
        let (done, goal) = match self.goal {
            Goal::Messages(goal) => (messages, goal),
            Goal::Nanos(goal) => (passed, goal),
        };
        let percent = done.min(goal) as f64 / goal.max(1) as f64 * 100.0;
        let seconds = passed / SECOND;
        format!(
            "{}: {percent:.0}%, {messages} messages in {seconds} s",
            self.title
        )
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if self.shown {
            self.shown = false;
            let _printed = write!(std::io::stderr(), "{CLEAR}");
        }
        self.next = u64::MAX;
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_follows_messages_or_the_clock() {
        let mut progress = Progress::new();
        progress.begin(SECOND, Goal::Messages(200), 64);
        assert_eq!(
            progress.line(3 * SECOND, 50),
            "64 bytes: 25%, 50 messages in 2 s"
        );
        progress.begin(SECOND, Goal::Nanos(4 * SECOND), 64);
        assert_eq!(
            progress.line(6 * SECOND, 7),
            "64 bytes: 100%, 7 messages in 5 s"
        );
    }
}
