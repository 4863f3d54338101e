//! What the documents name has to be there.

use crate::root;
use crate::source::Source;

/// The parts of `text` between two marks.
fn between(text: &str, mark: char) -> Vec<&str> {
    text.split(mark).skip(1).step_by(2).collect()
}

#[test]
fn each_deviation_of_a_peer_names_tests_that_there_are() {
    let text = std::fs::read_to_string(root().join("docs/interop.md")).expect("the document");
    let (above, cases) = text.split_once("\n## Cases").expect("two parts");
    let sources = Source::all();
    let mut complaints = Vec::new();
    let mut rows = 0;
    for line in above
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what "))
    {
        let test = line.trim_end_matches('|').rsplit('|').next();
        let test = test.expect("a last cell").trim();
        rows += 1;
        let (code, quoted) = (between(test, '`'), between(test, '"'));
        if code.is_empty() && quoted.is_empty() && !test.contains("all ") && test != "–" {
            complaints.push(format!("no test in: {line}"));
        }
        for name in code {
            let function = format!("fn {name}(");
            let file = |source: &Source| {
                let path = source.path.with_extension("");
                path.ends_with(format!("tests/tests/{name}"))
                    || path.ends_with(format!("tests/tests/{name}/main"))
            };
            let known = name.starts_with('-') && cases.contains(&format!("| `{name}` |"))
                || sources
                    .iter()
                    .any(|source| source.text.contains(&function) || file(source));
            if !known {
                complaints.push(format!("no test {name}, of: {line}"));
            }
        }
        for name in quoted {
            let (option, fault) = (format!("| `{name}` |"), format!("| {name} |"));
            if !cases.contains(&option) && !cases.contains(&fault) {
                complaints.push(format!("no case {name:?}, of: {line}"));
            }
        }
    }
    assert!(rows > 10, "the table has {rows} rows");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
