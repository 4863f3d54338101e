//! A link that shows every packet to a sink: captures and traces.

use core::net::IpAddr;
use core::time::Duration;

use super::{Flow, FrameNote, Link, LinkCaps, LinkCounters, LinkError, LinkEvent, RxMeta, Slot};
use crate::verbs::PortAttr;

/// A packet as it passes a [`Tap`]. The bytes go from BTH to ICRC.
#[derive(Clone, Copy, Debug)]
pub enum TappedFrame<'a> {
    /// It goes to the network.
    Sent {
        /// Between whom.
        flow: &'a Flow,
        /// The IPv4 Identification that it carries; DF is set.
        ipv4_id: u16,
        /// Why it is sent.
        note: FrameNote,
        /// The packet.
        bytes: &'a [u8],
    },
    /// A middleware did not let it through; the note has the fault.
    Withheld {
        /// Between whom.
        flow: &'a Flow,
        /// Why it would have been sent, and what became of it.
        note: FrameNote,
        /// The packet.
        bytes: &'a [u8],
    },
    /// It came from the network. Nothing is checked yet.
    Received {
        /// The outer headers.
        meta: &'a RxMeta,
        /// The packet.
        bytes: &'a [u8],
    },
}

/// Takes what a [`Tap`] sees. It must be quick: the packet waits.
pub trait FrameSink {
    /// Takes a packet.
    fn frame(&mut self, frame: &TappedFrame<'_>);
}

/// A sink that may be missing, so that tapped and untapped devices are one type.
impl<S: FrameSink> FrameSink for Option<S> {
    fn frame(&mut self, frame: &TappedFrame<'_>) {
        if let Some(sink) = self {
            sink.frame(frame);
        }
    }
}

/// A link that hands each packet to a sink on its way.
///
/// Put it under an [`Impair`](super::Impair) to see what really leaves.
#[derive(Debug)]
pub struct Tap<L, S> {
    inner: L,
    sink: S,
}

impl<L, S> Tap<L, S> {
    /// Puts a tap around a link.
    pub const fn new(inner: L, sink: S) -> Self {
        Self { inner, sink }
    }

    /// Returns the link.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// Returns the sink.
    pub const fn sink(&self) -> &S {
        &self.sink
    }

    /// Returns the sink.
    pub const fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Returns both.
    pub fn into_parts(self) -> (L, S) {
        (self.inner, self.sink)
    }
}

impl<L: Link, S: FrameSink> Link for Tap<L, S> {
    fn caps(&self) -> &LinkCaps {
        self.inner.caps()
    }

    fn port(&self) -> &PortAttr {
        self.inner.port()
    }

    fn source_port(&mut self, local: IpAddr, wanted: u16) -> u16 {
        self.inner.source_port(local, wanted)
    }

    fn receive<F>(&mut self, budget: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        self.inner.receive(budget, |meta, bytes| {
            self.sink.frame(&TappedFrame::Received { meta, bytes });
            sink(meta, bytes);
        })
    }

    fn send<F>(&mut self, flow: &Flow, len: usize, note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>),
    {
        self.inner.send(flow, len, note, |slot| {
            fill(slot);
            self.sink.frame(&TappedFrame::Sent {
                flow,
                ipv4_id: slot.ipv4_id,
                note,
                bytes: slot.bytes,
            });
        })
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.inner.flush()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.inner.wait(timeout)
    }

    fn withheld(&mut self, flow: &Flow, note: FrameNote, bytes: &[u8]) {
        self.sink
            .frame(&TappedFrame::Withheld { flow, note, bytes });
        self.inner.withheld(flow, note, bytes);
    }

    fn next_event(&mut self) -> Option<LinkEvent> {
        self.inner.next_event()
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;
    use alloc::{format, vec};

    use super::*;
    use crate::link::Fault;
    use crate::link::memory::{MemoryLink, flow, packet};

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl FrameSink for Lines {
        fn frame(&mut self, frame: &TappedFrame<'_>) {
            self.0.push(match frame {
                TappedFrame::Sent {
                    ipv4_id,
                    note,
                    bytes,
                    ..
                } => format!(
                    "sent {} id {ipv4_id} again {}",
                    bytes.len(),
                    note.retransmission
                ),
                TappedFrame::Withheld { note, bytes, .. } => {
                    format!("withheld {} {:?}", bytes.len(), note.fault)
                }
                TappedFrame::Received { meta, bytes } => {
                    format!("received {} from {}", bytes.len(), meta.remote)
                }
            });
        }
    }

    #[test]
    fn every_packet_passes_the_sink_unchanged() {
        let mut tap = Tap::new(MemoryLink::new(), Lines::default());
        let flow = flow();
        for retransmission in [false, true] {
            let note = FrameNote {
                retransmission,
                fault: None,
            };
            assert!(tap.send(&flow, 32, note, |slot| packet(slot, 7)));
        }
        tap.inner.deliver(&[9; 20]);
        let mut seen = Vec::new();
        let taken = tap.receive(8, |_, bytes| seen.extend_from_slice(bytes));
        assert_eq!(taken, Ok(1));
        assert_eq!(seen, [9; 20]);
        let fault = Some(Fault::Dropped);
        let note = FrameNote {
            fault,
            ..FrameNote::default()
        };
        tap.withheld(&flow, note, &[1; 24]);
        let (link, lines) = tap.into_parts();
        assert_eq!(link.numbers(), [7, 7]);
        assert_eq!(
            lines.0,
            [
                "sent 32 id 0 again false",
                "sent 32 id 1 again true",
                "received 20 from 10.7.0.2",
                "withheld 24 Some(Dropped)",
            ]
        );
    }

    #[test]
    fn a_packet_that_has_no_room_is_not_seen() {
        let mut link = MemoryLink::new();
        link.room = 0;
        let mut tap = Tap::new(link, Some(Lines::default()));
        let sent = tap.send(&flow(), 32, FrameNote::default(), |_| panic!("no room"));
        assert!(!sent);
        assert_eq!(tap.sink().as_ref().map(|lines| lines.0.len()), Some(0));
        let mut none: Tap<_, Option<Lines>> = Tap::new(MemoryLink::new(), None);
        assert!(none.send(&flow(), 32, FrameNote::default(), |slot| packet(slot, 1)));
        assert_eq!(vec![1], none.inner().numbers());
    }
}
