//! The commands of the table in `docs/perftest-compat.md`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::{Running, Turn, free_port, roce, server};

/// Returns the table's commands.
fn commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/perftest-compat.md");
    let document = fs::read_to_string(path).unwrap();
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|line| {
        let (_, command) = line.split_once("| `roce ")?;
        Some(command.split_once('`')?.0.to_owned())
    })
    .collect()
}

/// A folder for files that commands write, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("roce-compat-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_option_that_works_runs() {
    let _turn = Turn::take();
    let folder = Folder::new();
    let commands = commands();
    assert!(commands.len() > 50);
    for command in commands {
        let said = Running::start_in(&format!("{command} --lab"), &folder.0).finish();
        said.assert_code(0);
        let one_figure = command.contains("--output");
        let table = said.out.contains(" #bytes");
        assert!(table != one_figure, "{command}: {said:#?}");
    }
    for (file, key) in [
        ("perftest_out.json", "BW_average"),
        ("other.json", "t_typical"),
    ] {
        let text = fs::read_to_string(folder.0.join(file)).unwrap();
        assert!(text.contains(key), "{file}: {text}");
    }
}

#[test]
fn a_client_speaks_from_the_address_it_is_told() {
    let _turn = Turn::take();
    let port = free_port();
    let waiting = server("write-bw -n 20 --bind_source_ip 127.0.0.1", port);
    let client = roce(&format!(
        "write-bw -n 20 -p {port} --bind_source_ip 127.0.0.2 127.0.0.1"
    ));
    let waiting = waiting.finish();
    client.assert_code(0);
    waiting.assert_code(0);
    let gids: Vec<_> = waiting
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(" GID: "))
        .map(|gid| gid.rsplit(':').next().unwrap_or_default())
        .collect();
    assert_eq!(gids, ["01", "02"], "{waiting:#?}");
}
