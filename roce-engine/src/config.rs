//! What an engine is made with. Every limit is here; nothing grows beyond it afterwards.

/// Capacities and policies of an engine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineConfig {
    /// Seeds the first QPNs and memory keys, so that those of an earlier process are not valid.
    pub seed: u64,
    /// The most QPs. At most 16384: their index has 14 bits of the QPN.
    pub max_qp: u32,
    /// The most send or receive requests of a QP.
    pub max_qp_wr: u32,
    /// The most pieces of a work request.
    pub max_sge: u32,
    /// The most completion queues.
    pub max_cq: u32,
    /// The most entries of a completion queue.
    pub max_cqe: u32,
    /// The most memory regions.
    pub max_mr: u32,
    /// The most protection domains.
    pub max_pd: u32,
    /// The most READs and atomics that a QP has outstanding, and answers, at once.
    pub max_rd_atomic: u8,
    /// The most shared receive queues.
    pub max_srq: u32,
    /// The most address handles.
    pub max_ah: u32,
    /// The most bytes of inline data.
    pub max_inline: u32,
    /// Packets that a QP may have unacknowledged before the first acknowledgement.
    pub window_start: u32,
    /// Packets that a QP may ever have unacknowledged.
    pub window_max: u32,
    /// Bytes that a QP may ever have unacknowledged; the smaller of the two limits counts.
    pub window_max_bytes: u32,
    /// Packets that all QPs to one peer together may have unacknowledged.
    pub peer_window_max: u32,
    /// Packets that a QP may send before the next QP's turn.
    pub quantum: u32,
    /// The most asynchronous events that wait to be taken; later ones are counted and dropped.
    pub max_events: usize,
    /// A plain ACK waits one turn for a request that shares its system call.
    pub defer_acks: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            max_qp: 16384,
            max_qp_wr: 32768,
            max_sge: 32,
            max_cq: 65536,
            max_cqe: 1 << 22,
            max_mr: 1 << 16,
            max_pd: 1024,
            max_rd_atomic: 16,
            max_srq: 4096,
            max_ah: 16384,
            max_inline: 1024,
            // What a default socket buffer (212,992 bytes) holds without loss: see docs/architecture.md.
            window_start: 64,
            window_max: 512,
            window_max_bytes: 1 << 20,
            peer_window_max: 1024,
            // One full GSO batch.
            quantum: 64,
            max_events: 256,
            defer_acks: true,
        }
    }
}
