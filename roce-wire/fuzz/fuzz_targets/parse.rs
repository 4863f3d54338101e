//! Any bytes are read as a packet or a frame, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roce_tests::fuzzing::wire::parse(bytes));
