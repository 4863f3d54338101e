//! What a machine needs before it can run the guest.

use std::path::{Path, PathBuf};

/// Programs and the Debian packages that bring them.
const NEEDED: [(&str, &str); 14] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("ip", "iproute2"),
    ("rdma", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("ib_write_bw", "perftest"),
    ("dumpcap", "wireshark-common"),
    ("tshark", "tshark"),
    (
        "apt-get",
        "apt (the guest's kernel comes from Debian's archive)",
    ),
    ("dpkg-deb", "dpkg"),
    ("xz", "xz-utils"),
];

/// Says why this machine can't run the guest, or `None` if it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    if !is_root() {
        return Some("root is needed for the namespace and the tap".to_owned());
    }
    let mut missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| find(program).is_none())
        .map(|&(_, package)| package)
        .collect();
    if !Path::new("/etc/libibverbs.d/rxe.driver").exists() {
        missing.push("ibverbs-providers");
    }
    missing.dedup();
    if !missing.is_empty() {
        return Some(format!("packages are missing: {}", missing.join(" ")));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("this machine has no /dev/net/tun".to_owned());
    }
    None
}

/// Finds a program on `PATH` or where administrators' programs are.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The owner of /proc/self is the effective user of this process.
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
