//! The binary `dance`.
fn main() {}
