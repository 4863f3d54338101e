//! What a user's hand meets: names of links, help, versions, manual pages, colours.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::process::{Said, Turn};

/// A folder for links and pages, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roce-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn run(program: &Path, words: &str) -> Said {
    let output: Output = Command::new(program)
        .args(words.split_whitespace())
        .output()
        .unwrap();
    output.into()
}

fn roce(words: &str) -> Said {
    run(Path::new(env!("CARGO_BIN_EXE_roce")), words)
}

#[test]
fn links_named_as_perftests_programs_are_those_tests() {
    let _turn = Turn::take();
    let folder = Folder::new("links");
    for (name, title) in [
        ("ib_write_bw", "RDMA_Write BW Test"),
        ("ib_write_lat", "RDMA_Write Latency Test"),
        ("ib_read_bw", "RDMA_Read BW Test"),
        ("ib_read_lat", "RDMA_Read Latency Test"),
        ("ib_send_bw", "Send BW Test"),
        ("ib_send_lat", "Send Latency Test"),
        ("ib_atomic_bw", "Atomic FETCH_AND_ADD BW Test"),
        ("ib_atomic_lat", "Atomic FETCH_AND_ADD Latency Test"),
    ] {
        let link = folder.0.join(name);
        symlink(env!("CARGO_BIN_EXE_roce"), &link).unwrap();
        let said = run(&link, "-n 20 --lab");
        said.assert_code(0);
        assert!(said.out.contains(title), "{name}: {said:#?}");
        let version = run(&link, "-V");
        assert!(version.out.starts_with("Version: 6.20\n"), "{version:#?}");
    }
    // A copy, too: its server is started from the copy.
    let copy = folder.0.join("ib_read_bw.copy");
    fs::copy(env!("CARGO_BIN_EXE_roce"), &copy).unwrap();
    fs::remove_file(folder.0.join("ib_read_bw")).unwrap();
    fs::rename(&copy, folder.0.join("ib_read_bw")).unwrap();
    run(&folder.0.join("ib_read_bw"), "-n 20 --lab").assert_code(0);
}

#[test]
fn version_names_the_commit_where_it_is_known() {
    let said = roce("--version");
    said.assert_code(0);
    assert!(
        said.out
            .starts_with(concat!("roce ", env!("CARGO_PKG_VERSION"), " ("))
    );
    assert!(said.out.ends_with("perftest protocol 6.20)\n"), "{said:#?}");
    let here = Command::new("git")
        .args(["ls-files", "--error-unmatch", "Cargo.toml"])
        .output();
    if here.is_ok_and(|output| output.status.success()) {
        let (_, commit) = said.out.split_once("(commit ").unwrap();
        let (commit, _) = commit.split_once(',').unwrap();
        assert!(commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_hexdigit()));
    }
}

#[test]
fn manual_pages_are_written_and_read() {
    let folder = Folder::new("man");
    let pages = folder.0.join("man1");
    roce(&format!("man {}", pages.display())).assert_code(0);
    let page = fs::read_to_string(pages.join("roce-send-bw.1")).unwrap();
    for part in [
        ".SH \"EXAMPLES\"",
        "roce send\\-bw \\-\\-lab",
        "\\-\\-use\\-srq",
        ".SH \"EXIT STATUS\"",
    ] {
        assert!(page.contains(part), "no {part}: {page}");
    }
    let taken = folder.0.join("file");
    fs::write(&taken, "").unwrap();
    let said = roce(&format!("man {}", taken.display()));
    said.assert_code(3);
    assert!(said.err.contains("file"), "{said:#?}");
}

#[test]
fn each_shell_has_completions() {
    for (shell, part) in [
        ("bash", "_roce()"),
        ("zsh", "#compdef roce"),
        ("fish", "complete -c roce"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let said = roce(&format!("completions {shell}"));
        said.assert_code(0);
        assert!(said.out.contains(part), "{shell}");
        assert!(said.out.contains("report_gbits"), "{shell}");
    }
    roce("completions tcsh").assert_code(2);
}

#[test]
fn colours_are_for_who_wants_them() {
    let colours = |variables: &[(&str, &str)]| {
        let output = Command::new(env!("CARGO_BIN_EXE_roce"))
            .args(["write-bw", "-n", "1"])
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let said = Said::from(output);
        said.assert_code(2);
        said.err.contains('\u{1b}')
    };
    assert!(!colours(&[]), "a pipe");
    assert!(colours(&[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}
