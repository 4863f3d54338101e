//! What of a line is form: everything but measured values and what devices are.

/// Banner entries whose values are the device's.
const OF_DEVICES: [&str; 6] = [
    "Device",
    "PCIe relax order",
    "Mtu",
    "GID index",
    "Outstand reads",
    "Max inline data",
];
/// The width that figures are padded to.
const WIDTH: usize = 7;
/// The width that iterations of a bandwidth test are padded to.
const COUNT_WIDTH: usize = 10;

/// The two forms of 20 messages in Gb/s. A row has the second if its average is below [`SMALL`].
const GIGABITS: [&str; 2] = [
    "               <.2>            <.2>\t\t   <.6>",
    "           <.6>            <.6>            <.6>",
];
const SMALL: f64 = 0.1;

/// Returns the first line whose form differs.
pub(super) fn difference(
    test: &str,
    options: &str,
    theirs: &[&str],
    ours: &[&str],
) -> Option<String> {
    let form = |lines: &[&str]| -> Vec<String> {
        lines
            .iter()
            .map(|line| of_line(test, options, line))
            .collect()
    };
    let (their_forms, our_forms) = (form(theirs), form(ours));
    let longest = theirs.len().max(ours.len());
    let at = (0..longest).find(|at| their_forms.get(*at) != our_forms.get(*at))?;
    Some(format!(
        "line {}\n stock: {:?}\n ours:  {:?}\n as     {:?}\n and    {:?}",
        at + 1,
        theirs.get(at),
        ours.get(at),
        their_forms.get(at),
        our_forms.get(at)
    ))
}

fn of_line(test: &str, options: &str, line: &str) -> String {
    let row = line.strip_prefix(' ').unwrap_or(line);
    if row.starts_with(|c: char| c.is_ascii_digit()) {
        return match line.split_once(", ") {
            Some((number, sample)) => format!("{number}, {}", general(sample)),
            None => of_gigabits(options, line, of_row(test, options, line)),
        };
    }
    if line.contains(" address: LID") {
        return of_address(line);
    }
    if let Some(gid) = line.strip_prefix(" GID: ") {
        let byte = |byte: &str| byte.len() >= 2 && byte.parse::<u8>().is_ok();
        let bytes = gid.split(':').filter(|found| byte(found)).count();
        return format!(" GID: of {bytes} bytes");
    }
    let line = line.replace("rxe0", "DEVICE").replace("udp:lo", "DEVICE");
    let known = OF_DEVICES.iter().find(|name| row.starts_with(**name));
    match (known, line.split_once(": ")) {
        (Some(name), Some((key, value))) => {
            let unit = value.trim_start_matches(|c: char| c != '[');
            format!("{key}: {name}{unit}")
        }
        _ => line,
    }
}

/// Takes the two forms of a row in Gb/s for one, where it has the one that its average asks for. With `-b` that is
/// the average of one direction, which a row with the sum of both does not tell.
fn of_gigabits(options: &str, line: &str, form: String) -> String {
    let average = line.split_whitespace().nth(3);
    let Some(average) = average.and_then(|figure| figure.parse::<f64>().ok()) else {
        return form;
    };
    if !options.contains("--report_gbits") {
        return form;
    }
    let tails = match options.split(' ').any(|word| word == "-b") {
        true => &GIGABITS[..],
        false => &GIGABITS[usize::from(average < SMALL)..][..1],
    };
    let head = tails.iter().find_map(|tail| form.strip_suffix(tail));
    head.map_or_else(|| form.clone(), |head| format!("{head} in Gb/s"))
}

