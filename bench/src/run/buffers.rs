//! The memory of a run: perftest's layout, and rings of separate places where content is checked.

use anyhow::Result;
use roce_engine::verbs::{Access, Backend, LKey, Mr, Pd, Psn, RKey, Region, Service, Sge};

use super::flow::GRH;
use super::hugepages;
use super::pattern::{FILLER, Pattern};
use super::ring::Ring;
use crate::exit::environment;
use crate::spec::{Metric, Op, Spec};

/// Memory that the separate places of a verified run may take, all QPs together.
const VERIFY_BUDGET: u64 = 256 << 20;

/// What both ends agreed on before memory is laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Agreed {
    /// The larger page size of the two: the cycle buffer.
    pub cycle: u64,
    /// The larger cache line of the two.
    pub line: u64,
}

/// Where the local bytes of a QP's messages are.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The memory.
    pub region: Region,
    lkey: LKey,
    base: usize,
    ring: Ring,
}

impl Lane {
    /// Returns where message `number` starts in the region.
    #[inline]
    pub const fn offset(&self, number: u64) -> usize {
        self.base + self.ring.offset(number) as usize
    }

    /// Returns the piece of memory of message `number`.
    #[inline]
    pub fn sge(&self, number: u64, length: u32) -> Sge {
        Sge {
            addr: self.region.addr() + self.offset(number) as u64,
            length,
            lkey: self.lkey,
        }
    }
}

/// All memory of a run.
#[derive(Debug)]
pub struct Buffers {
    // One for all QPs, or one for each.
    main: Vec<(Region, Mr)>,
    // As many, or none.
    rings: Vec<(Region, Mr)>,
    shape: Shape,
}

/// Sizes and places, in bytes from the start of the regions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    agreed: Agreed,
    qps: u64,
    // QPs that share a region: all of them, or one.
    sharing: u64,
    post_list: u64,
    bandwidth: bool,
    // What is in front of each received message: perftest puts datagrams at the start of a cache line.
    head: u64,
    // In each region one slot per QP for what is sent, then one per QP for what the peer reaches.
    local_slot: u64,
    target_slot: u64,
    // Verified runs only: the places of each QP.
    stride: u64,
    tx_depth: u64,
    rx_depth: u64,
}

impl Shape {
    fn new(spec: &Spec, agreed: Agreed) -> Self {
        let Agreed { cycle, line } = agreed;
        let slot = spec.size.max(cycle).next_multiple_of(line);
        let head = if spec.service == Service::Ud {
            u64::from(GRH).next_multiple_of(line)
        } else {
            0
        };
        // As perftest's, by our -s: a peer with a longer one is told so by its completion.
        let target_slot = slot + head;
        let qps = u64::from(spec.qps);
        let post_list = u64::from(spec.post_list);
        let stride = spec.size.next_multiple_of(line.max(8)) + head;
        let places = (VERIFY_BUDGET / stride.saturating_mul(qps)).max(1);
        let fitting = |depth: u32| {
            if spec.verify {
                u64::from(depth).min(places)
            } else {
                u64::from(depth)
            }
        };
        Self {
            agreed,
            qps,
            sharing: if spec.qp.mr_per_qp { 1 } else { qps },
            post_list,
            bandwidth: spec.test.is_bandwidth(),
            head,
            local_slot: slot,
            target_slot,
            stride,
            tx_depth: fitting(spec.tx_depth).max(post_list),
            rx_depth: fitting(spec.rx_depth),
        }
    }

    fn main_bytes(&self) -> Option<usize> {
        let bytes = self
            .local_slot
            .checked_add(self.target_slot)?
            .checked_mul(self.sharing)?;
        usize::try_from(bytes).ok()
    }

    fn ring_bytes(&self) -> Option<usize> {
        let places = (self.tx_depth + self.rx_depth).checked_mul(self.sharing)?;
        usize::try_from(self.stride.checked_mul(places)?).ok()
    }

    const fn regions(&self) -> u64 {
        self.qps.div_ceil(self.sharing)
    }

    const fn region_of(&self, qp: usize) -> usize {
        (qp as u64 / self.sharing) as usize
    }

    // Its place among those that share its region.
    const fn place(&self, qp: usize) -> u64 {
        qp as u64 % self.sharing
    }

    const fn local(&self, qp: usize) -> usize {
        (self.place(qp) * self.local_slot) as usize
    }

    const fn target(&self, qp: usize) -> usize {
        (self.sharing * self.local_slot + self.place(qp) * self.target_slot) as usize
    }

    const fn walk(&self, size: u64) -> Ring {
        if self.bandwidth {
            Ring::walk(size, self.agreed.cycle, self.agreed.line, self.post_list)
        } else {
            Ring::FIXED
        }
    }
}

