//! Exit statuses, and how an error finds its own.

use core::fmt;

/// The test failed: a completion status, a peer that left, a wrong result.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// The machine lacks something: a device, a privilege, a port.
pub const ENVIRONMENT: u8 = 3;
/// A limit that was asked for is not reached.
pub const LIMIT: u8 = 4;

/// A signal ended it: what a shell says of SIGINT.
pub const INTERRUPTED: u8 = 130;

/// An error with an exit status of its own.
#[derive(Debug)]
pub struct ExitError {
    status: u8,
    text: String,
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl core::error::Error for ExitError {}

/// Makes an error about the machine: exit status 3.
pub fn environment(text: impl Into<String>) -> anyhow::Error {
    ExitError {
        status: ENVIRONMENT,
        text: text.into(),
    }
    .into()
}

/// Makes an error about the command line that only shows after parsing: exit status 2.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    ExitError {
        status: USAGE,
        text: text.into(),
    }
    .into()
}

/// Makes an error about a limit that the result misses: exit status 4.
pub fn limit(text: impl Into<String>) -> anyhow::Error {
    ExitError {
        status: LIMIT,
        text: text.into(),
    }
    .into()
}

/// Makes an error about a signal: exit status 130.
pub fn interrupted(text: impl Into<String>) -> anyhow::Error {
    with_status(INTERRUPTED, text)
}

/// Makes an error with any exit status.
pub fn with_status(status: u8, text: impl Into<String>) -> anyhow::Error {
    ExitError {
        status,
        text: text.into(),
    }
    .into()
}

/// Returns what to print of an error: all of its causes, or of a signal only that.
pub fn words_of(error: &anyhow::Error) -> String {
    if status_of(error) == INTERRUPTED {
        return error.root_cause().to_string();
    }
    format!("{error:#}")
}

/// Returns the exit status of an error: that of the first cause that has one, else 1.
pub fn status_of(error: &anyhow::Error) -> u8 {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<ExitError>())
        .map_or(FAILED, |exit| exit.status)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn status_is_found_below_context() {
        let error = Err::<(), _>(environment("no device"))
            .context("opening udp")
            .unwrap_err();
        assert_eq!(status_of(&error), ENVIRONMENT);
        assert_eq!(status_of(&anyhow::anyhow!("peer left")), FAILED);
        assert_eq!(status_of(&usage("-x 9")), USAGE);
        assert_eq!(status_of(&limit("too slow")), LIMIT);
    }

    #[test]
    fn what_waited_when_a_signal_came_is_not_told() {
        let error = Err::<(), _>(interrupted("interrupted"))
            .context("while waiting for the peer")
            .unwrap_err();
        assert_eq!(
            (status_of(&error), words_of(&error).as_str()),
            (INTERRUPTED, "interrupted")
        );
        let other = anyhow::anyhow!("cause").context("what");
        assert_eq!(words_of(&other), "what: cause");
    }
}
