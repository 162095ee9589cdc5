//! Limits the number of connections, for each address and for all, because each costs memory and a file handle,
//! and a client with many could keep others out. At a limit, a new connection closes one that waits for its
//! client: first the one that is silent longest, then the one whose client reads slowest. A connection whose
//! request is running stays.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A client that leaves the same part of a response unread for this time is slow.
pub const SLOW: Duration = Duration::from_secs(1);

pub struct Connections {
    most: usize,
    most_of_address: usize,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    left: Notify,
}

pub struct Connection {
    /// The client's address, or its IPv6 network.
    address: IpAddr,
    waits: Mutex<Waits>,
    gives_way: Notify,
}

struct Waits {
    silent_since: Option<Instant>,
    unread_since: Option<Instant>,
}

/// A counted connection; a drop frees its slot.
pub struct Admitted {
    connections: Arc<Connections>,
    number: u64,
    pub connection: Arc<Connection>,
}

#[derive(Debug, PartialEq)]
pub enum Full {
    /// The address has reached its limit, and all its requests are running.
    OfAddress,
    /// The limit of all addresses is reached; a slot is free when a connection ends.
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

    /// May close another connection.
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

/// The address that counts as one client, because IPv6 providers assign whole networks.
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

    /// The whole request has arrived; the client waits for the response.
    pub fn is_answered(&self) {
        self.waits().silent_since = None;
    }

    /// A response was sent, or only a part of a request has arrived.
    pub fn is_silent(&self) {
        self.waits().silent_since = Some(Instant::now());
    }

    pub fn is_unread(&self, is: bool) {
        let mut waits = self.waits();
        waits.unread_since = is.then(Instant::now);
    }

    fn silent_since(&self) -> Option<Instant> {
        let waits = self.waits();
        waits.silent_since.filter(|_| waits.unread_since.is_none())
    }

    fn slow_since(&self) -> Option<Instant> {
        self.waits().unread_since.filter(|since| since.elapsed() >= SLOW)
    }

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
