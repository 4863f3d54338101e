//! Which cases there are: all of them, the part that every change has to pass, and the shortest list.

use core::cmp::Reverse;
use std::collections::HashSet;

use super::case::{Case, Family, MTUS, Path, Peer, Role, Test};
use super::choice::{self, Choice};

/// The links of ours that the matrix covers unless told otherwise.
pub const LINKS: [&str; 1] = ["udp"];
/// The links of which every change has to pass a part of the matrix.
pub const SAMPLED: [&str; 4] = ["afxdp", "verbs", "udp-verbs", "afxdp-verbs"];

/// All paths.
#[must_use]
pub fn paths() -> Vec<Path> {
    let mut list = Vec::new();
    for peer in Peer::ALL {
        for mtu in MTUS {
            list.extend(Family::ALL.map(|family| Path { peer, mtu, family }));
        }
    }
    list
}

/// Whether a choice can run on a path.
#[must_use]
pub fn suits(choice: &Choice, path: &Path) -> bool {
    choice.mtu.is_none_or(|mtu| mtu == path.mtu)
        && choice.family.is_none_or(|family| family == path.family)
}

fn case(test: Test, role: Role, link: &str, path: Path, choice: &Choice) -> Case {
    Case {
        test,
        role,
        link: link.to_owned(),
        path,
        choice: choice.clone(),
    }
}

/// Every test with every choice on every path in both roles.
#[must_use]
pub fn full(links: &[String]) -> Vec<Case> {
    let mut list = Vec::new();
    for path in paths() {
        for test in Test::ALL {
            for choice in choice::choices(test) {
                if !suits(&choice, &path) {
                    continue;
                }
                for link in links.iter().filter(|link| choice.can_run_over(link)) {
                    list.extend(Role::ALL.map(|role| case(test, role, link, path, &choice)));
                }
            }
        }
    }
    list
}

/// Every test with every choice in both roles on one path each, so that each value of a path meets each test, each
/// choice, each role and each other value of the path.
///
/// Each case takes the path that brings most pairs that have not been yet, of equals the least used.
#[must_use]
pub fn rotated(links: &[String]) -> Vec<Case> {
    let mut list: Vec<Case> = Vec::new();
    let mut met = HashSet::new();
    for test in Test::ALL {
        for choice in choice::choices(test) {
            for link in links.iter().filter(|link| choice.can_run_over(link)) {
                for role in Role::ALL {
                    let used = |path: &Path| list.iter().filter(|case| case.path == *path).count();
                    let best = paths()
                        .into_iter()
                        .filter(|path| suits(&choice, path))
                        .map(|path| case(test, role, link, path, &choice))
                        .max_by_key(|case| {
                            let new = pairs(case).filter(|pair| !met.contains(pair)).count();
                            (new, Reverse(used(&case.path)))
                        });
                    met.extend(best.iter().flat_map(pairs));
                    list.extend(best);
                }
            }
        }
    }
    list
}

/// A part of the rotation over the links in [`SAMPLED`]: the eight tests as they are, and some options of each.
#[must_use]
pub fn sampled() -> Vec<Case> {
    /// So that roles, tests and paths change from one to the next.
    const EVERY: usize = 29;
    let links = SAMPLED.map(str::to_owned);
    let mut list = Vec::new();
    for link in links {
        let all = rotated(&[link]);
        list.extend(all.into_iter().enumerate().filter_map(|(nth, case)| {
            let plain =
                case.choice.name == "defaults" && (case.role == Role::Client) == (nth % 4 < 2);
            (plain || nth % EVERY == EVERY - 1).then_some(case)
        }));
    }
    list
}

/// All pairs of values of a case in which one is of its path.
fn pairs(case: &Case) -> impl Iterator<Item = (String, String)> + use<> {
    let Path { peer, mtu, family } = case.path;
    let path = [
        format!("{peer:?}"),
        format!("mtu{mtu}"),
        format!("{family:?}"),
    ];
    let rest = [
        format!("{:?}", case.test),
        format!("{:?}", case.role),
        case.choice.name.clone(),
        format!("link {}", case.link),
    ];
    let all: Vec<String> = path.iter().cloned().chain(rest).collect();
    path.into_iter().flat_map(move |value| {
        let all = all.clone();
        all.into_iter().map(move |other| (value.clone(), other))
    })
}

/// The cases of a quick look: four tests, both roles, one path.
#[must_use]
pub fn smoke(links: &[String]) -> Vec<Case> {
    const TESTS: [Test; 4] = [Test::WriteBw, Test::ReadBw, Test::SendLat, Test::AtomicLat];
    let path = Path {
        peer: Peer::Bookworm,
        mtu: 1500,
        family: Family::V4,
    };
    let mut list = Vec::new();
    for test in TESTS {
        let choice = &choice::choices(test)[0];
        for link in links {
            list.extend(Role::ALL.map(|role| case(test, role, link, path, choice)));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Vec<String> {
        LINKS.map(str::to_owned).to_vec()
    }

    #[test]
    fn every_test_choice_and_role_is_rotated_in_once() {
        let key = |case: &Case| (case.test, case.choice.name.clone(), case.role);
        let rotated: HashSet<_> = rotated(&links()).iter().map(key).collect();
        let full: HashSet<_> = full(&links()).iter().map(key).collect();
        assert_eq!(rotated, full);
        assert_eq!(rotated.len(), super::rotated(&links()).len());
    }

    #[test]
    fn every_pair_of_values_that_can_occur_does_in_the_rotation() {
        let met = |list: &[Case]| -> HashSet<_> { list.iter().flat_map(pairs).collect() };
        let (rotated, full) = (met(&rotated(&links())), met(&full(&links())));
        let missing: Vec<_> = full.difference(&rotated).collect();
        assert_eq!(missing, Vec::<&(String, String)>::new());
    }

    #[test]
    fn all_choices_meet_all_paths_that_suit_them() {
        let list = full(&links());
        let defaults = list.iter().filter(|case| case.choice.name == "defaults");
        assert_eq!(defaults.count(), paths().len() * 8 * 2);
        let large = list.iter().filter(|case| case.choice.name == "-m 4096");
        assert_eq!(large.count(), paths().len() / 2 * 8 * 2);
    }
}
