//! Reads the banner and the address lines that perftest prints.

/// What a perftest program says before its table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The title, `RDMA_Write BW Test`.
    pub title: Option<String>,
    /// The path MTU, `1024[B]`.
    pub path_mtu: Option<String>,
    /// Fields that both sides of a test have to agree on, with their names.
    pub fields: Vec<(&'static str, String)>,
    /// Its own addresses, one a QP.
    pub local: Vec<Address>,
    /// The peer's.
    pub remote: Vec<Address>,
}

/// An address line with the GID line below it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Address {
    /// QPN.
    pub qpn: u32,
    /// PSN.
    pub psn: u32,
    /// PSN, and OUT, RKey and VAddr where they are printed: the line from there on.
    pub rest: String,
    /// The GID as printed.
    pub gid: String,
}

const SHARED: [&str; 5] = [
    "Number of qps",
    "Transport type",
    "Connection type",
    "Using SRQ",
    "Link type",
];

impl Printed {
    /// Reads what a program printed.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut printed = Self::default();
        let mut local = true;
        for line in text.lines() {
            if line.starts_with("      ") && line.trim_end().ends_with(" Test") {
                printed.title.get_or_insert_with(|| line.trim().to_owned());
            }
            for field in line.split('\t').filter(|field| field.contains(':')) {
                let (name, value) = field.split_once(':').unwrap_or_default();
                let (name, value) = (name.trim(), value.trim());
                if let Some(name) = SHARED.iter().find(|shared| **shared == name) {
                    printed.fields.push((name, value.to_owned()));
                } else if name == "Mtu" {
                    printed.path_mtu.get_or_insert_with(|| value.to_owned());
                }
            }
            if let Some(gid) = line.strip_prefix(" GID: ") {
                let list = if local {
                    &mut printed.local
                } else {
                    &mut printed.remote
                };
                if let Some(address) = list.last_mut() {
                    address.gid = gid.trim().to_owned();
                }
            }
            for (word, is_local) in [(" local address:", true), (" remote address:", false)] {
                if let Some(address) = line.strip_prefix(word).and_then(Address::read) {
                    local = is_local;
                    let list = if local {
                        &mut printed.local
                    } else {
                        &mut printed.remote
                    };
                    list.push(address);
                }
            }
        }
        printed
    }

    /// Says in what the two ends of one test differ that must agree.
    pub fn differences(&self, other: &Self, faults: &mut Vec<String>) {
        if self.title.is_none() || self.title != other.title {
            faults.push(format!("titles: {:?} and {:?}", self.title, other.title));
        }
        if self.path_mtu.is_none() || self.path_mtu != other.path_mtu {
            faults.push(format!("MTU: {:?} and {:?}", self.path_mtu, other.path_mtu));
        }
        if self.fields != other.fields || self.fields.len() != SHARED.len() {
            faults.push(format!("banners: {:?} and {:?}", self.fields, other.fields));
        }
        let pairs = [(&self.local, &other.remote), (&self.remote, &other.local)];
        for (said, heard) in pairs {
            if said.is_empty() || said != heard {
                faults.push(format!("addresses: {said:?} and {heard:?}"));
            }
        }
    }
}

impl Address {
    fn read(text: &str) -> Option<Self> {
        let (_, from_qpn) = text.split_once("QPN 0x")?;
        let (qpn, rest) = from_qpn.split_once(' ')?;
        let (_, from_psn) = rest.split_once("PSN 0x")?;
        let psn = from_psn.split_whitespace().next()?;
        Some(Self {
            qpn: u32::from_str_radix(qpn, 16).ok()?,
            psn: u32::from_str_radix(psn, 16).ok()?,
            rest: rest.split_whitespace().collect::<Vec<_>>().join(" "),
            gid: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : rxe0\n \
        Number of qps   : 1\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF\n \
        Mtu             : 1024[B]\n Link type       : Ethernet\n \
        local address: LID 0000 QPN 0x0011 PSN 0xa2b9f7 RKey 0x0002fa VAddr 0x007f0000000000\n \
        GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:77:02\n \
        remote address: LID 0000 QPN 0xd28001 PSN 0xe4c674 RKey 0x000150 VAddr 0x0055d72da7e000\n \
        GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:77:01\n";

    #[test]
    fn the_banner_and_both_addresses_are_read() {
        let printed = Printed::read(TEXT);
        assert_eq!(printed.title.as_deref(), Some("RDMA_Write BW Test"));
        assert_eq!(printed.path_mtu.as_deref(), Some("1024[B]"));
        assert_eq!(printed.fields.len(), SHARED.len());
        assert_eq!(
            (printed.local[0].qpn, printed.remote[0].qpn),
            (0x11, 0xd2_8001)
        );
        assert!(printed.remote[0].gid.ends_with("77:01"));
    }

    #[test]
    fn ends_that_name_other_addresses_differ() {
        let one = Printed::read(TEXT);
        let swapped = TEXT
            .replace("local", "x")
            .replace("remote", "local")
            .replace(" x address", " remote address");
        let mut faults = Vec::new();
        // The same lines under the other name, in the other order, are what the other end prints.
        let mut other = Printed::read(&swapped);
        one.differences(&other, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        other.local[0].qpn += 1;
        one.differences(&other, &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
