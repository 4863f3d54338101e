//! A Rust file as the rules see it: code without comments, strings and trailing tests.

use std::path::{Path, PathBuf};

/// One source file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// The text as it is.
    pub(crate) text: String,
    /// The same lines with comments gone and the insides of literals blanked.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("source files are UTF-8");
        let code = blank(&text);
        Self {
            path: path.to_owned(),
            text,
            code,
        }
    }

    /// All Rust files of the workspace.
    pub(crate) fn all() -> Vec<Self> {
        crate::files(&[".rs"])
            .iter()
            .map(|path| Self::read(path))
            .collect()
    }

    /// The code up to the tests at the end of the file.
    pub(crate) fn without_tests(&self) -> &str {
        match self.code.find("#[cfg(test)]\nmod ") {
            Some(tests) => &self.code[..tests],
            None => &self.code,
        }
    }

    /// Whether the whole file is tests.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        name == "tests.rs"
            || self
                .path
                .components()
                .any(|part| part.as_os_str() == "tests")
    }

    /// The numbers of the lines, from 1, where `word` stands as a whole word in the code.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<usize> {
        let has = |line: &&str| {
            let mut rest = *line;
            let mut before = ' ';
            while let Some(at) = rest.find(word) {
                let previous = rest[..at].chars().next_back().unwrap_or(before);
                let next = rest[at + word.len()..].chars().next().unwrap_or(' ');
                if !is_name(previous) && !is_name(next) {
                    return true;
                }
                before = previous;
                rest = &rest[at + word.len()..];
            }
            false
        };
        let lines = self.code.lines().enumerate();
        lines
            .filter(|(_, line)| has(line))
            .map(|(index, _)| index + 1)
            .collect()
    }
}

pub(crate) fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Removes comments and blanks the insides of string and character literals, line breaks kept.
fn blank(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let name_before = code.chars().next_back().is_some_and(is_name);
        let (length, kept) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), "")
        } else if rest.starts_with("/*") {
            (block_comment(rest), "")
        } else if let Some(length) = raw_string(rest).filter(|_| !name_before) {
            (length, "\"\"")
        } else if first == '"' {
            (quoted(rest, '"'), "\"\"")
        } else if first == '\'' && is_character(rest) {
            (quoted(rest, '\''), "''")
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push_str(kept);
        code.extend(rest[..length].chars().filter(|&letter| letter == '\n'));
        rest = &rest[length..];
    }
    code
}

/// The length of a block comment, those inside it included.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a raw string literal, if one starts here.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let start = text.len() - body.len() + hashes + 1;
    if !body[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let inside = text[start..].find(&end)?;
    Some(start + inside + end.len())
}

/// The length of a literal from its opening quote to the closing one.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Tells a character literal from a lifetime.
fn is_character(text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    matches!(
        (letters.next(), letters.next()),
        (Some('\\'), _) | (_, Some('\''))
    )
}

#[test]
fn comments_and_literals_are_blanked_and_lines_stay() {
    let text = "let a = \"un\\\"safe\"; // unsafe\n/* todo /* nested\n */ */ let b = '\"'; fn f<'a>() {}\n\
                let c = r#\"a \" b\"#; let d = br\"x\"; let r = '\\'';";
    let expected = "let a = \"\"; \n\n let b = ''; fn f<'a>() {}\n\
                    let c = \"\"; let d = \"\"; let r = '';";
    assert_eq!(blank(text), expected);
}

#[test]
fn words_are_found_whole() {
    let path = PathBuf::from("x.rs");
    let code = "#![deny(unsafe_code)]\nunsafe { f() }\nnot_unsafe()\n".to_owned();
    let source = Source {
        path,
        text: code.clone(),
        code,
    };
    assert_eq!(source.lines_with("unsafe"), [2]);
}
