//! Tells the version the commit that it is built from, where there is one.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ROCE_COMMIT");
    // Who builds from an archive may say the commit.
    if std::env::var_os("ROCE_COMMIT").is_some() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return;
    };
    // These change when the commit does.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    println!("cargo:rustc-env=ROCE_COMMIT={commit}");
}

/// Returns what git says in this package's folder, if there is git and it knows the package.
fn git(words: &[&str]) -> Option<String> {
    // A repository around an unpacked archive is not this project's.
    let output = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    output(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    output(words)
}
