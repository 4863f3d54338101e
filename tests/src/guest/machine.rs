//! Builds, boots and drives the guest.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::control::Control;
use super::monitor::{Dump, Monitor};
use super::net;
use crate::namespace::{Namespace, mac_text};
use crate::process::{Process, Reply};

/// From power-on to init's first word; 4 s on an idle machine, more when both cores are busy.
const BOOT: Duration = Duration::from_secs(120);
/// `no_timer_check`: on a busy machine an emulated timer may not tick in the time in which the kernel tries it.
/// `tsc=reliable`: else the kernel takes an emulated processor's delays for a bad TSC, now and then; reading another
/// clock is a system call, and one into QEMU.
const KERNEL_OPTIONS: &str =
    "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check tsc=reliable";
const SHORT: Duration = Duration::from_secs(20);

/// A kernel and an initramfs on disk.
#[derive(Debug, Clone)]
pub struct Image {
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Image {
    /// Builds the image of a Debian suite below `cache`, or finds it there.
    ///
    /// # Errors
    /// If `tests/guest/build` fails; it has then said why on stderr.
    pub fn prepare(cache: &Path, suite: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/build");
        let output = Command::new(&script)
            .arg(cache)
            .arg(suite)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(
            output.status.success(),
            "the guest image could not be built"
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let (kernel, initramfs) = text
            .trim()
            .split_once('\n')
            .context("tests/guest/build did not print two paths")?;
        Ok(Self {
            kernel: kernel.into(),
            initramfs: initramfs.into(),
        })
    }

    /// Returns the image with our command in it, written into `folder`.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn with_roce(&self, roce: &Path, folder: &Path) -> Result<Self> {
        let initramfs = folder.join("initramfs-with-roce.gz");
        super::image::with_program(&self.initramfs, roce, &initramfs)?;
        Ok(Self {
            kernel: self.kernel.clone(),
            initramfs,
        })
    }
}

/// Makes a namespace with our end of the wire in it.
fn namespace_with_tap() -> Result<Namespace> {
    let namespace = Namespace::new()?;
    let mac = mac_text(net::OUR_MAC);
    let (tap, v4, v6) = (net::TAP, net::OUR_V4, net::OUR_V6);
    // The queue holds a burst while the emulated guest, 10 to 30 times slower, catches up.
    namespace.shell(&format!(
        "ip tuntap add dev {tap} mode tap && \
         ip link set {tap} address {mac} txqueuelen 20000 up && \
         ip addr add {v4}/24 dev {tap} && ip addr add {v6}/64 dev {tap} nodad"
    ))?;
    Ok(namespace)
}

/// A running guest with `rxe0` on `eth0`, on the tap of its namespace.
#[derive(Debug)]
pub struct Guest {
    // Dropped in this order: the guest sees the hang-up, QEMU is killed, the namespace goes.
    control: Control,
    monitor: Arc<Monitor>,
    _qemu: Process,
    namespace: Namespace,
    kernel: String,
    mtu: u32,
}

impl Guest {
    /// Boots the image with both ends of the wire at an MTU of 1500; logs go into `folder`.
    ///
    /// # Errors
    /// If the namespace can't be made, QEMU fails, or the guest's rxe device doesn't come up.
    pub fn boot(image: &Image, folder: &Path) -> Result<Self> {
        let namespace = namespace_with_tap()?;
        let socket = folder.join("control");
        let monitor = folder.join("monitor");
        let console = folder.join("console.log");
        let _ = std::fs::remove_file(&socket);
        let mut command = namespace.command("qemu-system-x86_64");
        command
            .args([
                "-accel",
                "tcg,thread=multi",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                "1024",
            ])
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(&image.kernel)
            .arg("-initrd")
            .arg(&image.initramfs)
            .args(["-append", KERNEL_OPTIONS])
            .args(["-serial", &format!("file:{}", console.display())])
            .args([
                "-qmp",
                &format!("unix:{},server=on,wait=off", monitor.display()),
            ])
            // With wait=on the guest starts only after we are connected, so its first word is
            // not lost.
            .args([
                "-chardev",
                &format!("socket,id=c,path={},server=on,wait=on", socket.display()),
            ])
            .args([
                "-device",
                "virtio-serial-pci",
                "-device",
                "virtserialport,chardev=c",
            ])
            .args([
                "-netdev",
                &format!("tap,id=n,ifname={},script=no,downscript=no", net::TAP),
            ])
            .args([
                "-device",
                &format!(
                    "virtio-net-pci,netdev=n,romfile=,mac={}",
                    mac_text(net::GUEST_MAC)
                ),
            ]);
        let qemu = Process::start(&mut command, &folder.join("qemu.log"))?;
        let control = Control::connect(&socket, BOOT).with_context(|| {
            let console = std::fs::read_to_string(&console).unwrap_or_default();
            format!(
                "QEMU: {}\nguest console: {}",
                qemu.output().trim(),
                console.trim()
            )
        })?;
        let mut guest = Self {
            control,
            monitor: Arc::new(Monitor::connect(&monitor)?),
            _qemu: qemu,
            namespace,
            kernel: String::new(),
            mtu: 1500,
        };
        guest.set_up()?;
        Ok(guest)
    }

    fn set_up(&mut self) -> Result<()> {
        let (v4, v6) = (net::GUEST_V4, net::GUEST_V6);
        self.must(&format!(
            "IP={ip}; $IP link set lo up && $IP link set eth0 txqueuelen 20000 up && \
             $IP addr add {v4}/24 dev eth0 && $IP -6 addr add {v6}/64 dev eth0 nodad",
            ip = net::GUEST_IP
        ))?;
        self.add_rxe()?;
        self.kernel = self.must("uname -r")?.trim().to_owned();
        Ok(())
    }

