//! What was read is written back, sealed and walked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| roce_tests::fuzzing::wire::reparse(bytes));
