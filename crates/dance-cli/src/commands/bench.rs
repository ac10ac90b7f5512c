//! `dance bench`: methods on data sets by the paper's protocol, with tables on stdout and a report in a folder.

use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use dance::machine;
use dance_bench::experiment::{self, Ablation, Method, Plan, Results};
use dance_bench::report::{self, tables};

use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns};
use crate::progress::Progress;
use dance_page::table::Table;
use dance_page::text::paragraph;

pub(crate) const EXAMPLE: &str = "Example:\n  dance bench pets.npz dtd.npz --alpha 0.1,0.05 --seeds 5 -o results\n  \
    dance bench pets.npz --methods dance,knn-set,aps --ablate mix,reference\n\n\
    Fits once per data set and seed. The same command continues a run that was stopped.";

/// The values of `--probabilities`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Probabilities {
    /// Calibrated on validation points, so that 0.8 means right about 80 % of the time
    Calibrated,
    /// Clamped and divided by their sum, as in the paper
    Clamp,
}

#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// Data sets with labels: .npz, .safetensors, .csv, .tsv, .parquet or .jsonl
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// Error levels
    #[arg(
        long, value_delimiter = ',', default_values_t = [0.1, 0.05], value_name = "A,B…", allow_hyphen_values = true
    )]
    alpha: Vec<f64>,
    /// Number of seeds, counted from --seed
    #[arg(long, default_value_t = 5, value_name = "N")]
    seeds: usize,
    /// Methods to compare: dance, knn-set, clr-set, dance-split, fuse, posterior, posterior-split,
    /// deep-knn, confine, lac, aps, raps, saps,
    /// aps-deterministic, raps-deterministic, saps-deterministic, logistic-regression, class-wise, clustered, rc3p,
    /// pas, interp-q, pas-interp-q, fca, ncp-raps, conf-ot-aps, conf-ot-raps
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    methods: Vec<Method>,
    /// Settings to vary: mix, rank-neighbors, contrast-neighbors, reference
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    ablate: Vec<Ablation>,
    /// Draw a long-tailed subset of every data set for every seed: class frequencies proportional to rank^-S, with
    /// random ranks
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    zipf: Option<f64>,
    /// Use the paper's protocol: no refit on validation points, clamped probabilities, stratified parts
    #[arg(long)]
    paper: bool,
    /// Source of the kernel's class probabilities: calibrated on validation points, or clamped as in the paper
    /// [default: calibrated]
    #[arg(long, value_enum, value_name = "HOW")]
    probabilities: Option<Probabilities>,
    /// Settings to try in each search for bandwidth and shape
    #[arg(long, default_value_t = 25, value_name = "N")]
    evaluations: usize,
    /// Folder for results.json, tables.md, tables.csv and report.html; a run with the same settings is continued
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    files: LabelColumns,
}

