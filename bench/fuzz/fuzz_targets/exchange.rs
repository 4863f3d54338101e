//! Any bytes of a peer end the exchange in a value or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roce_tests::fuzzing::exchange::exchange(bytes));
