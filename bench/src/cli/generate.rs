//! Manual pages and completions, from the parser's own description.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use clap_complete::Shell;
use clap_mangen::Man;

use super::help;
use crate::exit::environment;

/// Writes a manual page for the command and for each of its commands; returns how many.
///
/// # Errors
/// The folder or a page can't be written.
pub fn manual(folder: &Path) -> Result<usize> {
    let failed =
        |path: &Path, error: io::Error| environment(format!("writing {}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let pages = pages();
    for (name, text) in &pages {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(pages.len())
}

/// Returns the names and texts of all pages.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut roce = help::command().version(env!("CARGO_PKG_VERSION"));
    roce.build();
    let commands = roce
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned();
    let own = roce.clone();
    core::iter::once(own).chain(commands).map(page).collect()
}

fn page(command: clap::Command) -> (String, Vec<u8>) {
    let name = match command.get_name() {
        "roce" => "roce".to_owned(),
        name => format!("roce-{name}"),
    };
    let sections = [command.get_before_help(), command.get_after_help()]
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n\n");
    let see = if name == "roce" {
        "roce-write-bw(1)"
    } else {
        "roce(1)"
    };
    let version = env!("CARGO_PKG_VERSION");
    let command = command
        .display_name(name.clone())
        .version(version)
        .before_help(None)
        .after_help(None);
    let man = Man::new(command).title(name.clone()).section("1");
    let mut text = Vec::new();
    // A vector takes all that is written.
    let _infallible = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| text.write_all(plain_sections(&sections).as_bytes()))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| man.render_subcommands_section(&mut text));
    let _infallible = writeln!(text, ".SH \"SEE ALSO\"\n{see}");
    (format!("{name}.1"), text)
}

/// Turns paragraphs of help, each with a heading, into sections of a manual page.
fn plain_sections(help: &str) -> String {
    let mut text = String::new();
    for line in help.lines() {
        let escaped = line.replace('\\', "\\e").replace('-', "\\-");
        match line.strip_suffix(':') {
            Some(heading) if !line.starts_with(' ') => {
                text.push_str(&format!(".SH \"{}\"\n.nf\n", heading.to_uppercase()));
            }
            _ if line.is_empty() => text.push_str(".fi\n.PP\n"),
            _ if line.starts_with(['.', '\'']) => text.push_str(&format!("\\&{escaped}\n")),
            _ => text.push_str(&format!("{escaped}\n")),
        }
    }
    text.push_str(".fi\n");
    text
}

/// Prints completions for a shell.
///
/// # Errors
/// Nobody reads them.
pub fn completions(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "roce", &mut text);
    io::stdout()
        .write_all(&text)
        .map_err(|error| environment(format!("writing the completions: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_examples_and_statuses() {
        let pages = pages();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "roce.1",
            "roce-write-bw.1",
            "roce-atomic-lat.1",
            "roce-compare.1",
        ] {
            assert!(names.contains(&name), "{names:?}");
        }
        for (name, text) in &pages {
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(text.contains(".SH NAME\n"), "{name}: {text}");
            if name.contains("-bw") {
                for part in [
                    ".SH \"EXAMPLES\"\n.nf\n",
                    ".SH \"EXIT STATUS\"",
                    "\\-\\-iters",
                ] {
                    assert!(text.contains(part), "{name}: no {part}\n{text}");
                }
            }
        }
    }

    #[test]
    fn lines_that_look_like_requests_are_text() {
        let text = plain_sections("Notes:\n.so it is\n\nIt's -l \\n:");
        assert_eq!(
            text,
            ".SH \"NOTES\"\n.nf\n\\&.so it is\n.fi\n.PP\n.SH \"IT'S -L \\N\"\n.nf\n.fi\n"
        );
    }
}
