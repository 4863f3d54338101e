//! What is printed before the table: who waits, what is run over what, who the two ends are.

use core::fmt::Write as _;

use roce_engine::verbs::{Gid, LinkLayer, Mtu};

use super::SEPARATOR;
use crate::peer::Endpoint;
use crate::spec::{Op, PEAK_LIMIT, Spec, Test};

/// What the banner says about the device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// Its name.
    pub device: String,
    /// The path MTU that both ends use.
    pub mtu: Mtu,
    /// The row of the GID table; none where peers are reached by LID.
    pub gid_index: Option<u8>,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// The largest message that goes inline.
    pub max_inline: u32,
    /// Outstanding reads and atomics.
    pub outs: u8,
    /// Whether memory is open to relaxed ordering; none where there is no such thing.
    pub relaxed_ordering: Option<bool>,
    /// Whether requests go through `ibv_wr_*`.
    pub wr_api: bool,
}

impl Test {
    /// Returns perftest's title of the test, without the words that options add.
    fn title(self, spec: &Spec) -> String {
        let mut title = match self.op {
            Op::Write if spec.pace.with_imm => "RDMA_Write_imm ".to_owned(),
            Op::Write => "RDMA_Write ".to_owned(),
            Op::Read => "RDMA_Read ".to_owned(),
            Op::Send if spec.pace.with_imm => "Send_imm ".to_owned(),
            Op::Send => "Send ".to_owned(),
            Op::Atomic => format!("Atomic {} ", spec.atomic.name()),
        };
        if spec.bidirectional {
            title.push_str("Bidirectional ");
        }
        if spec.post_list > 1 {
            title.push_str("Post List ");
        }
        title.push_str(if self.is_bandwidth() {
            "BW "
        } else {
            "Latency "
        });
        title.push_str("Test");
        title
    }
}

/// Returns the title of a run, as the banner and perftest's JSON have it.
pub(super) fn title(spec: &Spec) -> String {
    spec.test.title(spec)
}

/// Returns perftest's word for a switch.
pub(super) const fn on_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

/// Returns what a server prints before its client comes.
pub fn waiting() -> String {
    let stars = "*".repeat(36);
    format!("\n{stars}\n* Waiting for client to connect... *\n{stars}\n")
}

/// Returns perftest's remark about a post list without `-Q`, which comes before the banner, with its separators.
pub fn post_list_note(spec: &Spec) -> Option<String> {
    (spec.post_list > 1 && spec.cq_mod == spec.post_list).then(|| {
        format!(
            "{SEPARATOR}\nPost List requested - CQ moderation will be the size of the post list\n"
        )
    })
}

/// Returns the warning that the peak is not measured, where perftest prints one: first of all.
pub fn peak_warning(spec: &Spec) -> Option<&'static str> {
    let receives = spec.posts_receives() && !spec.is_requester();
    let implicit = spec.test.is_bandwidth()
        && !spec.shown.no_peak
        && (spec.counted().is_none() || spec.iters > PEAK_LIMIT || receives);
    implicit.then_some(" WARNING: BW peak won't be measured in this run.\n")
}

/// Returns perftest's word for a link layer.
pub(super) const fn link_type(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::InfiniBand => "IB",
    }
}

/// Returns perftest's word for what memory is open to.
pub(super) const fn relaxed(facts: &Facts) -> &'static str {
    match facts.relaxed_ordering {
        Some(open) => on_off(open),
        None => "Unsupported",
    }
}

/// Returns the banner of a run, with its closing separator.
pub fn banner(spec: &Spec, facts: &Facts) -> String {
    let bandwidth = spec.test.is_bandwidth();
    let mut text = format!("{SEPARATOR}\n{}{}\n", " ".repeat(20), title(spec));
    if spec.qp.events {
        let _infallible = writeln!(text, " Test with events. Using {}_comp0", facts.device);
    }
    let mut line = |name: &str, value: String| {
        let _infallible = writeln!(text, " {name:<16}: {value}");
    };
    let device = &facts.device;
    line("Dual-port", format!("OFF\t\tDevice         : {device}"));
    line(
        "Number of qps",
        format!("{}\t\tTransport type : IB", spec.qps),
    );
    let (service, srq) = (spec.service_name(), on_off(spec.qp.use_srq));
    line(
        "Connection type",
        format!("{service}\t\tUsing SRQ      : {srq}"),
    );
    line("PCIe relax order", relaxed(facts).into());
    line("ibv_wr* API", on_off(facts.wr_api).into());
    if spec.is_active() || spec.bidirectional {
        line("TX depth", spec.tx_depth.to_string());
    }
    if spec.post_list > 1 {
        line("Post List", spec.post_list.to_string());
    }
    if spec.posts_receives() && (!spec.is_active() || spec.bidirectional) {
        line("RX depth", spec.rx_depth.to_string());
    }
    if bandwidth {
        line("CQ Moderation", spec.cq_mod.to_string());
    }
    line("Mtu", format!("{}[B]", facts.mtu.bytes()));
    line("Link type", link_type(facts.link_layer).into());
    if let Some(index) = facts.gid_index {
        line("GID index", index.to_string());
    }
    if spec.test.is_fetch() {
        line("Outstand reads", facts.outs.to_string());
    } else {
        line("Max inline data", format!("{}[B]", facts.max_inline));
    }
    let _infallible = write!(
        text,
        " rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n{SEPARATOR}\n"
    );
    text
}

/// Returns the address lines of all QPs: local ones, then remote ones, then a separator.
pub fn addresses(spec: &Spec, local: &[Endpoint], remote: &[Endpoint]) -> String {
    let mut text = String::new();
    for (side, endpoints) in [("local", local), ("remote", remote)] {
        for endpoint in endpoints {
            address(&mut text, spec, side, endpoint);
        }
    }
    text.push_str(SEPARATOR);
    text.push('\n');
    text
}

fn address(text: &mut String, spec: &Spec, side: &str, endpoint: &Endpoint) {
    let hex = alternate_hex;
    let _infallible = write!(
        text,
        " {side} address: LID {} QPN {} PSN {}",
        hex(endpoint.lid.into(), 4),
        hex(endpoint.qpn.value().into(), 6),
        hex(endpoint.psn.value().into(), 6),
    );
    if spec.test.op == Op::Read {
        let _infallible = write!(text, " OUT {}", hex(endpoint.out.into(), 4));
    }
    if matches!(spec.test.op, Op::Write | Op::Read) && !spec.pace.with_imm {
        let _infallible = write!(
            text,
            " RKey {} VAddr {}",
            hex(endpoint.rkey.0.into(), 8),
            hex(endpoint.vaddr, 16)
        );
    }
    if endpoint.gid == Gid::default() {
        text.push('\n');
        return;
    }
    let bytes: Vec<String> = endpoint
        .gid
        .0
        .iter()
        .map(|byte| format!("{byte:02}"))
        .collect();
    let _infallible = write!(text, "\n GID: {}\n", bytes.join(":"));
}

/// Returns C's `%#0WIDTHx`, which gives zero no prefix.
fn alternate_hex(value: u64, width: usize) -> String {
    if value == 0 {
        "0".repeat(width)
    } else {
        format!("{value:#0width$x}")
    }
}
