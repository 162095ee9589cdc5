//! The server: it listens, admits connections within their limits, and ends them when it stops.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::connections::{Admitted, Connections, Full};
use crate::guard::Guard;
use crate::respond::{QuestionSlots, Work};
use crate::routes::{self, ServerState};
use crate::served_table::{ServedTable, name_of};
use crate::stall_timeout::{StallTimeout, hung_up};

/// What clients may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Questions that run at a time; others wait.
    pub questions: usize,
    /// How long they wait, at most.
    pub question_patience: Duration,
    /// How long a question may run.
    pub longest: Duration,
    /// How long a client may leave its answer unread, or the body of its request unsent.
    pub stall: Duration,
    /// How long it may take for a request's first lines, and between requests.
    pub head: Duration,
    pub body_bytes: usize,
    /// Where all are taken, one whose client is silent or slow gives way to a new one.
    pub connections: usize,
    /// Of one client's address.
    pub connections_of_address: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            questions: 8,
            question_patience: Duration::from_secs(20),
            longest: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            head: Duration::from_secs(10),
            body_bytes: 256 * 1024,
            connections: 256,
            connections_of_address: 192,
        }
    }
}

/// What to serve, and to whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tables' directories. Each is served under its directory's name.
    pub tables: Vec<String>,
    pub address: IpAddr,
    /// 0: any free one.
    pub port: u16,
    /// What clients must show. Off loopback there must be one.
    pub token: Option<String>,
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            tables: Vec::new(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            token: None,
            limits: Limits::default(),
        }
    }
}

/// Requests that wait for changes at a time.
const WATCHERS: usize = 64;

/// How often to check whether a connection can give way.
const CHECK_CONNECTIONS: Duration = Duration::from_millis(250);
/// The answer to a client that has too many connections.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A server that listens. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    tables: Vec<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the tables and listens.
    ///
    /// # Errors
    ///
    /// `Invalid` if an address that others reach has no token, or the token is not plain; as of
    /// [`kubist::Table::open`] if a table cannot be opened; `Unavailable` or `Permission` if the
    /// address cannot be listened at.
    pub fn start(options: &Options) -> kubist::Result<Server> {
        let io = |what: &str, error: std::io::Error| kubist::Error::io(format!("{what}: {error}"), error);
        if !options.address.is_loopback() && options.token.as_deref().is_none_or(|token| token.len() < 16) {
            return Err(kubist::Error::Invalid(format!(
                "{} can be reached from elsewhere: a token of at least 16 characters is needed",
                options.address
            )));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        if options.token.as_deref().is_some_and(|token| !token.chars().all(plain)) {
            return Err(kubist::Error::Invalid("a token has letters, digits and - _ . ~ only".into()));
        }
        let mut tables: Vec<Arc<ServedTable>> = Vec::new();
        for location in &options.tables {
            let plain = name_of(location);
            let taken = |name: &str| tables.iter().any(|table| table.name == name);
            let mut name = plain.clone();
            for number in 2.. {
                if !taken(&name) {
                    break;
                }
                name = format!("{plain}-{number}");
            }
            tables.push(Arc::new(ServedTable::open(location, name)?));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("kubist-server")
            .max_blocking_threads(options.limits.questions + WATCHERS + 8)
            .build()
            .map_err(|error| io("the server's thread", error))?;
        let wanted = SocketAddr::new(options.address, options.port);
        let listener = runtime.block_on(TcpListener::bind(wanted)).map_err(|error| io(&wanted.to_string(), error))?;
        let address = listener.local_addr().map_err(|error| io(&wanted.to_string(), error))?;
        let names = tables.iter().map(|table| table.name.clone()).collect();
        let limits = &options.limits;
        let work = Work {
            slots: QuestionSlots::new(limits.questions),
            patience: limits.question_patience,
            longest: limits.longest,
            stall: limits.stall,
        };
        let state = Arc::new(ServerState {
            tables,
            guard: Guard { loopback: options.address.is_loopback(), token: options.token.clone() },
            watchers: Work { slots: QuestionSlots::new(WATCHERS), ..work.clone() },
            work,
            body_bytes: limits.body_bytes,
            body_patience: limits.stall,
        });
        let (stop, stopped) = oneshot::channel();
        let limits = limits.clone();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, state, limits));
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        });
        Ok(Server { address, tables: names, stop: Some(stop), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the tables are called, in the order they were given.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// Ends all connections.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(listener: TcpListener, state: Arc<ServerState>, limits: Limits) {
    let connections = Connections::new(limits.connections, limits.connections_of_address);
    loop {
        let Ok((socket, client)) = listener.accept().await else {
            // Out of file handles, say: it passes when connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let admitted = loop {
            match connections.admit(client.ip()) {
                Ok(admitted) => break Some(admitted),
                Err(Full::OfAddress) => break None,
                // Until one ends, or is found to be slow.
                Err(Full::OfAll) => drop(tokio::time::timeout(CHECK_CONNECTIONS, connections.one_left()).await),
            }
        };
        match admitted {
            Some(admitted) => drop(tokio::spawn(serve(socket, admitted, state.clone(), limits.clone()))),
            // The socket's buffer holds it: nothing waits for the client.
            None => drop(socket.try_write(TOO_MANY)),
        }
    }
}

async fn serve(socket: TcpStream, admitted: Admitted, state: Arc<ServerState>, limits: Limits) {
    // Frames are small and wanted at once.
    let _ = socket.set_nodelay(true);
    let (socket, connection) = (Arc::new(socket), admitted.connection.clone());
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let state = state.clone();
        request.extensions_mut().insert(connection.clone());
        async move { Ok::<_, Infallible>(routes::answer(state, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(32 * 1024)
        .max_buf_size(64 * 1024)
        .serve_connection(TokioIo::new(StallTimeout::new(socket.clone(), connection.clone(), limits.stall)), service);
    tokio::select! {
        // An error ends the connection, which its client notices.
        _ = served => {}
        () = hung_up(&socket) => {}
        () = connection.gives_way() => {}
    }
}