impl Buffers {
    /// Allocates and registers the memory of a run.
    ///
    /// # Errors
    ///
    /// The system has no such memory, or the device does not register it.
    pub fn new<B: Backend>(backend: &mut B, pd: Pd, spec: &Spec, agreed: Agreed) -> Result<Self> {
        let shape = Shape::new(spec, agreed);
        let remote = match spec.test.op {
            Op::Write | Op::Send => Access::REMOTE_WRITE,
            Op::Read => Access::REMOTE_WRITE | Access::REMOTE_READ,
            Op::Atomic => Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
        };
        let ordering = if spec.relaxes_ordering() && backend.device().relaxed_ordering {
            Access::RELAXED_ORDERING
        } else {
            Access::NONE
        };
        let mut make = |bytes: Option<usize>, access| {
            let region = |_| {
                let region = allocate(bytes, spec, agreed)?;
                let mr = backend
                    .register(pd, &region, access | ordering)
                    .map_err(|error| {
                        environment(format!("register {} bytes: {error}", region.len()))
                    })?;
                Ok((region, mr))
            };
            (0..shape.regions()).map(region).collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            main: make(shape.main_bytes(), Access::LOCAL_WRITE | remote)?,
            rings: if spec.verify {
                make(shape.ring_bytes(), Access::LOCAL_WRITE)?
            } else {
                Vec::new()
            },
            shape,
        })
    }

    /// Gives the memory its first content: the pattern where a peer's READs are checked, for write-lat zeros
    /// where the peer writes (its receivers poll them) and [`FILLER`] in what is sent, random bytes in what else
    /// is sent or read. What is only written to gets zeros, so that the kernel brings its pages now and not while
    /// packets wait; what the run does not touch is left alone.
    pub fn fill(&self, spec: &Spec, psns: &[Psn]) {
        if (spec.test.op, spec.test.metric) == (Op::Write, Metric::Latency) {
            let sent = self.tx(0, spec.size);
            let bytes = spec.size.min(self.shape.local_slot) as usize;
            sent.region.fill(sent.base, bytes, FILLER);
            return;
        }
        let target = usize::try_from(self.shape.target_slot).unwrap_or(0);
        let local = usize::try_from(self.shape.local_slot).unwrap_or(0);
        let noise = Noise::new();
        for (qp, psn) in psns.iter().enumerate() {
            let region = &self.main(qp).0;
            let ours = self.shape.local(qp);
            match spec.test.op {
                _ if !spec.is_requester() => {}
                Op::Write | Op::Send => noise.fill(region, ours, local),
                Op::Read | Op::Atomic => region.fill(ours, local, 0),
            }
            let start = self.shape.target(qp);
            match spec.test.op {
                _ if spec.test.is_bandwidth() && spec.is_requester() && !spec.bidirectional => {}
                Op::Read if spec.verify => {
                    Pattern::memory(*psn).fill(0, region, start, target);
                }
                Op::Read | Op::Atomic => noise.fill(region, start, target),
                Op::Write | Op::Send => region.fill(start, target, 0),
            }
        }
    }

    /// Returns where the messages of `size` bytes that QP `qp` sends or fetches are.
    pub fn tx(&self, qp: usize, size: u64) -> Lane {
        let shape = &self.shape;
        match self.rings.get(shape.region_of(qp)) {
            Some(ring) => lane(
                ring,
                (shape.place(qp) * shape.tx_depth * shape.stride) as usize,
                Ring::distinct(shape.stride, shape.tx_depth),
            ),
            None => lane(self.main(qp), shape.local(qp), shape.walk(size)),
        }
    }

    /// Returns where messages of `size` bytes that QP `qp` receives go.
    pub fn rx(&self, qp: usize, size: u64) -> Lane {
        let shape = &self.shape;
        match self.rings.get(shape.region_of(qp)) {
            Some(ring) => {
                let before = shape.sharing * shape.tx_depth + shape.place(qp) * shape.rx_depth;
                lane(
                    ring,
                    (before * shape.stride + shape.head) as usize,
                    Ring::distinct(shape.stride, shape.rx_depth),
                )
            }
            None => lane(
                self.main(qp),
                shape.target(qp) + shape.head as usize,
                shape.walk(size),
            ),
        }
    }

    /// Returns what the peer of QP `qp` may reach, whole.
    pub fn target(&self, qp: usize) -> Lane {
        lane(self.main(qp), self.shape.target(qp), Ring::FIXED)
    }

    /// Returns how a peer's messages of `size` bytes walk through what it may reach.
    pub const fn walk(&self, size: u64) -> Ring {
        self.shape.walk(size)
    }

    /// Returns the address that the peer of QP `qp` is told.
    pub fn vaddr(&self, qp: usize) -> u64 {
        self.main(qp).0.addr() + self.shape.target(qp) as u64
    }

    /// Returns the key that the peer of QP `qp` is told.
    pub fn rkey(&self, qp: usize) -> RKey {
        self.main(qp).1.rkey
    }

    fn main(&self, qp: usize) -> &(Region, Mr) {
        &self.main[self.shape.region_of(qp)]
    }

    /// Returns how many requests of a QP may be outstanding: with `--verify` each has its own memory.
    pub const fn tx_depth(&self) -> u64 {
        self.shape.tx_depth
    }

    /// Returns how many receives of a QP are posted.
    pub const fn rx_depth(&self) -> u64 {
        self.shape.rx_depth
    }
}

