//! A guest with our command in it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::machine::{Guest, Image};
use crate::{command, needs};

/// A running guest in which `roce` is, too.
#[derive(Debug)]
pub struct Inside {
    /// The guest.
    pub guest: Guest,
    /// Our command, outside.
    pub roce: PathBuf,
    /// Where logs go.
    pub folder: PathBuf,
}

impl Inside {
    /// Boots a Debian suite's guest for the test `name`; nothing, with the reason printed, where this machine can't.
    /// `tmp` is the test program's `CARGO_TARGET_TMPDIR`.
    ///
    /// # Errors
    /// If it does not boot, or in CI can't be booted.
    pub fn boot(name: &str, suite: &str, tmp: &str) -> Result<Option<Self>> {
        if let Some(reason) = needs::unavailable(needs::GUEST) {
            if std::env::var_os("CI").is_some() {
                bail!("{reason}");
            }
            println!("{name}: skipped, {reason}");
            return Ok(None);
        }
        let target = Path::new(tmp).join("..").canonicalize()?;
        let roce = command::binary(&target)?;
        Self::with(roce, name, suite, &target).map(Some)
    }

    /// Boots a suite's guest with this command in it, below cargo's output folder.
    ///
    /// # Errors
    /// If it does not boot.
    pub fn with(roce: PathBuf, name: &str, suite: &str, target: &Path) -> Result<Self> {
        let folder = target.join(format!("guest/{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let image = Image::prepare(&target.join("guest"), suite)?.with_roce(&roce, &folder)?;
        Ok(Self {
            guest: Guest::boot(&image, &folder)?,
            roce,
            folder,
        })
    }

    /// Ends the guest after a test that went well, whose logs are of no interest.
    ///
    /// # Errors
    /// If its folder can't be removed.
    pub fn end(self) -> Result<()> {
        drop(self.guest);
        std::fs::remove_dir_all(&self.folder).context("the guest's folder")
    }
}
