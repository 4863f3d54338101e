//! Options that say how queue pairs are made.

use clap::Args;
use roce_engine::verbs::Service;

use crate::cli::values;

/// How queue pairs are made.
#[derive(Args, Debug)]
#[command(next_help_heading = "Queue pairs")]
pub(in crate::cli) struct QpArgs {
    /// Transport service: RC, UC or UD
    #[arg(short = 'c', long, value_name = "SERVICE", default_value = "RC", value_parser = values::service)]
    pub(in crate::cli) connection: Service,
    /// Copy messages of up to this many bytes when they are posted, 0 to 1024 [default: 0; latency: by the device]
    #[arg(short = 'I', long = "inline_size", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(in crate::cli) inline_size: Option<u32>,
    /// Sleep until completions come instead of polling (all but plain write)
    #[arg(short = 'e', long)]
    pub(in crate::cli) events: bool,
    /// All queue pairs take receives from one shared queue of the depth -r
    #[arg(long = "use-srq")]
    pub(in crate::cli) use_srq: bool,
    /// A memory region for each queue pair
    #[arg(long = "mr_per_qp")]
    pub(in crate::cli) mr_per_qp: bool,
    /// Buffers of huge pages, which the system must have reserved
    #[arg(long = "use_hugepages")]
    pub(in crate::cli) use_hugepages: bool,
    /// Post by ibv_post_send even where the device has ibv_wr_*
    #[arg(long = "use_old_post_send")]
    pub(in crate::cli) use_old_post_send: bool,
    /// Leave out relaxed ordering of PCIe (write-lat does anyway)
    #[arg(long = "disable_pcie_relaxed")]
    pub(in crate::cli) disable_pcie_relaxed: bool,
    /// Service level, 0 to 15
    #[arg(short = 'S', long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    pub(in crate::cli) sl: u8,
    /// Row of the partition table
    #[arg(long = "pkey_index", value_name = "N", default_value_t = 0)]
    pub(in crate::cli) pkey_index: u16,
    /// Flow label, or a list of them that queue pairs take in turns [default: 0]
    #[arg(long = "flow_label", value_name = "LIST", value_delimiter = ',', value_parser = values::flow_label)]
    pub(in crate::cli) flow_label: Vec<u32>,
    /// Retries of a lost packet and of a receiver that is not ready (there, 7 is without end)
    #[arg(long = "retry_count", value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(in crate::cli) retry_count: u8,
}
