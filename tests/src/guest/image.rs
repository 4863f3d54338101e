//! Programs of ours in the guest: an archive behind the image's own, which the kernel unpacks after it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Writes the image at `initramfs`, with the program at `roce` and its libraries in it, to `into`.
///
/// # Errors
/// If a tool is missing or a file can't be written.
pub(super) fn with_program(initramfs: &Path, roce: &Path, into: &Path) -> Result<()> {
    const SCRIPT: &str = r#"set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin" "$root/usr/lib/x86_64-linux-gnu"
cp "$2" "$root/usr/bin/roce"
strip "$root/usr/bin/roce" 2>/dev/null || true
# The guest has a C library of its own.
for name in libgcc_s.so.1 libm.so.6; do
    path=$(ldd "$2" | sed -n "s|.*$name => \(/[^ ]*\).*|\1|p")
    [ -z "$path" ] || cp -L "$path" "$root/usr/lib/x86_64-linux-gnu/"
done
{ cat "$1"; (cd "$root" && find usr -type f | cpio -o -H newc --quiet | gzip -1); } >"$3""#;
    let output = Command::new("bash")
        .args(["-c", SCRIPT, "bash"])
        .args([initramfs, roce, into])
        .output()
        .context("bash")?;
    ensure!(
        output.status.success(),
        "an image with roce in it: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
