//! The XDP program that picks RoCE packets, as instructions.
//!
//! UDP to port 4791 over IPv4 (with any options, no fragments) or IPv6 (without extension headers),
//! behind none or one 802.1Q tag, goes to the socket of the queue that it arrived on. Everything
//! else, and RoCE on a queue without a socket, goes on to the kernel.

mod assembler;
mod attach;

use roce_wire::udp::ROCE_PORT;
use roce_wire::{EtherType, Ethernet, VlanTag, ip, ipv4, ipv6, udp};

use assembler::{Assembler, Condition, Register, Size};
pub(crate) use attach::{Attached, InPlace};

/// The program's name, by which another process of ours knows it.
pub(crate) const NAME: &str = "roce_4791";

/// The verdict that lets the kernel have a frame.
const XDP_PASS: i32 = 2;

/// The helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

/// Offsets in the context that an XDP program gets.
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const QUEUE: i16 = 16;
}

const CONTEXT: Register = Register(1);
/// The header that is looked at.
const AT: Register = Register(2);
const END: Register = Register(3);
const LIMIT: Register = Register(4);
const VALUE: Register = Register(5);
const SCRATCH: Register = Register(0);

/// What is done with a RoCE packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// It goes to the socket of its queue in the map behind this descriptor.
    Sockets(i32),
    /// The program ends with this verdict.
    #[cfg(test)]
    Verdict(i32),
}

/// Returns the program.
pub(crate) fn code(target: Target) -> Vec<u64> {
    let mut asm = Assembler::new();
    let [pass, network, v6, transport] = [(); 4].map(|()| asm.label());
    asm.load(Size::Word, AT, CONTEXT, context::DATA);
    asm.load(Size::Word, END, CONTEXT, context::DATA_END);

    need(&mut asm, Ethernet::LEN, pass);
    asm.load(Size::Half, VALUE, AT, 12);
    asm.add(AT, Ethernet::LEN as i32);
    asm.jump_if(Condition::NotEqual, VALUE, wire(EtherType::VLAN.0), network);
    need(&mut asm, VlanTag::LEN, pass);
    asm.load(Size::Half, VALUE, AT, 2);
    asm.add(AT, VlanTag::LEN as i32);

    asm.here(network);
    asm.jump_if(Condition::Equal, VALUE, wire(EtherType::IPV6.0), v6);
    asm.jump_if(Condition::NotEqual, VALUE, wire(EtherType::IPV4.0), pass);
    need(&mut asm, ipv4::LEN, pass);
    asm.load(Size::Byte, VALUE, AT, 0);
    asm.copy(SCRATCH, VALUE);
    asm.shift_right(SCRATCH, 4);
    asm.jump_if(Condition::NotEqual, SCRATCH, 4, pass);
    // The header's length, 32-bit words in the lower half of its first byte.
    asm.and(VALUE, 0x0f);
    asm.shift_left(VALUE, 2);
    asm.jump_if(Condition::Less, VALUE, ipv4::LEN as i32, pass);
    asm.load(Size::Half, SCRATCH, AT, 6);
    asm.and(SCRATCH, wire(FRAGMENT));
    asm.jump_if(Condition::NotEqual, SCRATCH, 0, pass);
    asm.load(Size::Byte, SCRATCH, AT, 9);
    asm.jump_if(Condition::NotEqual, SCRATCH, ip::PROTOCOL_UDP.into(), pass);
    asm.add_register(AT, VALUE);
    asm.jump(transport);

    asm.here(v6);
    need(&mut asm, ipv6::LEN, pass);
    asm.load(Size::Byte, SCRATCH, AT, 0);
    asm.shift_right(SCRATCH, 4);
    asm.jump_if(Condition::NotEqual, SCRATCH, 6, pass);
    asm.load(Size::Byte, SCRATCH, AT, 6);
    asm.jump_if(Condition::NotEqual, SCRATCH, ip::PROTOCOL_UDP.into(), pass);
    asm.add(AT, ipv6::LEN as i32);

    asm.here(transport);
    need(&mut asm, udp::LEN, pass);
    asm.load(Size::Half, SCRATCH, AT, 2);
    asm.jump_if(Condition::NotEqual, SCRATCH, wire(ROCE_PORT), pass);
    match target {
        Target::Sockets(map_fd) => {
            // bpf_redirect_map(map, queue, what to do where the map has no socket)
            asm.load(Size::Word, Register(2), CONTEXT, context::QUEUE);
            asm.load_map(Register(1), map_fd);
            asm.set(Register(3), XDP_PASS);
            asm.call(REDIRECT_MAP);
        }
        #[cfg(test)]
        Target::Verdict(verdict) => asm.set(SCRATCH, verdict),
    }
    asm.exit();

    asm.here(pass);
    asm.set(SCRATCH, XDP_PASS);
    asm.exit();
    asm.finish()
}

/// The bits of flags and offset that a fragment has set: all but "don't fragment".
const FRAGMENT: u16 = 0x3fff;

/// Goes to `pass` unless `len` bytes are there.
fn need(asm: &mut Assembler, len: usize, pass: assembler::Label) {
    asm.copy(LIMIT, AT);
    asm.add(LIMIT, len as i32);
    asm.jump_if_greater(LIMIT, END, pass);
}

/// Returns a 16-bit field as a load of this machine sees it.
fn wire(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

#[cfg(test)]
mod tests;
