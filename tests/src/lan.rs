//! Lan on one simulated network, with queue pairs of any service between any two of them.

mod setup;

pub use setup::{HostSetup, Wish};

use core::time::Duration;

use roce_engine::sim::{Ended, Rule, SimLink, World};
use roce_engine::verbs::{
    Access, AddressVector, Ah, AsyncEvent, Backend, Completion, Cq, CreateError, Gid, Mr, Payload,
    Pd, PostError, QKey, Qp, QpAttr, QpInit, QpState, Qpn, RecvWr, Region, SendFlags, SendOp,
    SendWr, Service, Sge, Srq, Status,
};

use crate::pair::{Seen, counter, outcomes, seen};
use crate::rc::{address, all_rights};

/// A network of devices. A failing test prints the packets.
#[derive(Debug)]
pub struct Lan {
    /// The devices and their network.
    pub world: World,
    /// What each device has.
    pub hosts: Vec<Host>,
    setup: HostSetup,
}

/// A device's domain and memory.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its protection domain.
    pub pd: Pd,
    /// Its memory, filled with a pattern.
    pub region: Region,
    /// Its memory's registration, with all rights.
    pub mr: Mr,
}

/// A queue pair of a host, with completion queues of its own.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The host.
    pub host: usize,
    /// The queue pair.
    pub qp: Qp,
    /// Its number.
    pub qpn: Qpn,
    /// Send completions.
    pub send_cq: Cq,
    /// Receive completions.
    pub recv_cq: Cq,
    /// Its service.
    pub service: Service,
}

impl Lan {
    /// Makes `count` hosts with the defaults of [`HostSetup`].
    pub fn new(count: usize) -> Self {
        Self::with(count, |_| {})
    }

    /// Makes `count` hosts after `change` to the defaults.
    pub fn with(count: usize, change: impl FnOnce(&mut HostSetup)) -> Self {
        let mut setup = HostSetup::default();
        change(&mut setup);
        let mut world = World::new(1);
        let hosts = (0..count).map(|host| setup.host(&mut world, host));
        let hosts = hosts.collect();
        world.net().trace_packets(TRACE);
        Self {
            world,
            hosts,
            setup,
        }
    }

    /// Adds a port of the network that the test plays by hand; its address follows those of the hosts.
    pub fn raw_port(&mut self) -> SimLink {
        let config = self.setup.link(self.hosts.len());
        self.world.add_raw_port(&config)
    }

    /// Makes a queue pair of a service in RESET.
    pub fn qp(&mut self, host: usize, service: Service) -> Port {
        self.qp_with(host, service, |_| {})
    }

    /// Makes a queue pair in RESET after `change` to what it is made with.
    pub fn qp_with(
        &mut self,
        host: usize,
        service: Service,
        change: impl FnOnce(&mut QpInit),
    ) -> Port {
        let (pd, depth) = (self.hosts[host].pd, self.setup.cq_depth);
        let device = self.world.device(host);
        let send_cq = device.create_cq(depth).expect("a completion queue");
        let recv_cq = device.create_cq(depth).expect("a completion queue");
        let mut init = QpInit {
            service,
            pd,
            send_cq,
            recv_cq,
            caps: self.setup.caps,
            srq: None,
            sq_sig_all: false,
        };
        change(&mut init);
        let qp = device.create_qp(&init).expect("a queue pair");
        let qpn = device.query_qp(qp).expect("the queue pair").qpn;
        Port {
            host,
            qp,
            qpn,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            service,
        }
    }

    /// Makes two connected queue pairs of a service, on hosts 0 and 1.
    pub fn connected(&mut self, service: Service) -> [Port; 2] {
        let ends = [0, 1].map(|host| self.qp(host, service));
        self.connect(ends[0], ends[1]);
        ends
    }

    /// Connects two queue pairs: the first sends from PSN 100, the second from PSN 200.
    pub fn connect(&mut self, a: Port, b: Port) {
        self.connect_with(a, b, |_| {});
    }

    /// Connects two queue pairs after `change` to what both are told.
    pub fn connect_with(&mut self, a: Port, b: Port, change: impl Fn(&mut Wish)) {
        for (port, peer, psns) in [(a, b, [100, 200]), (b, a, [200, 100])] {
            let remote = address(self.setup.ipv6, peer.host);
            let mut wish = Wish::new(remote, peer.qpn, psns);
            change(&mut wish);
            self.enter(port, &wish);
        }
    }

    /// Takes a connected service's queue pair from RESET to RTS.
    pub fn enter(&mut self, port: Port, wish: &Wish) {
        for attr in wish.attributes(port.service) {
            self.modify(port, &attr);
        }
    }

    /// Takes a datagram queue pair from RESET to RTS.
    pub fn open(&mut self, port: Port, qkey: QKey) {
        for attr in setup::datagram_attributes(qkey) {
            self.modify(port, &attr);
        }
    }

