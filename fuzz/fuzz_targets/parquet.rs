#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dance_fuzz::parquet(bytes));
