//! What the columns of a comparison are, which can't be had here, and over which path each runs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file::SkippedBackend;
use crate::backend::kernel_owns_the_port;
use crate::lab;

/// The backends there are.
pub(super) const BACKENDS: [&str; 3] = ["udp", "afxdp", "verbs"];

/// A column: a backend, or one RDMA device.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Column {
    /// Its name, as `-d` takes it.
    pub backend: String,
    /// Over which path its packets go, in words.
    pub path: String,
}

/// Finds the columns of a backend.
pub(super) fn of(backend: &str) -> Vec<Result<Column, SkippedBackend>> {
    let found = match backend {
        "verbs" => return of_rdma_devices(),
        "afxdp" => match lab::cannot_make_hosts() {
            None => Ok("AF_XDP sockets on a veth pair between two network namespaces".to_owned()),
            Some(reason) => Err(reason),
        },
        _ => match (kernel_owns_the_port(), lab::cannot_make_hosts()) {
            (None, _) => Ok("UDP sockets on the loopback interface".to_owned()),
            (Some(_), None) => Ok(
                "UDP sockets on a veth pair between two network namespaces, as the kernel's \
                rdma_rxe has UDP port 4791 of this one"
                    .to_owned(),
            ),
            (Some(reason), Some(_)) => Err(reason),
        },
    };
    vec![match found {
        Ok(path) => Ok(Column {
            backend: backend.to_owned(),
            path,
        }),
        Err(reason) => Err(skipped(backend, reason)),
    }]
}

fn skipped(backend: &str, reason: String) -> SkippedBackend {
    SkippedBackend {
        backend: backend.to_owned(),
        reason,
    }
}

/// A column for each RDMA device with an active port.
fn of_rdma_devices() -> Vec<Result<Column, SkippedBackend>> {
    let all = match backend_verbs::devices(None) {
        Ok(all) => all,
        Err(error) => return vec![Err(skipped("verbs", error.to_string()))],
    };
    let column = |one: Result<backend_verbs::DeviceInfo, _>| {
        let info =
            one.map_err(|error: backend_verbs::OpenError| skipped("verbs", error.to_string()))?;
        let backend = format!("verbs:{}", info.name);
        if !info.ports.iter().any(|port| port.attr.active) {
            return Err(skipped(&backend, "no port of it is active".to_owned()));
        }
        Ok(Column {
            path: path_of(&info.name, Path::new("/sys/class/infiniband")),
            backend,
        })
    };
    all.into_iter().map(column).collect()
}

/// Both ends are on the device itself. Only rxe says on which interface it stands in a file `parent`.
fn path_of(device: &str, class: &Path) -> String {
    match std::fs::read_to_string(class.join(device).join("parent")) {
        Ok(parent) => format!(
            "the kernel's soft-RoCE to itself: it loops its packets back before they reach {}",
            parent.trim()
        ),
        Err(_) => "the device to itself: the adapter loops its packets back".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_roce_is_told_from_an_adapter() {
        let class = std::env::temp_dir().join(format!("roce-columns-{}", std::process::id()));
        std::fs::create_dir_all(class.join("rxe0")).unwrap();
        std::fs::write(class.join("rxe0/parent"), "eth3\n").unwrap();
        let rxe = path_of("rxe0", &class);
        assert!(rxe.ends_with("before they reach eth3"), "{rxe}");
        assert!(path_of("mlx5_0", &class).contains("the adapter"));
        std::fs::remove_dir_all(class).unwrap();
    }

    #[test]
    fn udp_is_always_there_unless_the_kernel_has_its_port() {
        let columns = of("udp");
        assert_eq!(columns.len(), 1);
        match &columns[0] {
            Ok(column) => assert_eq!(column.backend, "udp"),
            Err(skipped) => assert!(skipped.reason.contains("rdma_rxe"), "{skipped}"),
        }
    }
}
