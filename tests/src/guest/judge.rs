//! Judges one case: what both sides printed, whether it agrees, what passed on the wire.

use core::net::IpAddr;

use anyhow::Result;

use super::case::{Case, Role, Test};
use super::duel::Duel;
use super::net;
use crate::frames::{self, Findings};
use crate::printed::{Address, Printed};
use crate::table::{self, Row};
use crate::transport::{self, End, Fixed, Known, Sends, Side, Story};

/// What became of a case.
#[derive(Debug)]
pub struct Verdict {
    /// Everything that is wrong, one sentence each; empty if the case passed.
    pub faults: Vec<String>,
    /// A line of figures.
    pub summary: String,
}

/// Judges a case.
///
/// # Errors
/// If the capture can't be read, or tshark fails.
pub fn judge(duel: &Duel) -> Result<Verdict> {
    let case = &duel.case;
    let mut faults = Vec::new();
    printed(duel, &mut faults);
    let mut summary = summary(duel);
    if !case.is_inside() {
        summary += &captured(duel, &mut faults)?;
    }
    summary += &format!(", {:.1} s", duel.took.as_secs_f64());
    Ok(Verdict { faults, summary })
}

/// Judges what both sides say.
fn printed(duel: &Duel, faults: &mut Vec<String>) {
    let case = &duel.case;
    for (name, reply) in [("roce", &duel.ours), (case.their_name(), &duel.theirs)] {
        if reply.status != 0 {
            faults.push(format!("{name} ended with status {}", reply.status));
        }
    }
    let (theirs, clockless) = duel.their_words();
    rows(case, &duel.ours.text, (&theirs, clockless), faults);
    if faults.is_empty() {
        let (ours, theirs) = (Printed::read(&duel.ours.text), Printed::read(&theirs));
        ours.differences(&theirs, faults);
        if ours.path_mtu.as_deref() != Some(&format!("{}[B]", case.path_mtu())) {
            faults.push(format!("the path MTU is {:?}", ours.path_mtu));
        }
    }
}

/// Judges what passed on the wire, and returns its figures.
fn captured(duel: &Duel, faults: &mut Vec<String>) -> Result<String> {
    let us: [IpAddr; 2] =
        [net::OUR_V4, net::OUR_V6].map(|ip| ip.parse().expect("addresses are written well"));
    // A link-local GID is made of the interface's address, and so are its packets.
    let us = [us[0], us[1], net::link_local(net::OUR_MAC)];
    let case = &duel.case;
    let findings = frames::judge(&duel.file, &us)?;
    let malformed = frames::malformed(&duel.file, &us)?;
    let ours = Printed::read(&duel.ours.text);
    let end = |address: &Address| End {
        qpn: address.qpn,
        psn: address.psn,
    };
    let known = Known {
        mtu: case.path_mtu(),
        pairs: (ours.local.iter().map(end))
            .zip(ours.remote.iter().map(end))
            .collect(),
        fixed: fixed(case),
    };
    let story = transport::follow(&duel.file, &us, &known)?;
    wire(case, &findings, &malformed, faults);
    faults.extend(story.wrong_data.iter().cloned());
    // Where packets are lost before the tap or after it, the capture knows neither all bytes nor all reasons.
    if faults.is_empty() && !case.choice.is_faulty() {
        transported(case, &story, faults);
    }
    Ok(format!(
        ", frames {} out {} in, sent again {} and {}, {} compared",
        findings.ours, findings.theirs, story.ours.resent, story.theirs.resent, story.compared
    ))
}

/// What of the data of a case stays the same.
fn fixed(case: &Case) -> Fixed {
    let sweeps = case.has("-a");
    match case.test {
        Test::WriteBw | Test::ReadBw | Test::ReadLat => Fixed::Memory,
        Test::WriteLat if !sweeps => Fixed::MemoryButLastByte,
        Test::SendBw | Test::SendLat if !sweeps => Fixed::Sends(Sends {
            size: case.size(),
            turn: places(case.size(), case.value("-l")),
        }),
        // A sweep moves the byte that counts through the others; of an atomic the values are compared.
        _ => Fixed::Nothing,
    }
}

/// After how many messages perftest sends from the same place again: those of up to half a page walk through it by
/// cache lines, once for each post list if there is one.
fn places(size: u64, list: Option<u64>) -> u64 {
    const PAGE: u64 = 4096;
    const LINE: u64 = 64;
    match (size > PAGE / 2, list) {
        (true, _) => 1,
        // The walk of a list is as long as the list.
        (false, Some(list)) => list,
        (false, None) => PAGE / size.max(1).next_multiple_of(LINE),
    }
}

/// Whether a side's row is what its peer sends it at the end.
fn is_told(case: &Case, serves: bool) -> bool {
    let receives = serves != case.has("--reversed");
    receives && case.test.is_bandwidth() && !case.has("-b") && !matches!(case.test, Test::SendBw)
}

