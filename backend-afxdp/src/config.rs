//! How a link is opened.

use core::fmt;

/// Where the kernel runs the XDP program.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Mode {
    /// In the interface's driver, before the kernel makes a packet of its own.
    Driver,
    /// In the kernel's receive path, for any interface.
    Generic,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driver => "driver mode",
            Self::Generic => "generic mode",
        })
    }
}

/// What [`XskLink::open`](crate::XskLink::open) needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interface.
    pub interface: String,
    /// The receive and send queue.
    pub queue: u32,
    /// Where the program runs; unless it is said, in the driver if that gains something.
    pub mode: Option<Mode>,
    /// Whether to ask for zero-copy where the driver has it.
    pub zero_copy: bool,
    /// Whether to ask for large frames in several buffers. Without them the path MTU is 2048.
    pub multi_buffer: bool,
    /// Whether the interface is polled from this process instead of by interrupts.
    pub busy_poll: bool,
    /// Whether to take another program off the interface.
    pub replace_program: bool,
    /// Frames that may wait to be received: a power of two.
    pub receive_slots: u32,
    /// Frames that may wait to be sent: a power of two.
    pub send_slots: u32,
}

impl Config {
    /// Returns the configuration that suits any interface.
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            queue: 0,
            mode: None,
            zero_copy: true,
            multi_buffer: true,
            busy_poll: false,
            replace_program: false,
            receive_slots: 2048,
            send_slots: 1024,
        }
    }
}
