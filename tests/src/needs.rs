//! What a machine needs before it can run a tier.

use std::path::Path;

/// What the guest tier runs; `tests/run` installs from the same list, as from the other.
pub const GUEST: &str = include_str!("../packages/guest");
/// What the namespace tier runs.
pub const NETNS: &str = include_str!("../packages/netns");

/// Says why this machine can't run a tier with the list `needs`, or `None` if it can.
#[must_use]
pub fn unavailable(needs: &'static str) -> Option<String> {
    if !is_root() {
        return Some("root is needed to make network namespaces".to_owned());
    }
    let missing = missing_packages(needs, |what| match what.starts_with('/') {
        true => Path::new(what).exists(),
        false => is_on_path(what),
    });
    if !missing.is_empty() {
        return Some(format!("run `apt-get install {}`", missing.join(" ")));
    }
    None
}

/// The packages of everything in a list that isn't there, each once.
fn missing_packages(needs: &'static str, is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<&str> = needs
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter(|(what, _)| !is_there(what))
        .map(|(_, package)| package)
        .collect();
    packages.dedup();
    packages
}

/// Says whether there is a program of this name.
pub(crate) fn is_on_path(program: &str) -> bool {
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
        let all = missing_packages(GUEST, |_| false);
        assert!(all.contains(&"qemu-system-x86") && all.contains(&"nftables"));
        let iproute = all.iter().filter(|&&package| package == "iproute2");
        assert_eq!(iproute.count(), 1);
        assert_eq!(missing_packages(NETNS, |_| true), Vec::<&str>::new());
    }
}
