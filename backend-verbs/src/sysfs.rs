//! What the kernel tells of RDMA devices in `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

const CLASS: &str = "/sys/class/infiniband";

/// The counters of `hw_counters` that are told of, where a device has them: those of rxe, and those of mlx5 and
/// others that say why a run is slow or failed.
const COUNTERS: [&str; 30] = [
    "sent_pkts",
    "rcvd_pkts",
    "duplicate_request",
    "out_of_seq_request",
    "rcvd_rnr_err",
    "send_rnr_err",
    "rcvd_seq_err",
    "ack_deferred",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "completer_retry_err",
    "send_err",
    "rdma_sends",
    "rdma_recvs",
    "out_of_sequence",
    "out_of_buffer",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rx_icrc_encapsulated",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
];

/// Returns the names of the devices that the kernel has, whether libibverbs knows them or not.
#[must_use]
pub fn kernel_devices() -> Vec<String> {
    let Ok(entries) = fs::read_dir(CLASS) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The counters of a port, with the files that have them.
#[derive(Debug)]
pub(crate) struct Counters {
    files: Vec<(&'static str, PathBuf)>,
}

impl Counters {
    /// Looks which counters the port has.
    pub(crate) fn of(device: &str, port: u8) -> Self {
        let folder = Path::new(CLASS)
            .join(device)
            .join(format!("ports/{port}/hw_counters"));
        let there = |name: &'static str| {
            let path = folder.join(name);
            path.exists().then_some((name, path))
        };
        Self {
            files: COUNTERS.into_iter().filter_map(there).collect(),
        }
    }

    /// Reads them.
    pub(crate) fn read(&self) -> Vec<(&'static str, u64)> {
        let value = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
        self.files
            .iter()
            .filter_map(|(name, path)| Some((*name, value(path)?)))
            .collect()
    }
}

/// Returns the name of the network interface with an index, if it is in this namespace.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let entries = fs::read_dir("/sys/class/net").ok()?;
    entries.filter_map(Result::ok).find_map(|entry| {
        let found = fs::read_to_string(entry.path().join("ifindex")).ok()?;
        (found.trim().parse() == Ok(index)).then(|| entry.file_name().into_string().ok())?
    })
}

/// Returns the version of a GID and its interface, where the library cannot tell them.
pub(crate) fn gid_attributes(device: &str, port: u8, index: u8) -> (bool, String) {
    let folder = Path::new(CLASS)
        .join(device)
        .join(format!("ports/{port}/gid_attrs"));
    let read = |kind: &str| {
        let text = fs::read_to_string(folder.join(kind).join(index.to_string()));
        text.unwrap_or_default().trim().to_owned()
    };
    (read("types") == "RoCE v2", read("ndevs"))
}
