//! libFuzzer's way into `dance_fuzz::results`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dance_fuzz::results(bytes));