    /// Puts an emulated network (netem's options) behind everything that the guest sends, or takes it away.
    ///
    /// # Errors
    /// If the guest's kernel has no netem.
    pub fn set_netem(&mut self, options: Option<&str>) -> Result<()> {
        let tc = net::GUEST_TC;
        match options {
            Some(options) => self.must(&format!(
                "{tc} qdisc replace dev eth0 root netem limit 20000 {options}"
            )),
            None => self.must(&format!("{tc} qdisc del dev eth0 root")),
        }?;
        Ok(())
    }

    /// Has the guest drop arriving packets to a UDP or TCP port, as a firewall does.
    ///
    /// # Errors
    /// If the guest refuses.
    pub fn block(&mut self, protocol: &str, port: u16) -> Result<()> {
        let (tc, number) = (net::GUEST_TC, if protocol == "udp" { 17 } else { 6 });
        self.must(&format!(
            "{tc} qdisc add dev eth0 ingress && {tc} filter add dev eth0 parent ffff: protocol ip u32 \
             match ip protocol {number} 0xff match ip dport {port} 0xffff action drop"
        ))?;
        Ok(())
    }

    /// Takes the firewall away.
    ///
    /// # Errors
    /// If there is none.
    pub fn unblock(&mut self) -> Result<()> {
        self.must(&format!("{} qdisc del dev eth0 ingress", net::GUEST_TC))?;
        Ok(())
    }

    fn add_rxe(&mut self) -> Result<()> {
        // devtmpfs makes the node a moment after the device.
        self.must(
            "rdma link add rxe0 type rxe netdev eth0 || exit 1; \
             for i in $(seq 100); do [ -e /dev/infiniband/uverbs* ] && exit 0; usleep 50000; done; \
             echo no /dev/infiniband/uverbs; exit 1",
        )?;
        Ok(())
    }

    /// Sets the MTU of both ends. The guest's rxe device is made anew: it takes the path MTU from its interface.
    ///
    /// # Errors
    /// If either end refuses.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<()> {
        if mtu == self.mtu {
            return Ok(());
        }
        self.namespace
            .shell(&format!("ip link set {} mtu {mtu}", net::TAP))?;
        self.must(&format!(
            "rdma link delete rxe0 && {} link set eth0 mtu {mtu}",
            net::GUEST_IP
        ))?;
        self.add_rxe()?;
        self.mtu = mtu;
        Ok(())
    }

    /// The guest's kernel release.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The namespace that holds our end of the wire.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Has QEMU capture what passes between the tap and the guest.
    ///
    /// # Errors
    /// If QEMU refuses.
    pub fn dump(&self, file: &Path) -> Result<Dump> {
        Dump::start(&self.monitor, "n", file)
    }

    /// Runs a line of shell in the guest, which kills it after `limit`.
    ///
    /// # Errors
    /// If the guest no longer answers.
    pub fn run(&mut self, command: &str, limit: Duration) -> Result<Reply> {
        self.control.run(command, limit)
    }

    /// Runs a line of shell in the guest that has to succeed, and returns what it printed.
    ///
    /// # Errors
    /// If it exits with anything but 0.
    pub fn must(&mut self, command: &str) -> Result<String> {
        let reply = self.run(command, SHORT)?;
        ensure!(
            reply.status == 0,
            "in the guest, `{command}` gave {}: {}",
            reply.status,
            reply.text
        );
        Ok(reply.text)
    }

    /// Starts a program in the guest's background; [`Self::served`] ends it.
    ///
    /// # Errors
    /// If the guest no longer answers.
    pub fn spawn(&mut self, command: &str) -> Result<()> {
        self.must(&format!(
            "rm -f /tmp/served.*; \
             ({command} >/tmp/served.out 2>&1 & echo $! >/tmp/served.pid; wait $!; \
             echo $? >/tmp/served.tmp; mv /tmp/served.tmp /tmp/served.status) >/dev/null 2>&1 &"
        ))?;
        Ok(())
    }

    /// Starts a server in the guest and returns when it listens on the TCP port; [`Self::served`] ends it.
    ///
    /// # Errors
    /// If it ends or is silent before it listens, with what it printed.
    pub fn serve(&mut self, command: &str, port: u16) -> Result<()> {
        self.spawn(command)?;
        let reply = self.run(
            &format!(
                "for i in $(seq 200); do \
                 grep -q ':{port:04X} .*:0000 0A ' /proc/net/tcp /proc/net/tcp6 && exit 0; \
                 [ -e /tmp/served.status ] && break; usleep 50000; done; \
                 cat /tmp/served.out; exit 1"
            ),
            SHORT,
        )?;
        ensure!(
            reply.status == 0,
            "`{command}` does not listen in the guest: {}",
            reply.text.trim()
        );
        Ok(())
    }

    /// Sends a signal to the program in the guest's background.
    ///
    /// # Errors
    /// If it is gone.
    pub fn signal(&mut self, signal: &str) -> Result<()> {
        self.must(&format!("kill -{signal} $(cat /tmp/served.pid)"))?;
        Ok(())
    }

    /// Waits for the program in the guest's background and returns its status and output.
    ///
    /// One that is still there after `limit` is killed and has the status 137.
    ///
    /// # Errors
    /// If the guest no longer answers.
    pub fn served(&mut self, limit: Duration) -> Result<Reply> {
        let ticks = limit.as_millis() / 50;
        self.run(
            &format!(
                "for i in $(seq {ticks}); do [ -e /tmp/served.status ] && break; usleep 50000; done; \
                 cat /tmp/served.out; [ -e /tmp/served.status ] && exit $(cat /tmp/served.status); \
                 kill -KILL $(cat /tmp/served.pid); exit 137"
            ),
            limit + SHORT,
        )
    }
}