/// `clockless` of the stock side's rows may be without figures.
fn rows(case: &Case, ours: &str, (theirs, clockless): (&str, usize), faults: &mut Vec<String>) {
    let we_serve = case.role == Role::Server;
    // Whoever is told a figure has none where the other has none.
    let told = if is_told(case, we_serve) {
        clockless
    } else {
        0
    };
    let sides = [
        ("roce", ours, we_serve, told),
        (case.their_name(), theirs, !we_serve, clockless),
    ];
    for (name, text, serves, without_figures) in sides {
        let rows = table::rows(text);
        let told = is_told(case, serves);
        let wanted = match () {
            () if serves && !case.test.server_prints() => 0,
            // A side that is told learns only of the last size of a sweep.
            () if told => 1,
            () if case.has("--report-both") => 3,
            () => case.sizes(),
        };
        if rows.len() as u64 != wanted {
            faults.push(format!("{name} printed {} rows, not {wanted}", rows.len()));
        }
        for row in &rows {
            one_row(case, name, row, faults);
        }
        if rows.iter().filter(|row| !row.has_figure()).count() > without_figures {
            faults.push(format!("{name} reports an average and a rate of 0"));
        }
        if case.has("-a") && !told && wanted > 0 {
            let sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
            let all: Vec<u64> = (1..=case.sizes()).map(|power| 1 << power).collect();
            if sizes != all {
                faults.push(format!("{name} ran the sizes {sizes:?}"));
            }
        }
    }
    let (ours, theirs) = (table::rows(ours), table::rows(theirs));
    let (Some(our), Some(their)) = (ours.last(), theirs.last()) else {
        return;
    };
    if table::header_of_any_version(&our.header) != table::header_of_any_version(&their.header) {
        faults.push(format!(
            "headers differ:\n  {:?}\n  {:?}",
            our.header, their.header
        ));
    }
    let measured = clockless == 0 || (our.has_figure() && their.has_figure());
    if measured && agree_by_protocol(case) && !our.reports_the_same(their) {
        faults.push(format!("the figures differ: {our:?} and {their:?}"));
    }
}

/// Whether both sides' last rows say the same: one is what the other was told, or both are the same sums.
fn agree_by_protocol(case: &Case) -> bool {
    let sums = case.has("-b") && !case.has("--report-both");
    let own_sums = case.test == Test::SendBw && case.has("-D");
    case.test.is_bandwidth() && (is_told(case, true) || is_told(case, false) || sums && !own_sums)
}

fn one_row(case: &Case, name: &str, row: &Row, faults: &mut Vec<String>) {
    if !case.has("-a") && case.size() != row.size {
        faults.push(format!("{name} reports messages of {} bytes", row.size));
    }
    let wanted = case.expected_iterations();
    if wanted.is_some_and(|wanted| wanted != row.iterations) {
        faults.push(format!("{name} reports {} iterations", row.iterations));
    }
}

fn wire(case: &Case, findings: &Findings, malformed: &[String], faults: &mut Vec<String>) {
    // Unreliable services answer nothing.
    let answered = !case.has("UC") && !case.has("UD");
    let silent = match answered {
        true => findings.ours == 0 || findings.theirs == 0,
        false => findings.ours + findings.theirs == 0,
    };
    if silent {
        faults.push("the wire carried no RoCE frames in one direction".to_owned());
    }
    if findings.our_bad > 0 {
        faults.push(format!(
            "{} frames of ours are bad: {}",
            findings.our_bad,
            findings.our_faults.join("; ")
        ));
    }
    if findings.their_bad > 0 {
        faults.push(format!(
            "{} frames of the guest fail the check",
            findings.their_bad
        ));
    }
    if let Some(first) = malformed.first() {
        let count = malformed.len();
        faults.push(format!(
            "tshark calls {count} frames of ours malformed: {first}"
        ));
    }
}

fn transported(case: &Case, story: &Story, faults: &mut Vec<String>) {
    for (name, side) in [("roce", &story.ours), (case.their_name(), &story.theirs)] {
        if side.unexplained > 0 {
            faults.push(format!(
                "{name} sent {} of {} repeated requests for no reason in the capture",
                side.unexplained, side.resent
            ));
        }
        if side.errors > 0 {
            faults.push(format!("{name} received {} error NAKs", side.errors));
        }
    }
    if let Some(n) = case.expected_iterations() {
        let sweep: u64 = (1..=case.sizes()).map(|power| 1 << power).sum();
        let warm_up = match case.has("--perform_warm_up") {
            true => case.value("-t").unwrap_or(0),
            false => 0,
        };
        let bytes = (n + warm_up) * if case.has("-a") { sweep } else { case.size() };
        for (name, side, sends) in directions(case, story) {
            let wanted = if sends { bytes } else { 0 };
            if side.bytes != wanted {
                faults.push(format!("{name} moved {} bytes, not {wanted}", side.bytes));
            }
        }
    }
    if case.has("--tclass=106") {
        let (ours, theirs) = &story.traffic_classes;
        for (name, classes) in [("roce", ours), (case.their_name(), theirs)] {
            if !classes.contains(&106) || classes.len() != 1 {
                faults.push(format!("{name} used the traffic classes {classes:?}"));
            }
        }
    }
}

/// Who asks for something in a case: each side, and whether it does.
fn directions<'a>(case: &Case, story: &'a Story) -> [(&'static str, &'a Side, bool); 2] {
    let both = case.has("-b") || matches!(case.test, Test::WriteLat | Test::SendLat);
    let we_ask = (case.role == Role::Client) != case.has("--reversed");
    [
        ("roce", &story.ours, both || we_ask),
        (case.their_name(), &story.theirs, both || !we_ask),
    ]
}

fn summary(duel: &Duel) -> String {
    let case = &duel.case;
    let rows = [&duel.ours, &duel.theirs].map(|reply| table::rows(&reply.text));
    let average = rows.iter().flatten().last().map_or(0.0, |row| row.average);
    let unit = match (case.test.is_bandwidth(), case.has("--report_gbits")) {
        (true, true) => "Gb/s",
        (true, false) => "MiB/s",
        (false, _) => "us",
    };
    format!("avg {average:.2} {unit}")
}