impl Bench {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let plan = self.plan(shared);
        plan.check()?;
        let _alone = self.lock()?;
        let mut results = self.resume(plan)?;
        let keep = self.output.as_ref().map(|folder| folder.join("results.json"));
        let total = self.data.len() * self.seeds;
        let known = results.cases.len();
        let count = std::cell::Cell::new(known);
        let progress = Progress::new(shared);
        if known > 0 {
            progress.note(&format!("continuing: {known} fits are finished already"));
        }
        let begins = |name: &str, seed: u64| {
            count.set(count.get() + 1);
            progress.note(&format!("[{}/{total}] {name}, seed {seed}", count.get()));
        };
        let context = shared.context(&progress)?;
        let options = self.columns().options();
        experiment::run(shared.device()?, &self.data, &options, &mut results, keep.as_deref(), &begins, &context)?;
        progress.finish();
        // Files are written before anything is printed, because the reader of stdout may close it.
        if let Some(folder) = &self.output {
            report::write(&results, folder)?;
        }
        self.show(&results, shared)?;
        if !results.failures.is_empty() {
            let lines = results.failures.iter().map(|failure| format!("\n  {}: {}", failure.data, failure.problem));
            let count = results.failures.len();
            bail!("{count} of {} data sets could not be used:{}", self.data.len(), lines.collect::<String>());
        }
        Ok(())
    }

    fn plan(&self, shared: &Shared) -> Plan {
        let plan = if self.paper { Plan::paper() } else { Plan::default() };
        let mut plan =
            Plan { alphas: self.alpha.clone(), seeds: self.seeds, seed: shared.seed, zipf: self.zipf, ..plan };
        match self.probabilities {
            Some(Probabilities::Calibrated) => plan.config.probabilities = machine::Probabilities::Calibrated,
            Some(Probabilities::Clamp) => plan.config.probabilities = machine::Probabilities::Clamp,
            None => {}
        }
        if !self.methods.is_empty() {
            plan.methods.clone_from(&self.methods);
        }
        plan.methods.sort_unstable();
        plan.methods.dedup();
        plan.ablations.clone_from(&self.ablate);
        plan.ablations.sort_unstable();
        plan.ablations.dedup();
        plan.config.tune.evaluations = self.evaluations;
        plan
    }

    /// Returns the results of an earlier run with the same settings in the output folder, or none.
    fn resume(&self, plan: Plan) -> anyhow::Result<Results> {
        let Some(folder) = &self.output else { return Ok(Results::new(plan)) };
        let file = folder.join("results.json");
        if file.exists() {
            let results = Results::read(&file)?;
            if results.plan != plan {
                bail!(
                    "{} holds results of other settings; give the same settings to continue it, or another folder",
                    folder.display()
                );
            }
            return Ok(results);
        }
        let foreign = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A run that was killed before its first result leaves this file.
            !name.starts_with(".results.json.")
        };
        if fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(foreign)) {
            bail!("{} is not empty and has no results to continue; give another folder", folder.display());
        }
        Ok(Results::new(plan))
    }

    /// Creates the output folder and locks it, because two runs would overwrite each other's results. The lock is on
    /// the folder itself, so no file is needed.
    fn lock(&self) -> anyhow::Result<Option<File>> {
        let Some(folder) = &self.output else { return Ok(None) };
        fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
        // Some systems cannot open or lock a folder; there, nothing prevents two runs.
        let Ok(open) = File::open(folder) else { return Ok(None) };
        match open.try_lock() {
            Err(TryLockError::WouldBlock) => {
                bail!("{}: another run writes its results there; wait for it or give another folder", folder.display())
            }
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(open)),
        }
    }

    fn show(&self, results: &Results, shared: &Shared) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if shared.json {
            serde_json::to_writer(&mut out, results)?;
            writeln!(out)?;
            return Ok(());
        }
        if results.cases.is_empty() {
            return Ok(());
        }
        let text: fn(&Table) -> String = if out.is_terminal() { Table::to_styled_text } else { Table::to_text };
        for &alpha in &results.plan.alphas {
            let main = tables::main_at(results, &[alpha]);
            writeln!(out, "{}\n{}\n", text(&main), paragraph("", &main.note))?;
        }
        let against = tables::against_paper(results);
        if !against.rows.is_empty() {
            writeln!(out, "{}\n{}\n", text(&against), paragraph("", &against.note))?;
        }
        for &alpha in &results.plan.alphas {
            // A terminal has no room for all columns; the files have them.
            let table = tables::per_data_set(results, alpha).without(&["Classes", "Test", "Floor", "Mix"]);
            writeln!(out, "{}", text(&table))?;
        }
        for &alpha in &results.plan.alphas {
            let table = tables::differences(results, alpha).without(&["Sets of 0-1", "of 2-3", "of 4-10"]);
            writeln!(out, "{}", text(&table))?;
        }
        writeln!(out, "{}", text(&tables::probabilities(results)))?;
        let ablations = tables::ablations(results);
        if !ablations.rows.is_empty() {
            writeln!(out, "{}", text(&ablations))?;
        }
        writeln!(out, "{}", text(&tables::times(results)))?;
        if let Some(folder) = &self.output {
            writeln!(out, "Written to {}: results.json, tables.md, tables.csv, report.html", folder.display())?;
        }
        Ok(())
    }
}
