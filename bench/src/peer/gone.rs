//! A peer that left: what is certain, and where its own words may tell more.

use core::fmt;
use core::net::SocketAddr;
use std::io;

use super::channel::{DIFFERING, Stage};

/// The words by which an end's last line tells that its peer failed first.
pub const GONE: &str = "its TCP connection is closed";

/// The peer's end of the connection is closed.
#[derive(Debug)]
pub struct Gone(String);

impl Gone {
    /// The end came where a message was to come, of which there were `have` of so many bytes.
    pub(super) fn while_waiting(
        stage: Stage,
        peer: SocketAddr,
        (have, of): (usize, usize),
        server: bool,
    ) -> Self {
        let waiting = format!(
            "waiting for the peer's {stage}: {peer} closed the connection after {have} of {of} bytes"
        );
        Self(match stage {
            Stage::Version if have == 0 && server => format!(
                "{waiting}: it connected and closed without a word (a port scan, or a client that was ended): \
                 start this end again"
            ),
            _ => format!("{waiting}: {}", advice(stage)),
        })
    }

    /// A read failed.
    pub(super) fn while_reading(stage: Stage, peer: SocketAddr, error: &io::Error) -> Self {
        Self(format!(
            "waiting for the peer's {stage} from {peer}: {error}: {}",
            advice(stage)
        ))
    }

    /// A write failed.
    pub(super) fn while_sending(stage: Stage, peer: SocketAddr, error: &io::Error) -> Self {
        Self(format!(
            "sending our {stage} to {peer}: {error}: {}",
            advice(stage)
        ))
    }
}

fn advice(stage: Stage) -> String {
    if stage.is_late() {
        format!("the peer's process is gone: {GONE}; if it failed, its own last line says why")
    } else {
        format!(
            "{GONE} before the test: the peer's own last line says why; a perftest peer also leaves if its \
             {DIFFERING} differs from ours"
        )
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Gone {}