/// Each number of an address line by its kind.
fn of_address(line: &str) -> String {
    let number = |word: &str| {
        word.starts_with("0x") && u64::from_str_radix(&word[2..], 16).is_ok()
            || word.bytes().all(|byte| byte == b'0')
    };
    let words = line.split(' ').map(|word| match number(word) {
        true => "number".to_owned(),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Each figure of a row by its decimals and by what is between it and the next one, padding left out.
fn of_row(test: &str, options: &str, line: &str) -> String {
    let counted = options.contains("-n ");
    let mut form = String::new();
    let mut rest = line;
    let mut column = 0;
    while !rest.is_empty() {
        let start = rest
            .find(|c: char| !c.is_whitespace())
            .unwrap_or(rest.len());
        let end = rest[start..]
            .find(char::is_whitespace)
            .map_or(rest.len(), |at| start + at);
        let behind = rest[end..].find(|c: char| !c.is_whitespace());
        let behind = behind.map_or(rest.len(), |at| end + at);
        let (word, gap) = (&rest[start..end], &rest[end..behind]);
        form.push_str(&rest[..start]);
        // perftest counts deviations in ints, whose squares overflow in samples that took seconds.
        let word = if word == "-nan" { "0.00" } else { word };
        match (word.split_once('.'), column) {
            (Some((_, decimals)), _) => {
                form += &format!("<.{}>{}", decimals.len(), unpadded(word, gap, WIDTH));
            }
            // How many there were in a time is measured.
            (None, 1) if !counted => {
                let width = if test.ends_with("-bw") {
                    COUNT_WIDTH
                } else {
                    0
                };
                form += &format!("<count>{}", unpadded(word, gap, width));
            }
            (None, _) => form += &format!("{word}{gap}"),
        }
        rest = &rest[behind..];
        column += 1;
    }
    form
}

/// Takes the spaces off that fill a figure up; says so if there are fewer.
fn unpadded(word: &str, gap: &str, width: usize) -> String {
    let padding = width.saturating_sub(word.len());
    match gap.strip_prefix(" ".repeat(padding).as_str()) {
        Some(rest) => rest.to_owned(),
        None => format!("{gap:?} without padding"),
    }
}

/// Accepts what C's `%g` writes.
fn general(sample: &str) -> &str {
    let digits = sample.split('e').next().unwrap_or_default();
    let digits = digits.bytes().filter(u8::is_ascii_digit).count();
    let trimmed = !sample.contains('.') || !sample.ends_with('0');
    if sample.parse::<f64>().is_ok() && (1..=9).contains(&digits) && trimmed {
        "sample"
    } else {
        sample
    }
}

#[test]
fn figures_may_differ_and_their_form_may_not() {
    let of = |line: &str| of_row("write-bw", "-n 20", line);
    let row = " 65536      20               43.41              20.85  \t\t   0.000334";
    for same in [
        " 65536      20               4321.50            1120.85\t\t   1.000334",
        " 65536      20               123456.12            20.85  \t\t   0.000334",
    ] {
        assert_eq!(of(same), of(row), "{same}");
    }
    for other in [
        " 65536      20               43.4               20.85  \t\t   0.000334",
        " 65536      20              43.41              20.85  \t\t   0.000334",
        " 65536      20               43.41              20.85 \t\t   0.000334",
        " 65536      21               43.41              20.85  \t\t   0.000334",
    ] {
        assert_ne!(of(other), of(row), "{other}");
    }
}

#[test]
fn the_form_of_gigabits_goes_with_the_average() {
    let of = |line: &str| of_line("send-bw", "-n 20 --report_gbits", line);
    let large = of(" 16         20               0.00               8.80   \t\t   68.728522");
    let small = of(" 16         20           0.000000            0.042998            0.335918");
    assert_eq!(small, large);
    for wrong in [
        " 16         20           0.000000            0.142998            1.335918",
        " 16         20               0.00               0.04   \t\t   0.335918",
    ] {
        assert_ne!(of(wrong), small, "{wrong}");
    }
}

#[test]
fn banners_may_differ_in_what_the_device_is() {
    let of = |line: &str| of_line("write-bw", "-n 20", line);
    assert_eq!(
        of(" Mtu             : 1024[B]"),
        of(" Mtu             : 4096[B]")
    );
    assert_ne!(
        of(" Mtu             : 1024[B]"),
        of(" Mtu             : 4096")
    );
    assert_ne!(of(" TX depth        : 20"), of(" TX depth        : 21"));
    let address =
        " local address: LID 0000 QPN 0x0011 PSN 0x39e4b8 RKey 0x000324 VAddr 0x007f61e300a000";
    assert_eq!(of(address), of(&address.replace("39e4b8", "81250")));
    assert_ne!(of(address), of(&address.replace("RKey 0x000324 ", "")));
}
