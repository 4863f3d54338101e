//! What a machine needs before it can run the guest.

use std::path::Path;

/// Programs and files with the packages that bring them; `tests/run` installs from the same list.
const NEEDED: &str = include_str!("../../guest/packages");

/// Says why this machine can't run the guest, or `None` if it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    if !is_root() {
        return Some("root is needed for the namespace and the tap".to_owned());
    }
    let missing = missing_packages(|what| match what.starts_with('/') {
        true => Path::new(what).exists(),
        false => is_on_path(what),
    });
    if !missing.is_empty() {
        return Some(format!("run `apt-get install {}`", missing.join(" ")));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("this machine has no /dev/net/tun".to_owned());
    }
    None
}

/// The packages of everything that isn't there, each once.
fn missing_packages(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let pairs = NEEDED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|l| l.split_once(' '));
    let mut packages: Vec<&str> = pairs
        .filter(|(what, _)| !is_there(what))
        .map(|(_, package)| package)
        .collect();
    packages.dedup();
    packages
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The owner of /proc/self is the effective user of this process.
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_programs_is_told_each_package_once() {
        let all = missing_packages(|_| false);
        assert!(all.contains(&"qemu-system-x86") && all.contains(&"ibverbs-providers"));
        assert_eq!(
            all.iter().filter(|&&package| package == "iproute2").count(),
            1
        );
        assert_eq!(missing_packages(|_| true), Vec::<&str>::new());
    }
}
