#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| coop_lab::fuzz::components(bytes));
