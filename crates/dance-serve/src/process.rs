//! Metrics of the process and of what it serves, which are read when they are asked for. Their names are those of
//! every Prometheus client.

use std::fmt::Write;

use crate::served::ModelName;

/// The names of these metrics.
#[cfg(test)]
pub(crate) const NAMES: [&str; 9] = [
    "dance_build_info",
    "dance_model_info",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_threads",
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
];

/// Returns the metrics as text. Other systems than Linux have fewer.
pub(crate) fn metrics(model: &ModelName) -> String {
    let mut text = String::new();
    let mut write = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n\n");
    };
    let build = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    write("dance_build_info", "gauge", "1, with the version of the server", &build, 1.0);
    let ModelName { name, version, hash } = model;
    let labels = format!("{{name=\"{}\",version=\"{}\",hash=\"{hash}\"}}", escape(name), escape(version));
    write("dance_model_info", "gauge", "1, with the name, version and hash of the served model", &labels, 1.0);
    #[cfg(target_os = "linux")]
    if let Some(process) = linux::Process::read() {
        let linux::Process { start, cpu, threads, virtual_bytes, resident, open, most } = process;
        write("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970", "", start);
        write("process_cpu_seconds_total", "counter", "CPU time, in seconds", "", cpu);
        write("process_threads", "gauge", "Threads", "", threads);
        write("process_virtual_memory_bytes", "gauge", "Virtual memory, in bytes", "", virtual_bytes);
        write("process_resident_memory_bytes", "gauge", "Resident memory, in bytes", "", resident);
        write("process_open_fds", "gauge", "Open files and connections", "", open);
        write("process_max_fds", "gauge", "The most open files and connections", "", most);
    }
    text
}

/// Returns the value of a label in the text format.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::param::{clock_ticks_per_second, page_size};
    use rustix::process::{Resource, getrlimit};

    /// The state of this process.
    pub(super) struct Process {
        pub(super) start: f64,
        pub(super) cpu: f64,
        pub(super) threads: f64,
        pub(super) virtual_bytes: f64,
        pub(super) resident: f64,
        pub(super) open: f64,
        pub(super) most: f64,
    }

    impl Process {
        /// Reads the state from `/proc`, where there is one.
        pub(super) fn read() -> Option<Self> {
            let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
            // The name of the program, in parentheses, may contain spaces. The fields after it begin with number 3.
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
            let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
            let ticks = clock_ticks_per_second() as f64;
            let system = std::fs::read_to_string("/proc/stat").ok()?;
            let boot = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()?;
            Some(Self {
                start: boot + field(22)? / ticks,
                cpu: (field(14)? + field(15)?) / ticks,
                threads: field(20)?,
                virtual_bytes: field(23)?,
                resident: field(24)? * page_size() as f64,
                open: std::fs::read_dir("/proc/self/fd").ok()?.count() as f64,
                most: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) as f64,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_every_metric_once() {
        let model = ModelName { name: "a \"b\"".into(), version: "1".into(), hash: "0f".into() };
        let text = metrics(&model);
        assert!(text.contains("dance_model_info{name=\"a \\\"b\\\"\",version=\"1\",hash=\"0f\"} 1\n"), "{text}");
        if cfg!(target_os = "linux") {
            for name in NAMES {
                assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name}: {text}");
            }
            let value = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
                line.parse::<f64>().unwrap()
            };
            assert!(value("process_resident_memory_bytes") > 1e6 && value("process_threads") >= 1.0);
            assert!(value("process_start_time_seconds") > 1.6e9 && value("process_open_fds") >= 3.0);
        }
    }
}
