//! The neighbor search alone, for `benchmarks/neighbors.py`: reads `reference.npy` and `queries.npy` from a folder, prints
//! the best of three times in seconds, and writes `neighbors.u32` there.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use dance::data::io::{self, ReadOptions};
use dance::device::Cpu;
use dance::neighbors::Index;
use dance::{Context, Error};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, k, threads] = &args[..] else {
        return Err(Box::new(Error::Data("usage: search FOLDER NEIGHBORS THREADS".into())));
    };
    let (folder, k) = (Path::new(folder), k.parse()?);
    let context = Context::new(threads.parse()?)?;
    let read = |name: &str| io::read(folder.join(name), &ReadOptions::default());
    let reference = read("reference.npy")?.embeddings().clone();
    let index = Index::open(&Cpu, reference, &context)?;
    let queries = read("queries.npy")?;
    let mut best = f64::INFINITY;
    let mut ids: Vec<u8> = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let found = index.search(queries.embeddings(), k, &context)?;
        best = best.min(start.elapsed().as_secs_f64());
        ids = (0..found.len()).flat_map(|query| found.ids(query)).flat_map(|id| id.to_le_bytes()).collect();
    }
    std::fs::write(folder.join("neighbors.u32"), ids)?;
    writeln!(std::io::stdout(), "{best}")?;
    Ok(())
}
