//! The engine keeps its promises whatever arrives.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roce_tests::fuzzing::engine::receive(bytes));
