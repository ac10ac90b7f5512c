//! `dance serve`: an HTTP server with an API for programs and a page for people.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use dance::data::io::read_npz_bytes;
use dance::data::split;
use dance::model::FORMAT;
use dance::{Config, Dance, Fitted};
use dance_page::terminal;
use dance_serve::{Pictures, Reviewable, Server, Settings, Signal};
use tokio::sync::mpsc;

use super::demo;
use crate::args::Shared;
use crate::data::{Columns, FileFormat, LabelColumns, check_there};
use crate::interrupt;
use crate::parse;
use crate::progress::Progress;

pub(crate) const EXAMPLE: &str = "Example:
  dance serve                                # a page with the data set that ships with dance
  dance serve model.dance --points test.npz  # your model; the page shows the points of test.npz
  dance serve model.dance --points test.npz --pictures photos
  dance serve model.dance --encoder auto     # the page accepts pictures or texts of your own
  curl -s localhost:8080/v1/predict -H 'Content-Type: application/json' \\
    -d '{\"embedding\": [0.1, …], \"alpha\": 0.05}'

The page is at http://localhost:8080, the description of the API at /openapi.json. New labels
(POST /v1/labels, or the page's review) are appended to the journal; `dance recalibrate MODEL
JOURNAL.jsonl` uses those of randomly drawn points. SIGHUP, or POST /v1/reload, reads the files
of the model and of the keys again without dropping a request. SIGTERM and Ctrl-C finish the
requests that were accepted; a second one ends at once. More in docs/serve.md.";

/// The name of the shipped data set's model in the cache folder.
const SHIPPED_MODEL: &str = concat!("shipped-", env!("CARGO_PKG_VERSION"));
const SHARES: [f64; 3] = [0.4, 0.4, 0.2];

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Model written by `dance fit` [default: a model of the data set that ships with dance, fitted once and cached]
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// Points for the page, with or without labels
    #[arg(long, value_name = "FILE", requires = "model")]
    points: Option<PathBuf>,
    /// Pictures of points: a folder with a file for each id, with or without extension, or the .parquet file with
    /// pictures that `dance embed` read
    #[arg(long, value_name = "SOURCE")]
    pictures: Option<PathBuf>,
    /// File to which new labels are appended [default: MODEL.journal.jsonl]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Port; 0 is any free port
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// Address; 0.0.0.0 or :: accepts other machines, which needs keys
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// File of keys for requests (`Authorization: Bearer KEY` or `X-Api-Key: KEY`), one per line: the key, then perhaps
    /// `use` or `administer`, then perhaps a name for the log. A key to use is the default; reloading needs one to
    /// administer. SIGHUP reads the file again. The word `none` accepts other machines without a key
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Maximum bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse::memory)]
    max_body: u64,
    /// Maximum number of points of a request
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = parse::at_least_one)]
    max_points: usize,
    /// Maximum number of requests at the same time; others are refused with status 503
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = parse::at_least_one)]
    max_requests: usize,
    /// Maximum seconds to receive a request, and to answer it
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    files: LabelColumns,
    #[cfg(feature = "embed")]
    #[command(flatten)]
    encoder: crate::encoding::OfServer,
}

impl Serve {
    /// Returns the names of columns in DATA.
    fn columns(&self) -> Columns {
        self.files.columns(&FileFormat::default())
    }

    pub(crate) fn run(&self, shared: &Shared) -> anyhow::Result<()> {
        let progress = Progress::new(shared);
        let (settings, points) = match &self.model {
            Some(model) => (Settings::new(model), self.points(model)?),
            None => shipped(shared, &progress)?,
        };
        progress.finish();
        let model = settings.model.clone();
        let settings = self.settings(settings, shared)?;
        #[cfg(feature = "embed")]
        let server = {
            let context = dance::Context::new(shared.threads)?;
            let open = |model: &Dance| self.encoder.open(model, shared.device, &context);
            let encoder = self.encoder.is_given().then_some(&open as dance_serve::OpenEncoder<'_>);
            Server::open(settings, points, encoder, shared.threads)?
        };
        #[cfg(not(feature = "embed"))]
        let server = Server::open(settings, points, None, shared.threads)?;

        let (sender, signals) = mpsc::unbounded_channel();
        interrupt::hand_over(move |reload| {
            // The server takes the first signal to end; the next one ends the program.
            let signal = if reload { Signal::Reload } else { Signal::Stop };
            sender.send(signal).is_ok()
        });
        let mut out = terminal::stdout(shared.json);
        let address = server.address();
        if shared.json {
            writeln!(
                out,
                "{}",
                serde_json::json!({ "url": format!("http://{address}"), "model": model.display().to_string() })
            )?;
        } else {
            writeln!(out, "dance serves {} at http://{address}", model.display())?;
        }
        out.flush()?;
        drop(out);
        Ok(server.run(signals)?)
    }

    fn settings(&self, mut settings: Settings, shared: &Shared) -> anyhow::Result<Settings> {
        settings.address = SocketAddr::new(self.host, self.port);
        // The word `none` says that other machines are welcome without a key.
        let without_keys = self.api_key_file.as_deref() == Some(Path::new("none"));
        settings.key_file = self.api_key_file.clone().filter(|_| !without_keys);
        settings.open = without_keys;
        settings.pictures = self.pictures()?;
        if let Some(path) = &self.journal {
            settings.journal.clone_from(path);
        }
        settings.limits.body = usize::try_from(self.max_body).unwrap_or(usize::MAX).min(1 << 40);
        settings.limits.points = self.max_points;
        settings.limits.requests = self.max_requests;
        settings.limits.time = Duration::from_secs(self.timeout);
        settings.log = !shared.quiet;
        settings.device = shared.device()?;
        Ok(settings)
    }

    #[cfg_attr(not(feature = "parquet"), allow(clippy::unnecessary_wraps))] // only a file can fail
    fn pictures(&self) -> anyhow::Result<Option<Pictures>> {
        let Some(path) = &self.pictures else { return Ok(None) };
        #[cfg(feature = "embed")]
        if path.is_file() {
            return Ok(Some(Pictures::Held(crate::encoding::pictures(path)?)));
        }
        Ok(Some(Pictures::Folder(path.clone())))
    }

    /// Reads the points of the page.
    fn points(&self, model: &Path) -> anyhow::Result<Option<Reviewable>> {
        check_there(model)?;
        let Some(path) = &self.points else { return Ok(None) };
        self.columns().format_of(path)?;
        let table = self.columns().everything(path)?.checked()?;
        let labels = table.labels.is_some().then(|| table.label_names(&[])).transpose()?;
        let origin =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        Ok(Some(Reviewable::new(origin, table.embeddings().clone(), table.ids.clone(), table.id_kind, labels)))
    }
}

/// Returns the shipped data set's model, which is fitted at the first start, and the points that took no part in it.
fn shipped(shared: &Shared, progress: &Progress) -> anyhow::Result<(Settings, Option<Reviewable>)> {
    let data = read_npz_bytes(demo::SHIPPED_NAME, demo::SHIPPED)?.into_dataset()?;
    let parts = split::uniform(data.len(), &SHARES, shared.seed)?;
    let folder = cache_folder()?;
    let path = folder.join(format!("{SHIPPED_MODEL}-format{FORMAT}-seed{}.dance", shared.seed));
    let (device, context) = (shared.device()?, shared.context(progress)?);
    if Dance::load(device, &path, &context).is_err() {
        progress.note("fitting the data set that ships with dance (only at the first start)");
        let config = Config::default().seed(shared.seed);
        let fitted = Fitted::fit(device, &data.select(&parts[0]), &config, &context)?;
        fitted.calibrate(device, &data.select(&parts[1]), &context)?.save(&path)?;
    }
    let test = data.select(&parts[2]);
    let labels = test.labels.iter().map(|&label| test.classes[label as usize].clone()).collect();
    let points = Reviewable::new(demo::SHIPPED_NAME.into(), test.embeddings, test.ids, test.id_kind, Some(labels));
    let mut settings = Settings::new(path);
    settings.name = demo::SHIPPED_NAME.trim_end_matches(".npz").into();
    Ok((settings, Some(points)))
}

/// Returns the cache folder.
fn cache_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = if cfg!(windows) {
        set("LOCALAPPDATA")
    } else {
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))
    };
    let Some(base) = base else { bail!("there is no cache folder for a model; set HOME, or name a MODEL") };
    let folder = base.join("dance");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
