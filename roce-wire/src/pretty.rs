//! Packets and frames in one line of text.

use core::fmt;
use core::net::IpAddr;

use crate::aeth::{Aeth, Syndrome, credits};
use crate::ext::Ext;
use crate::frame::{Frame, IcrcCheck};
use crate::grh::Network;
use crate::imm::Feth;
use crate::ip::{self, Ecn};
use crate::opcode::Opcode;
use crate::packet::{Headers, Packet};
use crate::timing;
use crate::udp;

impl fmt::Display for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bth = &self.bth;
        write!(f, "{} qpn {} psn {}", bth.opcode, bth.dest_qpn, bth.psn)?;
        for (set, name) in [
            (bth.ack_request, " ackreq"),
            (bth.solicited, " solicited"),
            (bth.fecn, " fecn"),
            (bth.becn && bth.opcode != Opcode::CNP, " becn"),
        ] {
            if set {
                f.write_str(name)?;
            }
        }
        fmt::Display::fmt(&self.ext, f)
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.headers(), f)?;
        if !self.payload.is_empty() && self.bth.opcode != Opcode::CNP {
            write!(f, ", {} bytes", self.payload.len())?;
        }
        if self.bth.pad != 0 {
            write!(f, " + {} pad", self.bth.pad)?;
        }
        Ok(())
    }
}

impl fmt::Display for Ext {
    /// Writes each header after a comma, so that it can follow a BTH.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(deth) = self.deth {
            write!(f, ", qkey 0x{:08x} from {}", deth.qkey.0, deth.src_qpn)?;
        }
        if let Some(feth) = self.feth {
            flush(feth, f)?;
        }
        if let Some(reth) = self.reth {
            write!(
                f,
                ", va 0x{:x} rkey {:?} len {}",
                reth.addr, reth.rkey, reth.length
            )?;
        }
        if let Some(atomic) = self.atomic {
            write!(
                f,
                ", va 0x{:x} rkey {:?} swap/add 0x{:x} compare 0x{:x}",
                atomic.addr, atomic.rkey, atomic.swap_add, atomic.compare
            )?;
        }
        if let Some(aeth) = self.aeth {
            acknowledge(aeth, f)?;
        }
        if let Some(original) = self.atomic_ack {
            write!(f, ", was 0x{:x}", original.0)?;
        }
        if let Some(imm) = self.imm {
            write!(f, ", imm 0x{:08x}", u32::from_be_bytes(imm))?;
        }
        if let Some(rkey) = self.ieth {
            write!(f, ", invalidate {rkey:?}")?;
        }
        Ok(())
    }
}

fn flush(feth: Feth, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(", flush to")?;
    if feth.global_visibility() {
        f.write_str(" visibility")?;
    }
    if feth.persistence() {
        f.write_str(" persistence")?;
    }
    f.write_str(if feth.whole_region() {
        " of the region"
    } else {
        " of a range"
    })
}

fn acknowledge(aeth: Aeth, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match aeth.syndrome {
        Syndrome::Ack { credits } => match credits::decode(credits) {
            Some(granted) => write!(f, ", ack credits {granted}"),
            None => f.write_str(", ack"),
        },
        Syndrome::Rnr { timer } => write!(f, ", rnr nak delay {:?}", timing::rnr_delay(timer)),
        Syndrome::Nak(code) => write!(f, ", nak 0x{:02x} ({code})", code.to_raw()),
        Syndrome::Reserved(raw) => write!(f, ", reserved syndrome 0x{raw:02x}"),
    }?;
    write!(f, " msn {}", aeth.msn.value())
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tag in self.tags.iter().flatten() {
            write!(f, "vlan {} ", tag.id())?;
        }
        let addresses = self.addresses();
        match (self.network, self.udp) {
            (Network::Grh(_), _) => write!(f, "{} > {}", addresses.src(), addresses.dst()),
            (_, udp) => {
                let [src, dst] =
                    udp.map_or([0, udp::ROCE_PORT], |udp| [udp.src_port, udp.dst_port]);
                endpoint(addresses.src(), src, f)?;
                f.write_str(" > ")?;
                endpoint(addresses.dst(), dst, f)
            }
        }?;
        if ip::dscp(self.traffic_class()) != 0 {
            write!(f, " dscp {}", ip::dscp(self.traffic_class()))?;
        }
        if self.ecn() != Ecn::NotEct {
            write!(f, " {}", self.ecn())?;
        }
        f.write_str(": ")?;
        if self.missing != 0 {
            match Headers::parse(self.packet) {
                Ok(headers) => write!(f, "{headers}"),
                Err(error) => write!(f, "{error}"),
            }?;
            return write!(f, ", {} bytes not captured, ICRC not checked", self.missing);
        }
        match Packet::parse(self.packet) {
            Ok(packet) => write!(f, "{packet}"),
            Err(error) => write!(f, "{error}"),
        }?;
        match self.check_icrc() {
            IcrcCheck::Bad => f.write_str(", BAD ICRC"),
            IcrcCheck::Good | IcrcCheck::Truncated => Ok(()),
        }
    }
}

/// Writes an address and port, in brackets where the address has colons itself.
fn endpoint(address: IpAddr, port: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match address {
        IpAddr::V4(v4) => write!(f, "{v4}:{port}"),
        IpAddr::V6(v6) => write!(f, "[{v6}]:{port}"),
    }
}

#[cfg(test)]
mod tests;
