//! Changing a QP, with the words for what the device refuses.

use core::ffi::c_int;

use roce_engine::verbs::{
    AddressVector, AttrMask, CreateError, Gid, Limits, LinkLayer, ModifyError, Qp, QpAttr, QpState,
    check_modify,
};

use crate::convert;
use crate::device::VerbsDevice;
use crate::error::{Call, sentence};
use crate::objects::QpEntry;
use crate::sys::mask;

impl VerbsDevice {
    /// Returns a depth that the device can have.
    pub(crate) fn cq_depth(&self, depth: u32) -> Result<c_int, CreateError> {
        let limit = self.attr.max_cqe;
        if depth > limit {
            return Err(CreateError::TooLarge {
                what: "CQ depth",
                asked: depth.into(),
                limit: limit.into(),
            });
        }
        // A queue of none is none.
        Ok(c_int::try_from(depth.max(1)).unwrap_or(c_int::MAX))
    }

    /// Returns whom an address names: a GID, or a LID.
    pub(crate) fn shown(&self, address: &AddressVector) -> String {
        if address.dgid == Gid::default() {
            return format!("LID {:#06x}", address.dlid);
        }
        match self.port.link_layer {
            LinkLayer::Ethernet => address.dgid.to_ip().to_string(),
            LinkLayer::InfiniBand => format!("LID {:#06x}, GID {}", address.dlid, address.dgid),
        }
    }

    pub(crate) fn modify(&mut self, qp: Qp, attr: &QpAttr) -> Result<(), ModifyError> {
        let entry = self.objects.qps.get(qp.0).ok_or(ModifyError::NoSuchQp)?;
        let limits = Limits {
            port: &self.port,
            ports: self.ports,
            max_dest_rd_atomic: self.attr.max_qp_rd_atom,
            max_rd_atomic: self.attr.max_qp_init_rd_atom,
        };
        check_modify(entry.state, entry.init.service, attr, &limits)?;
        if let Some(address) = &attr.address {
            self.check_address(address)?;
        }
        let (raw, named) = convert::qp_attr(attr, self.port_number);
        entry
            .raw
            .modify(raw, named)
            .map_err(|errno| ModifyError::Device(self.refusal(entry, attr, errno)))?;
        let pkey = attr
            .pkey_index
            .and_then(|index| self.port.pkeys.get(usize::from(index)).copied());
        let entry = self.objects.qp_mut(qp).map_err(|_| ModifyError::NoSuchQp)?;
        let to = attr.state.unwrap_or(entry.state);
        entry.attr = if to == QpState::Reset {
            entry.flight.reset();
            QpAttr::default()
        } else {
            entry.attr.merged(attr)
        };
        entry.state = to;
        entry.pkey = pkey.unwrap_or(entry.pkey);
        Ok(())
    }

    /// Refuses an address that the port cannot send to, before the kernel says EINVAL.
    fn check_address(&self, address: &AddressVector) -> Result<(), ModifyError> {
        let name = &self.attr.name;
        if address.dgid == Gid::default() {
            return match (self.port.link_layer, address.dlid) {
                (LinkLayer::InfiniBand, 1..) => Ok(()),
                (LinkLayer::InfiniBand, 0) => Err(ModifyError::Address(
                    "the peer has neither a GID nor a LID: its port has no subnet manager"
                        .to_owned(),
                )),
                (LinkLayer::Ethernet, _) => Err(ModifyError::Address(format!(
                    "the peer has no GID, and {name} is on Ethernet, where one is needed: give the peer -x"
                ))),
            };
        }
        let row = self
            .port
            .gids
            .iter()
            .find(|row| row.index == address.sgid_index);
        let Some(row) = row else {
            return Err(ModifyError::Address(format!(
                "row {} of the GID table of {name} is empty",
                address.sgid_index
            )));
        };
        let ethernet = self.port.link_layer == LinkLayer::Ethernet;
        if ethernet && row.gid.is_ipv4() != address.dgid.is_ipv4() {
            return Err(ModifyError::Address(format!(
                "GID index {} is {}, the peer's GID is {}: they are of different families",
                row.index, row.gid, address.dgid
            )));
        }
        Ok(())
    }

    /// Says what the device refused: the QP, the step, what was given, and what state it really is in.
    fn refusal(&self, entry: &QpEntry, attr: &QpAttr, errno: i32) -> String {
        let to = attr.state.unwrap_or(entry.state);
        let mut on = format!(
            "QPN {} on {} from {} to {to} ({})",
            entry.qpn,
            self.attr.name,
            entry.state,
            AttrMask::of(attr)
        );
        if let Some(address) = &attr.address {
            on.push_str(&format!(", the peer at {}", self.shown(address)));
        }
        let now = entry.raw.query(mask::STATE).ok();
        let now = now.and_then(|now| convert::state(now.qp_state));
        if let Some(now) = now.filter(|now| *now != entry.state) {
            on.push_str(&format!(", which the device has put into {now} since"));
        }
        sentence(Call::ModifyQp, &on, errno)
    }
}
