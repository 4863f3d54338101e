//! Which devices are worth copying a latency test's messages on, and how much: perftest's defaults of `-I`.
//!
//! The numbers are those of perftest's `ib_dev_name` and `ctx_set_max_inline` (25.01 and later; 4.5 knows fewer). One
//! that perftest does not know, the kernel's rxe among them, copies nothing unless told to.

use roce_engine::verbs::LatencyInline;

/// Mellanox's and most others' defaults.
const COMMON: LatencyInline = LatencyInline {
    write: 220,
    send: 236,
    datagram: 188,
};

const fn all(bytes: u32) -> LatencyInline {
    LatencyInline {
        write: bytes,
        send: bytes,
        datagram: bytes,
    }
}

const NONE: LatencyInline = all(0);

/// Returns the defaults of the device with a vendor's and a part's number, as `ibv_devinfo` prints them.
pub(crate) const fn latency_inline(vendor: u32, part: u32) -> LatencyInline {
    match vendor {
        // Chelsio, whose generation is in the upper bits.
        0x1425 => match part >> 12 {
            4 | 5 | 6 | 10 | 11 => COMMON,
            _ => NONE,
        },
        // Intel (irdma): X722, and all others.
        0x8086 => match part {
            0x37d1 => all(48),
            _ => all(101),
        },
        // Yunsilicon.
        0x1f67 => match part {
            0x1021 | 0x1023 => all(64),
            _ => all(32),
        },
        // Nebula-Matrix.
        0x1f0f => {
            let (connected, datagram) = match part {
                0x1047 | 0x1226 | 0x1227 | 0x3500..=0x350a | 0x1610 => (465, 434),
                _ => (32, 0),
            };
            LatencyInline {
                write: connected,
                send: connected,
                datagram,
            }
        }
        // Pensando.
        0x1dd8 => COMMON,
        // What perftest calls TCU1.
        0x209b => match part {
            0x1000 => COMMON,
            _ => NONE,
        },
        _ => by_part(part),
    }
}

/// The rest is told by the part alone.
const fn by_part(part: u32) -> LatencyInline {
    match part {
        // ConnectX to ConnectX-3 Pro.
        25408 | 25418 | 25428 | 25448 | 26418 | 26428 | 26438 | 26448 | 26458 | 26468 | 26478
        | 4099 | 4100 | 4103 | 4104 => COMMON,
        _ if is_mlx5(part) => COMMON,
        // Emulex Skyhawk, QLogic AH.
        1824 | 32880..=32883 | 32912 | 33136 | 33168 => COMMON,
        // QLogic E4.
        5684 | 5700 | 5716 | 5718 | 5734 => all(128),
        // Broadcom NetXtreme (bnxt_re).
        5638
        | 5652
        | 5824
        | 5825
        | 5827
        | 5839
        | 5846..=5849
        | 5855
        | 5858
        | 5859
        | 5861
        | 5867
        | 5869
        | 5871..=5873
        | 5968
        | 5984
        | 6169
        | 55296
        | 55298
        | 55300 => all(96),
        _ if is_efa(part) || is_hns(part) => all(32),
        // Alibaba eRDMA.
        4223 => all(96),
        _ => NONE,
    }
}

/// Returns whether perftest posts by `ibv_wr_*` on a device (its `verify_params_with_device_context`): other providers
/// have the calls, too, and some of them take one request at a time only, or several pieces wrongly.
pub(crate) const fn posts_by_wr_api(vendor: u32, part: u32) -> bool {
    match vendor {
        0x1425 | 0x8086 | 0x1f0f | 0x1dd8 | 0x209b => false,
        // Yunsilicon.
        0x1f67 => true,
        _ => is_mlx5(part) || is_efa(part) || is_hns(part),
    }
}

/// Connect-IB, ConnectX-4 to ConnectX-10, BlueField to BlueField-4.
const fn is_mlx5(part: u32) -> bool {
    matches!(
        part,
        4113 | 4115..=4127 | 4129 | 4131 | 4133 | 4135 | 41682 | 41683 | 41686 | 41692 | 41695
    )
}

/// Amazon's EFA.
const fn is_efa(part: u32) -> bool {
    matches!(part, 61344..=61348)
}

/// HiSilicon's hns.
const fn is_hns(part: u32) -> bool {
    matches!(part, 41506..=41510 | 41512 | 41519)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_copy_what_perftest_has_them_copy() {
        for (name, vendor, part, wanted) in [
            ("rxe", 0, 0, NONE),
            ("rxe of later kernels", 0x00ff_ffff, 0, NONE),
            ("ConnectX-5", 0x2c9, 4119, COMMON),
            ("ConnectX-6 Lx", 0x2c9, 4127, COMMON),
            ("no part of Mellanox's", 0x2c9, 4128, NONE),
            ("BlueField-3", 0x2c9, 41692, COMMON),
            ("X722", 0x8086, 14289, all(48)),
            ("E810", 0x8086, 5522, all(101)),
            ("bnxt_re", 0x14e4, 5968, all(96)),
            ("EFA", 0x1d0f, 61345, all(32)),
            ("eRDMA", 0x1ded, 4223, all(96)),
            ("T6", 5157, 0x6400, COMMON),
            ("an unknown Chelsio", 5157, 0x3400, NONE),
            ("QLogic E4", 0x1077, 5716, all(128)),
        ] {
            assert_eq!(latency_inline(vendor, part), wanted, "{name}");
        }
        for (vendor, part, wanted) in [
            (0x00ff_ffff, 0, false),
            (0x2c9, 4103, false),
            (0x2c9, 4119, true),
            (0x8086, 4119, false),
            (0x14e4, 5968, false),
            (0x1d0f, 61344, true),
        ] {
            assert_eq!(posts_by_wr_api(vendor, part), wanted, "{part}");
        }
        assert_eq!(latency_inline(0x1f0f, 0x3509).datagram, 434);
        assert_eq!(latency_inline(0x1f0f, 0x3404).datagram, 0);
    }
}