fn lane((region, mr): &(Region, Mr), base: usize, ring: Ring) -> Lane {
    Lane {
        region: region.clone(),
        lkey: mr.lkey,
        base,
        ring,
    }
}

/// Takes zeroed memory from the system, in huge pages if they are asked for.
fn allocate(bytes: Option<usize>, spec: &Spec, agreed: Agreed) -> Result<Region> {
    let bytes = bytes.ok_or_else(|| no_memory(None, spec))?;
    if spec.qp.hugepages {
        return hugepages::zeroed(bytes);
    }
    Region::zeroed(bytes, agreed.cycle as usize).ok_or_else(|| no_memory(Some(bytes), spec))
}

/// Random bytes, drawn once and repeated: gigabytes are filled as fast as they are copied.
struct Noise(Vec<u8>);

impl Noise {
    /// Bytes that are not repeated.
    const LEN: usize = 1 << 20;

    fn new() -> Self {
        let mut bytes = vec![0; Self::LEN];
        fastrand::fill(&mut bytes);
        Self(bytes)
    }

    fn fill(&self, region: &Region, offset: usize, len: usize) {
        for start in (0..len).step_by(self.0.len()) {
            let bytes = self.0.len().min(len - start);
            region.write(offset + start, &self.0[..bytes]);
        }
    }
}

fn no_memory(bytes: Option<usize>, spec: &Spec) -> anyhow::Error {
    let amount = bytes.map_or_else(
        || String::from("more than the address space"),
        |bytes| format!("{bytes} bytes"),
    );
    environment(format!(
        "no memory for the buffers ({amount}, for each of -q {} QPs two slots of at least -s {} bytes): use smaller ones",
        spec.qps, spec.size
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Test;

    const AGREED: Agreed = Agreed {
        cycle: 4096,
        line: 64,
    };

    fn shape(change: impl FnOnce(&mut Spec)) -> Shape {
        let mut spec = Spec::new(Test::new(Op::Send, Metric::Bandwidth));
        change(&mut spec);
        Shape::new(&spec, AGREED)
    }

    #[test]
    fn slots_are_as_long_as_our_longest_message() {
        let passive = shape(|spec| spec.qps = 3);
        assert_eq!((passive.local_slot, passive.target_slot), (65_536, 65_536));
        assert_eq!(passive.target(1), 4 * 65_536);
        let small = shape(|spec| {
            spec.size = 64;
            spec.qps = 16_384;
        });
        assert_eq!(small.main_bytes(), Some(128 << 20));
        let client = shape(|spec| {
            spec.role = crate::spec::Role::Client {
                host: String::new(),
            };
            spec.size = 100;
        });
        assert_eq!((client.local_slot, client.target_slot), (4096, 4096));
    }

    #[test]
    fn noise_fills_exactly_what_it_should() {
        let noise = Noise::new();
        let region = Region::zeroed(3 * Noise::LEN, 64).unwrap();
        noise.fill(&region, 64, 2 * Noise::LEN + 5);
        let mut bytes = vec![0; region.len()];
        region.read(0, &mut bytes);
        assert_eq!(bytes[..64], [0; 64]);
        assert_eq!(bytes[64..64 + Noise::LEN], noise.0);
        let end = 64 + 2 * Noise::LEN + 5;
        assert_eq!(bytes[end - 5..end], noise.0[..5]);
        assert!(bytes[end..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn verified_places_stay_in_their_budget() {
        let plain = shape(|spec| spec.size = 8 << 20);
        assert_eq!((plain.tx_depth, plain.rx_depth), (128, 512));
        let verified = shape(|spec| {
            spec.size = 8 << 20;
            spec.verify = true;
        });
        assert_eq!((verified.tx_depth, verified.rx_depth), (32, 32));
        let huge = shape(|spec| {
            spec.size = 1 << 31;
            spec.verify = true;
        });
        assert_eq!((huge.tx_depth, huge.rx_depth), (1, 1));
    }

    #[test]
    fn a_region_of_its_own_has_the_slots_of_one_qp() {
        let own = shape(|spec| {
            spec.qps = 3;
            spec.qp.mr_per_qp = true;
        });
        assert_eq!((own.regions(), own.region_of(2)), (3, 2));
        assert_eq!((own.local(2), own.target(2)), (0, 65_536));
        assert_eq!(own.main_bytes(), Some(2 * 65_536));
        let shared = shape(|spec| spec.qps = 3);
        assert_eq!((shared.regions(), shared.region_of(2)), (1, 0));
        assert_eq!(shared.main_bytes(), own.main_bytes().map(|bytes| 3 * bytes));
    }

    #[test]
    fn sizes_beyond_memory_are_no_number() {
        let shape = shape(|spec| {
            spec.size = u64::MAX / 4;
            spec.qps = 16;
        });
        assert_eq!(shape.main_bytes(), None);
    }
}
