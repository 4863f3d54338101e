//! What is said about a frame that is not an ordinary one.

use roce_wire::{Packet, Syndrome, is_cnp};

use super::frames::{Head, Passage};

/// Returns the comment of a frame, if there is anything to say.
pub(super) fn comment(head: &Head, packet: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    if head.note.retransmission {
        parts.push(String::from("retransmission"));
    }
    match (head.note.fault, head.passage) {
        (Some(fault), Passage::Withheld) => parts.push(format!("not sent: {fault}")),
        (Some(fault), _) => parts.push(fault.to_string()),
        (None, Passage::Withheld) => parts.push(String::from("not sent")),
        (None, _) => {}
    }
    match Packet::parse(packet) {
        Ok(packet) if is_cnp(&packet) => parts.push(String::from("CNP")),
        Ok(packet) => match packet.ext.aeth.map(|aeth| aeth.syndrome) {
            Some(Syndrome::Nak(code)) => parts.push(format!("NAK: {code:?}")),
            Some(Syndrome::Rnr { .. }) => parts.push(String::from("RNR NAK")),
            _ => {}
        },
        Err(error) => parts.push(error.to_string()),
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
