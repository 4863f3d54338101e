//! Who else takes RoCE packets on this machine: the kernel's rxe, or an adapter in hardware.

use std::fs;
use std::path::Path;

/// UDP port 4791 as `/proc/net/udp` has it.
const PORT: &str = ":12B7";
/// The address that stands for all, of both families.
const ANY: char = '0';

/// Returns the sentence that says that the kernel's rxe has the port, and what changes it.
#[must_use]
pub fn kernel_owns_the_port() -> Option<String> {
    if !Path::new("/sys/module/rdma_rxe").exists() {
        return None;
    }
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    let taken = tables
        .into_iter()
        .any(|table| is_bound_by_the_kernel(&fs::read_to_string(table).unwrap_or_default()));
    taken.then(|| {
        "the kernel's rdma_rxe has UDP port 4791 on every address of this network namespace: use -d verbs:NAME (rdma \
         link), or unload it (modprobe -r rdma_rxe), or run udp in another network namespace"
            .to_owned()
    })
}

/// Returns whether a table has the port for all addresses, as only the kernel binds it: this program binds one.
fn is_bound_by_the_kernel(table: &str) -> bool {
    let locals = table
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    locals
        .filter_map(|local| local.strip_suffix(PORT))
        .any(|address| address.chars().all(|digit| digit == ANY))
}

/// Returns the sentence that says that an adapter takes an interface's RoCE packets, and what changes it.
#[must_use]
pub fn hardware_takes(interface: &str) -> Option<String> {
    hardware_below(Path::new("/sys/class/infiniband"), interface)
}

fn hardware_below(class: &Path, interface: &str) -> Option<String> {
    let entries = fs::read_dir(class).ok()?;
    let device = entries
        .filter_map(Result::ok)
        .find(|entry| entry.path().join("device/net").join(interface).exists())?;
    let name = device.file_name().into_string().ok()?;
    let place = fs::canonicalize(device.path().join("device")).ok();
    let address = place
        .as_deref()
        .and_then(Path::file_name)
        .and_then(|address| address.to_str())
        .unwrap_or("ADDRESS");
    Some(format!(
        "{name} may take the RoCE packets (UDP 4791) of {interface} in hardware, where udp and afxdp do not see them: \
         use -d verbs:{name}, or turn its RoCE off (devlink dev param set pci/{address} name enable_roce value false \
         cmode driverinit; devlink dev reload pci/{address})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    fn the_kernel_binds_the_port_on_every_address() {
        let line = |local: &str| {
            format!(
                "{HEAD}  99: {local} 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0 0\n"
            )
        };
        assert!(is_bound_by_the_kernel(&line("00000000:12B7")));
        assert!(is_bound_by_the_kernel(&line(&format!(
            "{}:12B7",
            "0".repeat(32)
        ))));
        assert!(!is_bound_by_the_kernel(&line("0100007F:12B7")));
        assert!(!is_bound_by_the_kernel(&line("00000000:0035")));
        assert!(!is_bound_by_the_kernel(""));
    }

    #[test]
    fn an_adapter_is_found_by_the_interface_below_it() {
        let class = std::env::temp_dir().join(format!("roce-class-{}", std::process::id()));
        let below = class.join("mlx5_0/device/net/eth2");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(class.join("rxe0")).unwrap();
        let words = hardware_below(&class, "eth2").unwrap();
        assert!(
            words.contains("use -d verbs:mlx5_0") && words.contains("enable_roce"),
            "{words}"
        );
        assert_eq!(hardware_below(&class, "eth3"), None);
        fs::remove_dir_all(&class).unwrap();
    }
}
