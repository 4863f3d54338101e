//! The table of opcodes: one row each, from which constants, names and facts are made.

use super::{HeaderSet, Opcode, OpcodeInfo, Operation, Position, Transport};

macro_rules! opcodes {
    ($($value:literal $name:ident $transport:ident $operation:ident $position:ident
        [$($header:ident)*] $payload:ident $direction:ident;)*) => {
        impl Opcode {
            $(
                #[doc = concat!("Opcode ", stringify!($value), ".")]
                pub const $name: Self = Self($value);
            )*

            /// All defined opcodes, in the order of their values.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }

        pub(super) const fn name(opcode: Opcode) -> Option<&'static str> {
            match opcode {
                $(Opcode::$name => Some(stringify!($name)),)*
                _ => None,
            }
        }

        pub(super) static INFO: [Option<OpcodeInfo>; 256] = {
            let mut table = [None; 256];
            $(
                table[$value] = Some(OpcodeInfo {
                    transport: Transport::$transport,
                    operation: Operation::$operation,
                    position: Position::$position,
                    headers: HeaderSet::NONE$(.and(HeaderSet::$header))*,
                    has_payload: flag!($payload),
                    is_request: flag!($direction),
                });
            )*
            table
        };
    };
}

macro_rules! flag {
    (data) => {
        true
    };
    (bare) => {
        false
    };
    (request) => {
        true
    };
    (response) => {
        false
    };
}

#[rustfmt::skip]
opcodes! {
    0x00 RC_SEND_FIRST                Rc Send First                  []                  data request;
    0x01 RC_SEND_MIDDLE               Rc Send Middle                 []                  data request;
    0x02 RC_SEND_LAST                 Rc Send Last                   []                  data request;
    0x03 RC_SEND_LAST_WITH_IMM        Rc Send Last                   [IMM]               data request;
    0x04 RC_SEND_ONLY                 Rc Send Only                   []                  data request;
    0x05 RC_SEND_ONLY_WITH_IMM        Rc Send Only                   [IMM]               data request;
    0x06 RC_RDMA_WRITE_FIRST          Rc Write First                 [RETH]              data request;
    0x07 RC_RDMA_WRITE_MIDDLE         Rc Write Middle                []                  data request;
    0x08 RC_RDMA_WRITE_LAST           Rc Write Last                  []                  data request;
    0x09 RC_RDMA_WRITE_LAST_WITH_IMM  Rc Write Last                  [IMM]               data request;
    0x0a RC_RDMA_WRITE_ONLY           Rc Write Only                  [RETH]              data request;
    0x0b RC_RDMA_WRITE_ONLY_WITH_IMM  Rc Write Only                  [RETH IMM]          data request;
    0x0c RC_RDMA_READ_REQUEST         Rc ReadRequest Only            [RETH]              bare request;
    0x0d RC_RDMA_READ_RESPONSE_FIRST  Rc ReadResponse First          [AETH]              data response;
    0x0e RC_RDMA_READ_RESPONSE_MIDDLE Rc ReadResponse Middle         []                  data response;
    0x0f RC_RDMA_READ_RESPONSE_LAST   Rc ReadResponse Last           [AETH]              data response;
    0x10 RC_RDMA_READ_RESPONSE_ONLY   Rc ReadResponse Only           [AETH]              data response;
    0x11 RC_ACKNOWLEDGE               Rc Acknowledge Only            [AETH]              bare response;
    0x12 RC_ATOMIC_ACKNOWLEDGE        Rc AtomicAcknowledge Only      [AETH ATOMIC_ACK]   bare response;
    0x13 RC_CMP_SWAP                  Rc CompareSwap Only            [ATOMIC]            bare request;
    0x14 RC_FETCH_ADD                 Rc FetchAdd Only               [ATOMIC]            bare request;
    0x16 RC_SEND_LAST_WITH_INV        Rc Send Last                   [IETH]              data request;
    0x17 RC_SEND_ONLY_WITH_INV        Rc Send Only                   [IETH]              data request;
    0x1c RC_FLUSH                     Rc Flush Only                  [FETH RETH]         bare request;
    0x1d RC_ATOMIC_WRITE              Rc AtomicWrite Only            [RETH]              data request;

    0x20 UC_SEND_FIRST                Uc Send First                  []                  data request;
    0x21 UC_SEND_MIDDLE               Uc Send Middle                 []                  data request;
    0x22 UC_SEND_LAST                 Uc Send Last                   []                  data request;
    0x23 UC_SEND_LAST_WITH_IMM        Uc Send Last                   [IMM]               data request;
    0x24 UC_SEND_ONLY                 Uc Send Only                   []                  data request;
    0x25 UC_SEND_ONLY_WITH_IMM        Uc Send Only                   [IMM]               data request;
    0x26 UC_RDMA_WRITE_FIRST          Uc Write First                 [RETH]              data request;
    0x27 UC_RDMA_WRITE_MIDDLE         Uc Write Middle                []                  data request;
    0x28 UC_RDMA_WRITE_LAST           Uc Write Last                  []                  data request;
    0x29 UC_RDMA_WRITE_LAST_WITH_IMM  Uc Write Last                  [IMM]               data request;
    0x2a UC_RDMA_WRITE_ONLY           Uc Write Only                  [RETH]              data request;
    0x2b UC_RDMA_WRITE_ONLY_WITH_IMM  Uc Write Only                  [RETH IMM]          data request;

    0x64 UD_SEND_ONLY                 Ud Send Only                   [DETH]              data request;
    0x65 UD_SEND_ONLY_WITH_IMM        Ud Send Only                   [DETH IMM]          data request;

    0x81 CNP                          Cnp Cnp Only                   []                  data response;
}
