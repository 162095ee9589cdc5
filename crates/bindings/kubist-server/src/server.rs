//! Listens, admits connections within limits, and closes them when it stops.

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
use crate::respond::{RequestSlots, Work};
use crate::routes::{self, ServerState};
use crate::served_table::{ServedTable, name_of};
use crate::stall_timeout::{StallTimeout, hung_up};

#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent requests; others wait.
    pub concurrent_requests: usize,
    /// Longest wait of a request.
    pub request_patience: Duration,
    /// Longest run time of a request.
    pub longest: Duration,
    /// Longest time that a client may leave its response unread, or its request body unsent.
    pub stall: Duration,
    /// Longest time for a request's headers, and between requests.
    pub head: Duration,
    pub body_bytes: usize,
    /// Open connections. At this limit a silent or slow client makes way for a new one.
    pub connections: usize,
    /// Open connections per client address.
    pub connections_of_address: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            concurrent_requests: 8,
            request_patience: Duration::from_secs(20),
            longest: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            head: Duration::from_secs(10),
            body_bytes: 256 * 1024,
            connections: 256,
            connections_of_address: 192,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Locations of the tables, each served under the name of its directory.
    pub tables: Vec<String>,
    pub address: IpAddr,
    /// 0 for any free port.
    pub port: u16,
    /// Required off loopback.
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

const WATCHERS: usize = 64;

const CHECK_CONNECTIONS: Duration = Duration::from_millis(250);
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A running server; a drop stops it.
pub struct Server {
    address: SocketAddr,
    tables: Vec<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// # Errors
    ///
    /// `Invalid` if other machines can reach the address and there is no token, or the token has characters
    /// other than letters, digits and `-_.~`; as [`kubist::Table::open`]; `Unavailable` or `Permission` if the
    /// server cannot listen.
    pub fn start(options: &Options) -> kubist::Result<Server> {
        let io = |what: &str, error: std::io::Error| kubist::Error::io(format!("{what}: {error}"), error);
        if !options.address.is_loopback() && options.token.as_deref().is_none_or(|token| token.len() < 16) {
            return Err(kubist::Error::Invalid(format!(
                "{} can be reached from other machines: give a token of at least 16 characters",
                options.address
            )));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
        if options.token.as_deref().is_some_and(|token| !token.chars().all(plain)) {
            return Err(kubist::Error::Invalid("a token contains only letters, digits and - _ . ~".into()));
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
            .max_blocking_threads(options.limits.concurrent_requests + WATCHERS + 8)
            .build()
            .map_err(|error| io("the server's thread", error))?;
        let wanted = SocketAddr::new(options.address, options.port);
        let listener = runtime.block_on(TcpListener::bind(wanted)).map_err(|error| io(&wanted.to_string(), error))?;
        let address = listener.local_addr().map_err(|error| io(&wanted.to_string(), error))?;
        let names = tables.iter().map(|table| table.name.clone()).collect();
        let limits = &options.limits;
        let work = Work {
            slots: RequestSlots::new(limits.concurrent_requests),
            patience: limits.request_patience,
            longest: limits.longest,
            stall: limits.stall,
        };
        let state = Arc::new(ServerState {
            tables,
            guard: Guard { loopback: options.address.is_loopback(), token: options.token.clone() },
            watchers: Work { slots: RequestSlots::new(WATCHERS), ..work.clone() },
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

    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
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
            // Such as out of file handles: retries after connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let admitted = loop {
            match connections.admit(client.ip()) {
                Ok(admitted) => break Some(admitted),
                Err(Full::OfAddress) => break None,
                // Until one ends or becomes slow.
                Err(Full::OfAll) => drop(tokio::time::timeout(CHECK_CONNECTIONS, connections.one_left()).await),
            }
        };
        match admitted {
            Some(admitted) => drop(tokio::spawn(serve(socket, admitted, state.clone(), limits.clone()))),
            // The socket's buffer holds the response, so nothing waits for the client.
            None => drop(socket.try_write(TOO_MANY)),
        }
    }
}

async fn serve(socket: TcpStream, admitted: Admitted, state: Arc<ServerState>, limits: Limits) {
    // Frames are small and must arrive at once.
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
        // The client sees an error as the end of the connection.
        _ = served => {}
        () = hung_up(&socket) => {}
        () = connection.gives_way() => {}
    }
}
