//! The channel into the guest: one line out, a status and counted bytes back.
//!
//! `tests/guest/init` is the other end and describes the protocol.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::process::Reply;

/// How much longer than the guest's own limit we wait: emulation stalls when the host is busy.
const GRACE: Duration = Duration::from_secs(20);
/// Most that one command may print; perftest prints a few KiB.
const MAX_REPLY: usize = 8 << 20;

/// A connection to the guest's init.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<UnixStream>,
}

impl Control {
    /// Connects to QEMU's socket, which starts the guest, and waits until its init is ready.
    ///
    /// # Errors
    /// If the socket doesn't appear or the guest isn't ready in time.
    pub fn connect(socket: &Path, limit: Duration) -> Result<Self> {
        let deadline = Instant::now() + limit;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(error).context("QEMU did not open its control socket"),
            }
        };
        stream
            .set_read_timeout(Some(limit))
            .context("control socket")?;
        let mut control = Self {
            reader: BufReader::new(stream),
        };
        let word = control.line().context("the guest did not boot")?;
        ensure!(
            word == "ready",
            "the guest said `{word}` in place of `ready`"
        );
        Ok(control)
    }

    /// Runs a line of shell in the guest, which kills it after `limit`.
    ///
    /// # Errors
    /// If the guest doesn't answer, or not in the protocol's form. The channel can't be used after.
    ///
    /// # Panics
    /// If the command holds a line break.
    pub fn run(&mut self, command: &str, limit: Duration) -> Result<Reply> {
        assert!(
            !command.contains('\n'),
            "a guest command is one line: {command:?}"
        );
        let stream = self.reader.get_mut();
        stream
            .set_read_timeout(Some(limit + GRACE))
            .context("control socket")?;
        stream
            .write_all(format!("{} {command}\n", limit.as_secs().max(1)).as_bytes())
            .context("the guest hung up")?;
        let head = self
            .line()
            .with_context(|| format!("no answer from the guest to `{command}`"))?;
        let (status, length) = head
            .split_once(' ')
            .and_then(|(status, length)| Some((status.parse().ok()?, length.parse().ok()?)))
            .with_context(|| format!("the guest answered `{head}` to `{command}`"))?;
        let length: usize = length;
        ensure!(
            length <= MAX_REPLY,
            "`{command}` printed {length} bytes in the guest"
        );
        let mut text = vec![0; length];
        self.reader
            .read_exact(&mut text)
            .context("the guest hung up in an answer")?;
        Ok(Reply {
            status,
            text: String::from_utf8_lossy(&text).into_owned(),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let bytes = self.reader.by_ref().take(256).read_line(&mut line)?;
        ensure!(
            bytes > 0 && line.ends_with('\n'),
            "the control channel closed"
        );
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn guest_that_says(answers: &'static [u8]) -> Control {
        let path = std::env::temp_dir().join(format!(
            "roce-control-{}-{:p}",
            std::process::id(),
            answers.as_ptr()
        ));
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(answers).unwrap();
            // Stays until the other side has read and closed.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let control = Control::connect(&path, Duration::from_secs(5));
        std::fs::remove_file(&path).unwrap();
        control.unwrap()
    }

    #[test]
    fn an_answer_is_a_status_and_exactly_the_bytes_it_counts() {
        let mut guest = guest_that_says(b"ready\n3 12\nno\nnewline\n\n0 0\n");
        let reply = guest.run("false", Duration::from_secs(1)).unwrap();
        assert_eq!((reply.status, reply.text.as_str()), (3, "no\nnewline\n\n"));
        assert_eq!(guest.run("true", Duration::from_secs(1)).unwrap().text, "");
    }

    #[test]
    fn an_answer_out_of_form_is_an_error_that_quotes_it() {
        let mut guest = guest_that_says(b"ready\nwhat\n");
        let error = guest.run("true", Duration::from_secs(1)).unwrap_err();
        assert!(format!("{error:#}").contains("`what`"), "{error:#}");
    }
}
