//! Finds or builds the command under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the `roce` binary: `ROCE_BIN` if set, else the workspace's, built if need be.
///
/// `target` is the folder that holds cargo's output. The build uses the test profile, which shares
/// its artifacts with the tests.
///
/// # Errors
/// If the build fails; cargo has then said why on stderr.
pub fn binary(target: &Path) -> Result<PathBuf> {
    build(target, "test", "debug")
}

/// As [`binary`], built as its users build it.
///
/// # Errors
/// As [`binary`].
pub fn release(target: &Path) -> Result<PathBuf> {
    build(target, "release", "release")
}

fn build(target: &Path, profile: &str, folder: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("ROCE_BIN") {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .with_context(|| format!("ROCE_BIN={}", path.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--profile",
            profile,
            "-p",
            "roce-bench",
            "--bin",
            "roce",
        ])
        .arg("--target-dir")
        .arg(target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "roce could not be built");
    Ok(target.join(folder).join("roce"))
}
