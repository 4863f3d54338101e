//! The keys of perftest's JSON. The samples' version writes no valid JSON, so keys are read line by line.

/// Keys that versions after the samples' have.
const NEWER: [&str; 1] = ["Use_ROCm_memory"];

/// Returns what differs between the keys of two files, and their order.
pub(super) fn difference(theirs: &str, ours: &str) -> Option<String> {
    let (theirs, ours) = (keys(theirs), keys(ours));
    (theirs != ours).then(|| format!("keys\n stock: {theirs:?}\n ours:  {ours:?}"))
}

fn keys(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().trim_matches('"')))
        .filter(|key| !NEWER.contains(key))
        .collect()
}

#[test]
fn keys_are_found_with_and_without_quotes() {
    let (theirs, ours) = (
        "{\nresults: {\nBW_peak: 1.00,\n},\n}",
        "{\n \"results\": {\n  \"BW_peak\": 2.5\n }\n}",
    );
    assert_eq!(difference(theirs, ours), None);
    assert!(difference(theirs, &ours.replace("peak", "pike")).is_some());
}
