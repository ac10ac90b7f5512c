//! The server: accepts connections until it is stopped, then finishes the requests in progress.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dance::Error;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, interval, sleep, timeout, timeout_at};

use crate::encode::OpenEncoder;
use crate::guard::{self, Stack};
use crate::reviewable::Reviewable;
use crate::settings::Settings;
use crate::state::State;
use crate::telemetry;

/// The time within which the head of a request must arrive, also the next one on a connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The time after the stop signal in which connections are still accepted, so that requests on their way are
/// answered. Responses from then on close their connections.
const LAST_CALL: Duration = Duration::from_millis(500);
/// The number of open files that are not connections.
const OTHER_FILES: u64 = 256;
const UPKEEP: Duration = Duration::from_secs(5);

/// A signal to a running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Read the model file and the file of keys again.
    Reload,
    /// Finish the requests in progress, and end.
    Stop,
}

/// A server that listens. It answers once it [runs](Self::run).
pub struct Server {
    state: Arc<State>,
    listener: std::net::TcpListener,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.listener.local_addr()).finish_non_exhaustive()
    }
}

impl Server {
    /// Reads the model, scores the points of the page, and listens. `encoder` makes embeddings of pictures or texts;
    /// `threads` is the number of threads, 0 for one per core.
    pub fn open(
        mut settings: Settings,
        points: Option<Reviewable>,
        encoder: Option<OpenEncoder<'_>>,
        threads: usize,
    ) -> dance::Result<Self> {
        settings.check()?;
        let address = settings.address;
        let busy = |error: std::io::Error| Error::Data(format!("cannot listen at {address}: {error}"));
        let listener = std::net::TcpListener::bind(address).map_err(busy)?;
        listener.set_nonblocking(true).map_err(busy)?;
        settings.limits.connections = allow_connections(settings.limits.connections);
        Ok(Self { state: Arc::new(State::new(settings, points, encoder, threads)?), listener })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or(self.state.settings.address)
    }

    /// Answers requests until a signal stops the server.
    pub fn run(self, signals: UnboundedReceiver<Signal>) -> dance::Result<()> {
        let fault = |error: std::io::Error| Error::Data(format!("the server could not start: {error}"));
        let state = Arc::clone(&self.state);
        let pause = move || state.batcher.pause_when_busy();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().on_thread_park(pause).build().map_err(fault)?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener).map_err(fault)?;
            serve(self.state, listener, signals).await;
            Ok(())
        })
    }
}

async fn serve(state: Arc<State>, listener: TcpListener, mut signals: UnboundedReceiver<Signal>) {
    let connections = Connections {
        service: TowerToHyperService::new(guard::stack(&state)),
        graceful: GracefulShutdown::new(),
        room: Arc::new(Semaphore::new(state.settings.limits.connections)),
    };
    let mut upkeep = interval(UPKEEP);
    loop {
        tokio::select! {
            signal = signals.recv() => match signal {
                Some(Signal::Reload) => reload(&state),
                Some(Signal::Stop) | None => break,
            },
            () = connections.accept(&listener) => {}
            _ = upkeep.tick() => state.metrics.run_upkeep(),
        }
    }
    telemetry::event("info", "the server finishes the requests in progress and ends");
    state.drain();
    let last = Instant::now() + LAST_CALL;
    while timeout_at(last, connections.accept(&listener)).await.is_ok() {}
    drop(listener);
    if timeout(state.settings.limits.time * 2, connections.graceful.shutdown()).await.is_err() {
        telemetry::event("warning", "some connections did not end in time");
    }
}

fn reload(state: &Arc<State>) {
    if let Err(error) = state.reload_keys() {
        telemetry::event("error", &format!("the keys stay as they were: {error}"));
    }
    let state = Arc::clone(state);
    tokio::task::spawn_blocking(move || match state.reload() {
        Ok(served) => telemetry::event("info", &format!("model {} is served from here on", served.name.hash)),
        Err(error) => {
            telemetry::event("error", &format!("the new model was refused: {error}"));
        }
    });
}

struct Connections {
    service: TowerToHyperService<Stack>,
    graceful: GracefulShutdown,
    room: Arc<Semaphore>,
}

impl Connections {
    /// Accepts the next connection, as soon as there are fewer than the most.
    async fn accept(&self, listener: &TcpListener) {
        let Ok(room) = Arc::clone(&self.room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                telemetry::event("warning", &format!("a connection could not be accepted: {error}"));
                // The process may be out of files, so that another attempt at once would fail too.
                return sleep(Duration::from_millis(50)).await;
            }
        };
        let connection = self.connection(stream);
        tokio::spawn(async move {
            // An error here means that the client has closed the connection.
            let _ = connection.await;
            drop(room);
        });
    }

    fn connection(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + use<> {
        // Nagle's algorithm is off. A response is complete, so waiting for more data would only delay it.
        let _ = stream.set_nodelay(true);
        let mut builder = Builder::new(hyper_util::rt::TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        let connection = builder.serve_connection(TokioIo::new(stream), self.service.clone()).into_owned();
        self.graceful.watch(connection)
    }
}

/// Raises the limit of open files as far as the system allows, and returns the number of connections within it.
fn allow_connections(wanted: usize) -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let files = wanted as u64 + OTHER_FILES;
        if current.is_none_or(|current| current >= files) {
            return wanted;
        }
        let current = maximum.map_or(files, |maximum| maximum.min(files));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum });
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(files);
        (allowed.saturating_sub(OTHER_FILES) as usize).clamp(1, wanted)
    }
    #[cfg(not(unix))]
    wanted
}