    /// Makes an open datagram queue pair.
    pub fn datagram_qp(&mut self, host: usize, qkey: QKey) -> Port {
        let port = self.qp(host, Service::Ud);
        self.open(port, qkey);
        port
    }

    /// Modifies a queue pair; the attributes are legal.
    pub fn modify(&mut self, port: Port, attr: &QpAttr) {
        let modified = self.world.device(port.host).modify_qp(port.qp, attr);
        modified.expect("legal attributes");
    }

    /// Makes an address handle of one host for another.
    pub fn ah(&mut self, from: usize, to: usize) -> Ah {
        let pd = self.hosts[from].pd;
        self.ah_of(from, pd, to).expect("an address handle")
    }

    /// Makes an address handle in a protection domain.
    ///
    /// # Errors
    ///
    /// As `Backend::create_ah`.
    pub fn ah_of(&mut self, from: usize, pd: Pd, to: usize) -> Result<Ah, CreateError> {
        let address = self.vector(to);
        self.world.device(from).create_ah(pd, &address)
    }

    /// Returns the way to a host.
    pub fn vector(&self, to: usize) -> AddressVector {
        AddressVector {
            dgid: Gid::from_ip(address(self.setup.ipv6, to)),
            dlid: 0,
            sgid_index: 0,
            hop_limit: 33,
            traffic_class: 0x68,
            flow_label: 0,
            service_level: 0,
        }
    }

    /// Registers more memory of a host in its domain.
    pub fn register(&mut self, host: usize, len: usize, access: Access) -> (Region, Mr) {
        let region = Region::zeroed(len, 4096).expect("memory");
        let pd = self.hosts[host].pd;
        let mr = self.world.device(host).register(pd, &region, access);
        (region, mr.expect("a registration"))
    }

    /// Makes a shared receive queue in the host's domain.
    pub fn srq(&mut self, host: usize, max_wr: u32) -> Srq {
        let pd = self.hosts[host].pd;
        let made = self.world.device(host).create_srq(pd, max_wr, 4);
        made.expect("a shared receive queue")
    }

    /// Posts a receive of a piece of the host's memory to a shared receive queue.
    pub fn srq_recv(&mut self, host: usize, srq: Srq, wr_id: u64, at: (usize, u32)) {
        let sges = [self.hosts[host].sge(at)];
        let request = RecvWr { wr_id, sges: &sges };
        let posted = self.world.device(host).post_srq_recv(srq, &[request]);
        posted.expect("room for a receive");
    }

    /// Posts a receive of a piece of the host's memory.
    pub fn recv(&mut self, port: Port, wr_id: u64, at: (usize, u32)) {
        let sge = self.hosts[port.host].sge(at);
        self.recv_into(port, wr_id, sge);
    }

    /// Posts a receive of one piece, valid or not.
    pub fn recv_into(&mut self, port: Port, wr_id: u64, sge: Sge) {
        let sges = [sge];
        let request = RecvWr { wr_id, sges: &sges };
        let posted = self.world.device(port.host).post_recv(port.qp, &[request]);
        posted.expect("room for a receive");
    }

    /// Posts a signaled request over a piece of the host's memory.
    pub fn post(&mut self, port: Port, wr_id: u64, op: SendOp, at: (usize, u32)) {
        let posted = self.try_post(port, wr_id, op, at, SendFlags::SIGNALED);
        posted.expect("the request is legal");
    }

    /// Posts a request over a piece of the host's memory.
    ///
    /// # Errors
    ///
    /// As `Backend::post_send`.
    pub fn try_post(
        &mut self,
        port: Port,
        wr_id: u64,
        op: SendOp,
        at: (usize, u32),
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let sge = self.hosts[port.host].sge(at);
        self.post_sge(port, wr_id, op, sge, flags)
    }

    /// Posts a request over one piece, valid or not.
    ///
    /// # Errors
    ///
    /// As `Backend::post_send`.
    pub fn post_sge(
        &mut self,
        port: Port,
        wr_id: u64,
        op: SendOp,
        sge: Sge,
        flags: SendFlags,
    ) -> Result<(), PostError> {
        let sges = [sge];
        // What sends nothing has no bytes either.
        let payload = Payload::Sges(if op.is_local() { &[] } else { &sges });
        let request = SendWr {
            wr_id,
            op,
            payload,
            flags,
        };
        self.world.device(port.host).post_send(port.qp, &[request])
    }

    /// Returns a WRITE to a host's memory.
    pub fn write_to(&self, host: usize, offset: usize) -> SendOp {
        let mr = &self.hosts[host].mr;
        SendOp::Write {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
        }
    }

    /// Returns a WRITE with immediate data to a host's memory.
    pub fn write_imm_to(&self, host: usize, offset: usize, imm: [u8; 4]) -> SendOp {
        let mr = &self.hosts[host].mr;
        SendOp::WriteImm {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
            imm,
        }
    }

