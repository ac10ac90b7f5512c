//! The neighbor search alone, for `benchmarks/neighbors.py`: reads `reference.npy` and `queries.npy` from a folder, prints
//! the best of three times in seconds, and writes `neighbors.u32` there.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use dance::Error;
use dance::backend::{Backend, Cpu};
use dance::io::{self, ReadOptions};
use dance::neighbors::Reference;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, k, threads] = &args[..] else {
        return Err(Box::new(Error::Data("usage: search FOLDER NEIGHBORS THREADS".into())));
    };
    let (folder, k) = (Path::new(folder), k.parse()?);
    let backend = Cpu::new(threads.parse()?)?;
    let read = |name: &str| io::read(&folder.join(name), &ReadOptions::default());
    let reference = Reference::new(read("reference.npy")?.embeddings);
    let queries = read("queries.npy")?.embeddings;
    let mut best = f64::INFINITY;
    let mut ids: Vec<u8> = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let found = backend.neighbors(&reference, &queries, k, None)?;
        best = best.min(start.elapsed().as_secs_f64());
        ids = (0..found.len()).flat_map(|query| found.ids(query)).flat_map(|id| id.to_le_bytes()).collect();
    }
    std::fs::write(folder.join("neighbors.u32"), ids)?;
    writeln!(std::io::stdout(), "{best}")?;
    Ok(())
}
