//! The capture's thread: pieces in, blocks and lines out.

use std::fs::File;
use std::io::{BufWriter, Result, Write as _};

use crossbeam_channel::{Receiver, Sender};
use roce_wire::Frame;

use super::comment::comment;
use super::frames::{Frames, Head, Passage};
use super::headers::Headers;
use super::pcapng::{Direction, Pcapng};

/// What a capture came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Frames in the file.
    pub(super) frames: u64,
    /// Frames that the limit left out.
    pub(super) beyond: u64,
}

/// Writes a capture.
pub(super) struct Writer {
    file: Option<Pcapng<BufWriter<File>>>,
    trace: bool,
    headers: Headers,
    packet: Vec<u8>,
    written: Written,
}

impl Writer {
    pub(super) fn new(file: Option<Pcapng<BufWriter<File>>>, trace: bool) -> Self {
        Self {
            file,
            trace,
            headers: Headers::default(),
            packet: Vec::new(),
            written: Written::default(),
        }
    }

    /// Writes until the sink is gone. After an error it only empties what comes.
    pub(super) fn run(mut self, work: &Receiver<Frames>, done: &Sender<Frames>) -> Result<Written> {
        let mut result = Ok(());
        for mut piece in work {
            for (head, packet) in piece.iter() {
                if result.is_ok() {
                    result = self.write(head, packet);
                }
            }
            piece.clear();
            // The sink may be gone before its last pieces come back.
            let _returned = done.try_send(piece);
        }
        if let Some(file) = &mut self.file {
            result = result.and_then(|()| file.flush());
        }
        result.map(|()| self.written)
    }

    fn write(&mut self, head: &Head, packet: &[u8]) -> Result<()> {
        self.packet.clear();
        self.headers.append(head, packet, &mut self.packet);
        let comment = comment(head, packet);
        if self.trace {
            self.line(head, comment.as_deref());
        }
        if let Some(file) = &mut self.file {
            let direction = match head.passage {
                Passage::Sent | Passage::Withheld => Direction::Outbound,
                Passage::Received => Direction::Inbound,
            };
            if file.packet(head.time, direction, &self.packet, comment.as_deref())? {
                self.written.frames += 1;
            } else {
                self.written.beyond += 1;
            }
        }
        Ok(())
    }

    fn line(&self, head: &Head, comment: Option<&str>) {
        let direction = match head.passage {
            Passage::Sent => '>',
            Passage::Withheld => 'x',
            Passage::Received => '<',
        };
        let seconds = head.time.as_secs() % 86_400;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let nanos = head.time.subsec_nanos();
        let text = match Frame::parse_ip(&self.packet) {
            Ok(frame) => frame.to_string(),
            Err(error) => error.to_string(),
        };
        let comment = comment.map_or_else(String::new, |comment| format!(" [{comment}]"));
        // Nobody is left to hear about a closed terminal.
        let _printed = writeln!(
            std::io::stderr(),
            "packet {direction} {hours:02}:{minutes:02}:{seconds:02}.{nanos:09} {text}{comment}"
        );
    }
}
