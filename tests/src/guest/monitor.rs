//! QEMU's monitor (QMP): what QEMU is told while the guest runs.

use core::time::Duration;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use pcap_file::pcap::{PcapReader, PcapWriter};
use serde_json::{Value, json};

use super::net;

const PATIENCE: Duration = Duration::from_secs(20);
/// Longest line that QEMU may send.
const MAX_LINE: u64 = 1 << 20;

/// A connection to the monitor.
#[derive(Debug)]
pub struct Monitor {
    reader: Mutex<BufReader<UnixStream>>,
}

impl Monitor {
    /// Connects to a running QEMU.
    ///
    /// # Errors
    /// If it does not answer as QMP.
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("QEMU's monitor")?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("QEMU's monitor")?;
        let mut reader = BufReader::new(stream);
        let greeting = line(&mut reader)?;
        ensure!(
            greeting["QMP"].is_object(),
            "QEMU's monitor said {greeting}"
        );
        let monitor = Self {
            reader: Mutex::new(reader),
        };
        monitor.tell("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// If QEMU refuses it, with its reason.
    pub fn tell(&self, command: &str, arguments: &Value) -> Result<()> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(reader.get_mut(), "{request}").context("QEMU's monitor")?;
        loop {
            let answer = line(&mut reader)?;
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                bail!("QEMU's {command}: {}", error["desc"]);
            }
            // Events come between.
        }
    }
}

fn line(reader: &mut BufReader<UnixStream>) -> Result<Value> {
    let mut text = String::new();
    reader
        .by_ref()
        .take(MAX_LINE)
        .read_line(&mut text)
        .context("QEMU's monitor")?;
    serde_json::from_str(&text).with_context(|| format!("QEMU's monitor said `{}`", text.trim()))
}

/// A capture by QEMU of what it moves between the guest and its network device.
///
/// It sees what passes by the host's own captures: an XDP program takes frames before they do, and an AF_XDP socket
/// sends behind them.
#[derive(Debug)]
pub struct Dump {
    monitor: Arc<Monitor>,
    id: String,
    file: PathBuf,
}

impl Dump {
    /// Starts capturing the network device `netdev` into `file`.
    ///
    /// # Errors
    /// If QEMU refuses.
    pub fn start(monitor: &Arc<Monitor>, netdev: &str, file: &Path) -> Result<Self> {
        let name = file.file_stem().and_then(|name| name.to_str());
        let id = format!("dump{}", name.context("a capture without a name")?);
        let arguments =
            json!({ "qom-type": "filter-dump", "id": id, "netdev": netdev, "file": file });
        monitor.tell("object-add", &arguments)?;
        Ok(Self {
            monitor: Arc::clone(monitor),
            id,
            file: file.to_owned(),
        })
    }

    /// Ends the capture and returns the file.
    ///
    /// # Errors
    /// If QEMU refuses, or wrote what is no capture.
    pub fn finish(self) -> Result<PathBuf> {
        self.monitor.tell("object-del", &json!({ "id": self.id }))?;
        let whole = self.file.with_extension("qemu.pcap");
        std::fs::rename(&self.file, &whole).context("QEMU's capture")?;
        frames_alone(&whole, &self.file)?;
        std::fs::remove_file(&whole).context("QEMU's capture")?;
        Ok(self.file)
    }
}

/// Copies a capture without the headers that virtio puts before a frame, which QEMU 7 leaves there.
fn frames_alone(from: &Path, to: &Path) -> Result<()> {
    const VIRTIO: usize = 12;
    let reading = File::open(from).with_context(|| from.display().to_string())?;
    let writing = File::create(to).with_context(|| to.display().to_string())?;
    let mut reader = PcapReader::new(BufReader::new(reading)).context("QEMU's capture")?;
    let mut writer = PcapWriter::with_header(BufWriter::new(writing), reader.header())
        .context("QEMU's capture")?;
    while let Some(packet) = reader.next_packet() {
        let mut packet = packet.context("QEMU's capture")?;
        let bytes = match &packet.data[..] {
            bytes if starts_a_frame(bytes) => bytes,
            bytes if bytes.get(VIRTIO..).is_some_and(starts_a_frame) => &bytes[VIRTIO..],
            bytes => bail!("QEMU captured what is no frame of this wire: {bytes:02x?}"),
        };
        let cut = packet.data.len() - bytes.len();
        packet.orig_len -= cut as u32;
        packet.data = bytes.to_vec().into();
        writer.write_packet(&packet).context("QEMU's capture")?;
    }
    writer.into_writer().flush().context("QEMU's capture")
}

/// Whether bytes start with the source and destination of a frame between the guest and us, or of one to many.
fn starts_a_frame(bytes: &[u8]) -> bool {
    let macs = [&net::OUR_MAC[..], &net::GUEST_MAC[..]];
    bytes.len() >= 14
        && macs.contains(&&bytes[6..12])
        && (macs.contains(&&bytes[..6]) || bytes[0] & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_from_headers_before_them() {
        let frame = [&net::OUR_MAC[..], &net::GUEST_MAC, &[8, 0]].concat();
        let many = [
            &[0x33, 0x33, 0, 0, 0, 1][..],
            &net::GUEST_MAC,
            &[0x86, 0xdd],
        ]
        .concat();
        assert!(starts_a_frame(&frame) && starts_a_frame(&many));
        let with_header = [&[1_u8, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0][..], &frame].concat();
        assert!(!starts_a_frame(&with_header));
        assert!(!starts_a_frame(&frame[..13]));
    }
}
