//! How many connections there are, and which one gives way to a new one.
//!
//! A connection costs memory and a file handle, and a client that holds many could keep
//! others out. Their number is bounded, and that of one address lower. Where all are taken,
//! a connection that waits for its client is closed for a new one: first the one that is
//! silent longest, then the one whose client reads slowest. A connection whose request is
//! being answered stays.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A client that leaves the same piece of an answer unread for this time reads slowly.
pub const SLOW: Duration = Duration::from_secs(1);

/// All that are open.
pub struct Connections {
    most: usize,
    most_of_address: usize,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Notified when one ends.
    left: Notify,
}

/// An open connection, and what it waits for.
pub struct Connection {
    /// The client's, or the network that is one client's.
    address: IpAddr,
    waits: Mutex<Waits>,
    /// Notified when it is to be closed.
    gives_way: Notify,
}

struct Waits {
    /// Since when for the rest of a request, or the next one.
    silent_since: Option<Instant>,
    /// Since when for the client to take what is sent.
    unread_since: Option<Instant>,
}

/// One of the connections that may be open. Dropping it lets another in.
pub struct Admitted {
    connections: Arc<Connections>,
    number: u64,
    pub connection: Arc<Connection>,
}

/// Why a connection is not admitted.
#[derive(Debug, PartialEq)]
pub enum Full {
    /// Its address has as many as it may, and all are being answered.
    OfAddress,
    /// All addresses together have; one is admitted when one of them ends.
    OfAll,
}

impl Connections {
    pub fn new(most: usize, most_of_address: usize) -> Arc<Connections> {
        Arc::new(Connections {
            most,
            most_of_address,
            open: Mutex::default(),
            next: AtomicU64::new(0),
            left: Notify::new(),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Admits a client at this address. Another connection may be closed for it.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Admitted, Full> {
        let address = client_of(address);
        let mut open = self.open();
        let of_address = open.values().filter(|other| other.address == address).count();
        if of_address >= self.most_of_address {
            let gone = patient(&open, |other| other.address == address).ok_or(Full::OfAddress)?;
            close(&mut open, gone);
        } else if open.len() >= self.most {
            let gone = patient(&open, |_| true).ok_or(Full::OfAll)?;
            close(&mut open, gone);
        }
        let waits = Waits { silent_since: Some(Instant::now()), unread_since: None };
        let connection = Arc::new(Connection { address, waits: Mutex::new(waits), gives_way: Notify::new() });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, connection.clone());
        Ok(Admitted { connections: self.clone(), number, connection })
    }

    /// Waits until one ends.
    pub async fn one_left(&self) {
        self.left.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.left.notify_one();
    }
}

/// Of those that wait for their client the one that gives way first.
fn patient(open: &HashMap<u64, Arc<Connection>>, of: impl Fn(&Connection) -> bool) -> Option<u64> {
    let among = || open.iter().filter(|(_, connection)| of(connection));
    let silent = among().filter_map(|(number, connection)| Some((connection.silent_since()?, *number))).min();
    let slow = || among().filter_map(|(number, connection)| Some((connection.slow_since()?, *number))).min();
    Some(silent.or_else(slow)?.1)
}

fn close(open: &mut HashMap<u64, Arc<Connection>>, number: u64) {
    if let Some(connection) = open.remove(&number) {
        connection.gives_way.notify_one();
    }
}

/// What counts as one client: networks of IPv6 are given away whole.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address => address,
    }
}

impl Connection {
    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A request is here as a whole: now the client waits.
    pub fn is_answered(&self) {
        self.waits().silent_since = None;
    }

    /// An answer is sent, or only a part of a request is here.
    pub fn is_silent(&self) {
        self.waits().silent_since = Some(Instant::now());
    }

    /// Whether something is to be sent that the client has not taken.
    pub fn is_unread(&self, is: bool) {
        let mut waits = self.waits();
        waits.unread_since = is.then(Instant::now);
    }

    /// Since when nothing but the client is waited for: its last answer is on its way.
    fn silent_since(&self) -> Option<Instant> {
        let waits = self.waits();
        waits.silent_since.filter(|_| waits.unread_since.is_none())
    }

    fn slow_since(&self) -> Option<Instant> {
        self.waits().unread_since.filter(|since| since.elapsed() >= SLOW)
    }

    /// Waits until it is to be closed for another.
    pub async fn gives_way(&self) {
        self.gives_way.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_open(connections: &Connections, admitted: &Admitted) -> bool {
        connections.open().contains_key(&admitted.number)
    }

    #[test]
    fn the_longest_silent_gives_way_and_who_is_answered_stays() {
        let connections = Connections::new(3, 3);
        let admitted: Vec<Admitted> = (0..3).map(|_| connections.admit(address(1)).unwrap()).collect();
        admitted[0].connection.is_answered();
        let another = connections.admit(address(2)).unwrap();
        assert_eq!([0, 1, 2].map(|index| is_open(&connections, &admitted[index])), [true, false, true]);
        admitted[0].connection.is_silent();
        let _third = connections.admit(address(3)).unwrap();
        assert_eq!([0, 2].map(|index| is_open(&connections, &admitted[index])), [true, false], "it was answered since");
        assert!(is_open(&connections, &another));
    }

    #[test]
    fn one_address_does_not_keep_others_out() {
        let connections = Connections::new(4, 3);
        let busy: Vec<Admitted> = (0..3).map(|_| connections.admit(address(1)).unwrap()).collect();
        busy.iter().for_each(|admitted| admitted.connection.is_answered());
        assert_eq!(connections.admit(address(1)).err(), Some(Full::OfAddress));
        let other = connections.admit(address(2)).unwrap();
        other.connection.is_answered();
        assert_eq!(connections.admit(address(3)).err(), Some(Full::OfAll));
        drop(busy);
        assert!(connections.admit(address(1)).is_ok() && connections.admit(address(3)).is_ok());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let of = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn who_reads_slowly_gives_way_when_nobody_is_silent() {
        let connections = Connections::new(2, 2);
        let [one, other] = [1, 2].map(|last| connections.admit(address(last)).unwrap());
        [&one, &other].iter().for_each(|admitted| admitted.connection.is_answered());
        one.connection.is_unread(true);
        other.connection.waits().unread_since = Instant::now().checked_sub(SLOW);
        let _new = connections.admit(address(3)).unwrap();
        assert_eq!([&one, &other].map(|admitted| is_open(&connections, admitted)), [true, false]);
    }
}