    /// Returns a READ from a host's memory.
    pub fn read_from(&self, host: usize, offset: usize) -> SendOp {
        let mr = &self.hosts[host].mr;
        SendOp::Read {
            addr: mr.addr + offset as u64,
            rkey: mr.rkey,
        }
    }

    /// Adds a scripted fault.
    pub fn rule(&mut self, rule: Rule) {
        self.world.net().add_rule(rule);
    }

    /// Runs until nothing can happen any more.
    ///
    /// # Panics
    ///
    /// Something still happens after ten virtual minutes.
    pub fn run(&mut self) {
        let ended = self.world.run_for(Duration::from_secs(600));
        assert_eq!(ended, Ended::Idle, "the world comes to rest");
    }

    /// Runs for this long at most.
    pub fn run_for(&mut self, time: Duration) -> Ended {
        self.world.run_for(time)
    }

    /// Takes the send completions of a queue pair.
    pub fn sent(&mut self, port: Port) -> Vec<Completion> {
        poll(&mut self.world, port.host, port.send_cq)
    }

    /// Takes the receive completions of a queue pair.
    pub fn received(&mut self, port: Port) -> Vec<Completion> {
        poll(&mut self.world, port.host, port.recv_cq)
    }

    /// Asserts the send completions of a queue pair, in order.
    pub fn expect_sent(&mut self, port: Port, expected: &[(u64, Status)]) {
        let found = outcomes(&self.sent(port));
        assert_eq!(found, expected, "send completions of host {}", port.host);
    }

    /// Asserts the receive completions of a queue pair, in order.
    pub fn expect_received(&mut self, port: Port, expected: &[(u64, Status)]) {
        let found = outcomes(&self.received(port));
        assert_eq!(found, expected, "receive completions of host {}", port.host);
    }

    /// Asserts the state of a queue pair.
    pub fn expect_state(&mut self, port: Port, state: QpState) {
        let info = self.world.device(port.host).query_qp(port.qp);
        assert_eq!(info.expect("the queue pair").state, state);
    }

    /// Takes the asynchronous events of a host.
    pub fn events(&mut self, host: usize) -> Vec<AsyncEvent> {
        let device = self.world.device(host);
        core::iter::from_fn(|| device.poll_event()).collect()
    }

    /// Returns the packets that a host sent so far.
    pub fn packets(&self, host: usize) -> Vec<Seen> {
        seen(&self.world, host)
    }

    /// Returns a counter of a host.
    pub fn counter(&mut self, host: usize, name: &str) -> u64 {
        counter(&mut self.world, host, name)
    }

    /// Asserts that a host's memory has these bytes at an offset.
    pub fn expect_bytes(&self, host: usize, offset: usize, expected: &[u8]) {
        let found = self.hosts[host].bytes(offset, expected.len());
        let first = found.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(first, None, "wrong byte behind {offset} of host {host}");
    }

    /// Asserts that a host's memory is as it was at first, but for these pieces (offset, length).
    pub fn expect_untouched_outside(&self, host: usize, changed: &[(usize, usize)]) {
        let region = &self.hosts[host].region;
        let mut found = vec![0; region.len()];
        region.read(0, &mut found);
        let mut expected = setup::pattern(host, region.len());
        for &(offset, len) in changed {
            expected[offset..offset + len].copy_from_slice(&found[offset..offset + len]);
        }
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(first, None, "byte of host {host} that nobody may change");
    }
}

impl Host {
    /// Returns a piece of the memory.
    pub fn sge(&self, (offset, length): (usize, u32)) -> Sge {
        Sge {
            addr: self.mr.addr + offset as u64,
            length,
            lkey: self.mr.lkey,
        }
    }

    /// Returns bytes of the memory as they are.
    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.read(offset, &mut bytes);
        bytes
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.world.net().trace());
        }
    }
}

/// Takes everything out of a completion queue.
///
/// # Panics
///
/// It overflowed.
pub fn poll(world: &mut World, host: usize, cq: Cq) -> Vec<Completion> {
    let mut all = Vec::new();
    let mut out = [Completion::default(); 32];
    loop {
        let count = world.device(host).poll_cq(cq, &mut out);
        let count = count.expect("a healthy CQ");
        all.extend_from_slice(&out[..count]);
        if count == 0 {
            return all;
        }
    }
}

/// Returns what a host's memory has at first.
pub fn pattern(host: usize, offset: usize, len: usize) -> Vec<u8> {
    setup::pattern(host, offset + len).split_off(offset)
}

/// Returns every right, to bind windows too.
pub fn every_right() -> Access {
    all_rights() | Access::MW_BIND
}

/// Packets that a failing test prints.
const TRACE: usize = 4000;
