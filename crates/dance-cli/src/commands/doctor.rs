//! `dance doctor`: what this machine offers, what is missing, and how to get it.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dance::device::{self, Cpu, Device, DeviceChoice};
use dance::human_bytes;
use dance_page::terminal;
use dance_page::text::paragraph;
use serde_json::json;

use crate::args::Shared;

pub(crate) const EXAMPLE: &str = "Example:
  dance doctor
  dance doctor --json

Nothing is changed, and the exit status is 0 whatever is missing.";

#[derive(Args, Debug)]
pub(crate) struct Doctor {}

/// The parts of this machine and of this program that commands need.
struct Report {
    /// Optional parts of the program that it was built without.
    left_out: Vec<&'static str>,
    threads: usize,
    cores: usize,
    free_memory: Option<u64>,
    /// Each device with its model, and its memory in bytes where it is known.
    devices: Vec<(DeviceChoice, String, Option<u64>)>,
    why_not_cuda: Option<String>,
    /// The library of ONNX Runtime, or why it was not found and how to get it.
    runtime: Result<PathBuf, String>,
}

impl Doctor {
    pub(crate) fn run(shared: &Shared) -> anyhow::Result<()> {
        let parts = [
            ("cuda", cfg!(feature = "cuda")),
            ("embed", cfg!(feature = "embed")),
            ("parquet", cfg!(feature = "parquet")),
            ("serve", cfg!(feature = "serve")),
        ];
        let (devices, why_not_cuda) = device::list();
        let report = Report {
            left_out: parts.iter().filter(|part| !part.1).map(|part| part.0).collect(),
            threads: dance::Context::new(shared.threads)?.threads(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            free_memory: Cpu.free_bytes(),
            devices,
            why_not_cuda,
            runtime: runtime(),
        };
        let mut out = terminal::stdout(shared.json);
        if shared.json {
            writeln!(out, "{}", report.json())?;
        } else {
            report.write(&mut out)?;
        }
        Ok(())
    }
}

impl Report {
    fn json(&self) -> serde_json::Value {
        let device = |(choice, model, memory): &(DeviceChoice, String, Option<u64>)| {
            let name = choice.to_string();
            json!({ "device": name, "model": model, "memory": memory })
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "system": format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            "built_without": self.left_out,
            "threads": self.threads,
            "cores": self.cores,
            "free_memory": self.free_memory,
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
            "why_not_cuda": self.why_not_cuda,
            "onnx_runtime": self.runtime.as_ref().ok(),
            "why_not_onnx_runtime": self.runtime.as_ref().err(),
        })
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut line = |name: &str, text: &str| writeln!(out, "{}", paragraph(&format!("{name:<14}"), text));
        let system = format!("{} on {}, {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
        line("dance", &system)?;
        if !self.left_out.is_empty() {
            let list = self.left_out.join(",");
            line("", &format!("built without {list}; build with --features {list} to have them"))?;
        }
        let more = if self.threads < self.cores { "; --threads 0 uses all" } else { "" };
        line("threads", &format!("{} of {} cores{more}", self.threads, self.cores))?;
        let memory = self.free_memory.map_or("unknown on this system".into(), |bytes| human_bytes(bytes) + " free");
        line("memory", &memory)?;
        for (choice, model, memory) in &self.devices {
            let memory = memory.map(|bytes| format!(", {}", human_bytes(bytes))).unwrap_or_default();
            line("device", &format!("{choice}: {model}{memory}"))?;
        }
        if let Some(why) = &self.why_not_cuda {
            line("", &format!("no graphics processor is used: {why}"))?;
        }
        match &self.runtime {
            Ok(path) => line("ONNX Runtime", &path.display().to_string()),
            Err(why) => {
                line("ONNX Runtime", "missing; only `dance embed`, `predict --embed` and `serve --encoder` need it")?;
                line("", why)
            }
        }
    }
}

#[cfg(feature = "embed")]
fn runtime() -> Result<PathBuf, String> {
    dance_embed::runtime::find(None).map_err(|error| error.to_string())
}

#[cfg(not(feature = "embed"))]
fn runtime() -> Result<PathBuf, String> {
    Err("this program was built without `embed`, so it cannot run encoders".into())
}
