//! What perftest and the design have and this version has not: refused by name, with what to use instead.

/// An option that is refused.
struct Refused {
    short: Option<char>,
    long: &'static str,
    instead: &'static str,
}

const fn row(short: char, long: &'static str, instead: &'static str) -> Refused {
    Refused {
        short: Some(short),
        long,
        instead,
    }
}

const fn long(long: &'static str, instead: &'static str) -> Refused {
    Refused {
        short: None,
        long,
        instead,
    }
}

const CM: &str =
    "there is no connection manager yet: use the TCP exchange, the default, at both ends";
const MULTICAST: &str = "there is no multicast here; use -c UD between two ends";
const RAW: &str = "raw Ethernet tests are not part of roce; use one of its eight tests";
const ACCELERATOR: &str = "buffers are in the host's memory; leave it out";
const ADAPTER: &str = "it tunes an adapter that is not in use here; leave it out";

/// Options of perftest.
const OPTIONS: &[Refused] = &[
    row('g', "mcg", MULTICAST),
    row('M', "MGID", MULTICAST),
    row('L', "hop_limit", RAW),
    row(
        'O',
        "dualport",
        "run one test per interface (-d udp:INTERFACE)",
    ),
    row('R', "rdma_cm", CM),
    row('T', "tos", "it belongs to -R; use --tclass"),
    row(
        'W',
        "report-counters",
        "counters are below the table and in --json",
    ),
    row(
        'X',
        "vector",
        "there is one completion vector, 0; leave it out",
    ),
    row('z', "comm_rdma_cm", CM),
    long("com_rdma_cm", CM),
    long(
        "recv_post_list",
        "receives are posted one by one; leave it out",
    ),
    long(
        "report-per-port",
        "run one test per interface (-d udp:INTERFACE)",
    ),
    long("wait_destroy", "use --connect-timeout for slow peers"),
    long("use_ooo", ADAPTER),
    long("odp", ADAPTER),
    long("mmap", ACCELERATOR),
    long("mmap-offset", ACCELERATOR),
    long("dlid", "RoCE has no LIDs; leave it out"),
    long("force-link", "the link is always Ethernet; leave it out"),
    long(
        "dont_xchg_versions",
        "stock perftest exits with it, too; leave it out",
    ),
    long("use-null-mr", ADAPTER),
    long(
        "payload_file_path",
        "payloads are random, or checked with --verify",
    ),
    long("inline_recv", ADAPTER),
    long("source_ip", "use --bind_source_ip"),
    long("use_hl", ACCELERATOR),
    long("use_opencl", ACCELERATOR),
    long("use_ib_dm_dmabuf", ACCELERATOR),
    long("gpu_touch", ACCELERATOR),
    long("cqe_poll", ADAPTER),
    long("disable_dynamic_polling", ADAPTER),
    long("no_lock", ADAPTER),
    long("no_enhanced_reorder", ADAPTER),
    long("pin_cores", "use taskset"),
    long("numa_node", "use numactl"),
    long("disable_numa", "use numactl"),
    long("tph_mem", ADAPTER),
    long("cpu_id", ADAPTER),
    long("ph", ADAPTER),
    long("congest_type", ADAPTER),
    long("connectionless", "use -c RC"),
    long("sig_offload", ADAPTER),
    long("unsolicited_write", ADAPTER),
    long("tcp", RAW),
    long(
        "typical_pkt_size",
        "it belongs to --rate_limit_type PP, an adapter's limiter; use --rate_limit with --burst_size",
    ),
];

/// Options of the design, not of perftest.
const OURS: &[Refused] = &[
    long("ceiling", "use roce compare --ceiling"),
    long("create-rxe", "use --backends udp"),
    long(
        "against",
        "keep compare.json (--report) of both runs and compare them",
    ),
];

/// Families of options with one prefix.
const FAMILIES: &[(&str, &str)] = &[
    ("use_cuda", ACCELERATOR),
    ("use_rocm", ACCELERATOR),
    ("use_neuron", ACCELERATOR),
    ("use_mlu", ACCELERATOR),
    ("use_musa", ACCELERATOR),
    ("data_validation", "use --verify"),
    ("aes_xts", ADAPTER),
    ("aes_block_size", ADAPTER),
    ("encrypt", ADAPTER),
    ("sig_before", ADAPTER),
    ("data_enc_", ADAPTER),
    ("kek_path", ADAPTER),
    ("credentials_path", ADAPTER),
    ("log_dci_streams", ADAPTER),
    ("log_active_dci_streams", ADAPTER),
    ("vlan_", RAW),
    ("flows", RAW),
    ("raw_", RAW),
];

/// Letters of the raw Ethernet tests.
const RAW_LETTERS: &str = "BEGJjKkYZPv";

/// Returns what is known about an option that the parser doesn't know: `-R`, `--rdma_cm`.
pub(super) fn option(given: &str) -> Option<String> {
    let given = given.split('=').next().unwrap_or(given);
    let (name, instead) = match given.strip_prefix("--") {
        Some(name) => (given.to_owned(), by_long(name)?),
        None => by_short(given.strip_prefix('-')?.chars().next()?)?,
    };
    Some(format!("option {name} is not supported; {instead}"))
}

fn by_long(name: &str) -> Option<&'static str> {
    OPTIONS
        .iter()
        .chain(OURS)
        .find(|refused| refused.long == name)
        .map(|refused| refused.instead)
        .or_else(|| {
            let family = FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix));
            family.map(|(_, instead)| *instead)
        })
}

fn by_short(letter: char) -> Option<(String, &'static str)> {
    let known = OPTIONS
        .iter()
        .find(|refused| refused.short == Some(letter))
        .map(|refused| (format!("-{letter} ({})", refused.long), refused.instead));
    known.or_else(|| {
        RAW_LETTERS
            .contains(letter)
            .then(|| (format!("-{letter}"), RAW))
    })
}

/// Returns what is known about a command that the parser doesn't know.
pub(super) fn command(given: &str) -> Option<String> {
    let instead = match given {
        "serve" => "start the server of each test, as in: roce write-bw",
        "check" => "a test says what is wrong with its path; try: roce write-bw -n 5 SERVER",
        "inspect" => "open the file of --pcap in Wireshark or tshark",
        "raw-ethernet-bw" | "raw-ethernet-lat" => RAW,
        _ => {
            let test =
                crate::spec::Test::from_name(&format!("ib_{}", given.trim_start_matches("ib_")))?;
            return Some(format!(
                "there is no command `{given}`; the test is `roce {}`",
                test.name()
            ));
        }
    };
    Some(format!("command `{given}` is not supported yet; {instead}"))
}

/// Returns perftest's options that are refused, as a user types them; a family by its prefix.
#[cfg(test)]
pub(super) fn all_of_perftest() -> Vec<String> {
    let short = |letter| format!("-{letter}");
    OPTIONS
        .iter()
        .flat_map(|refused| {
            let long = format!("--{}", refused.long);
            [refused.short.map(short), Some(long)]
        })
        .flatten()
        .chain(FAMILIES.iter().map(|(prefix, _)| format!("--{prefix}")))
        .chain(RAW_LETTERS.chars().map(short))
        .collect()
}
