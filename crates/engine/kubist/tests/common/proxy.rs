//! A proxy that delays, stalls and cuts connections between clients and a cluster. A client expects all
//! nodes on the port of the first one, so all its connections use the proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const PORT_OF_NODES: u16 = 9042;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Weather {
    Fair,
    /// Bytes are late, some by seconds, and some connections break.
    Foul,
    /// Nothing passes, and no connection breaks.
    Still,
    Cut,
}

struct Network {
    weather: Mutex<Weather>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

pub struct Proxy {
    network: Arc<Network>,
    hosts: Vec<String>,
    port: u16,
}

impl Proxy {
    pub fn before(hosts: &str, seed: u64) -> Proxy {
        let network = Network { weather: Mutex::new(Weather::Fair), changed: Condvar::new(), open: Mutex::default() };
        let network = Arc::new(network);
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let (listeners, port) = listen(&hosts);
        for (number, (listener, host)) in (0..).zip(listeners.into_iter().zip(hosts.clone())) {
            let network = network.clone();
            thread::spawn(move || network.accept(&listener, &host, SmallRng::seed_from_u64(seed ^ number << 32)));
        }
        Proxy { network, hosts, port }
    }

    pub fn hosts(&self) -> String {
        self.hosts.iter().map(|host| format!("{host}:{}", self.port)).collect::<Vec<_>>().join(",")
    }

    pub fn clear_up(&self) {
        self.network.change(Weather::Fair);
    }

    pub fn turn_foul(&self) {
        self.network.change(Weather::Foul);
    }

    pub fn stall(&self) {
        self.network.change(Weather::Still);
    }

    pub fn cut(&self) {
        self.network.change(Weather::Cut);
        self.network.open.lock().unwrap().drain(..).for_each(end);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        for host in &self.hosts {
            let _ = TcpStream::connect((host.as_str(), self.port));
        }
    }
}

fn listen(hosts: &[String]) -> (Vec<TcpListener>, u16) {
    loop {
        let first = TcpListener::bind((hosts[0].as_str(), 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let others = hosts[1..].iter().map(|host| TcpListener::bind((host.as_str(), port)));
        if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
            return ([first].into_iter().chain(others).collect(), port);
        }
    }
}

fn end(stream: TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

impl Network {
    fn change(&self, weather: Weather) {
        let mut now = self.weather.lock().unwrap();
        if *now != Weather::Cut {
            *now = weather;
        }
        self.changed.notify_all();
    }

    fn weather(&self) -> Weather {
        let now = self.weather.lock().unwrap();
        *self.changed.wait_while(now, |now| *now == Weather::Still).unwrap()
    }

    fn accept(self: Arc<Network>, listener: &TcpListener, host: &str, mut rng: SmallRng) {
        while self.weather() != Weather::Cut {
            let Ok((client, _)) = listener.accept() else { return };
            let Ok(node) = TcpStream::connect((host, PORT_OF_NODES)) else { continue };
            for stream in [&client, &node] {
                let _ = stream.set_nodelay(true);
                self.open.lock().unwrap().push(stream.try_clone().unwrap());
            }
            for (from, to) in [(&client, &node), (&node, &client)] {
                let (network, rng) = (self.clone(), SmallRng::from_rng(&mut rng));
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || network.pass_on(from, to, rng));
            }
        }
    }

    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream, mut rng: SmallRng) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let mut passes = count;
            match self.weather() {
                Weather::Cut => break,
                Weather::Foul => {
                    let dice = rng.random_range(0..1_000);
                    thread::sleep(Duration::from_millis(match dice {
                        0..700 => 0,
                        700..994 => rng.random_range(0..20),
                        _ => rng.random_range(1_000..9_000),
                    }));
                    if dice < 3 {
                        passes = rng.random_range(0..count);
                    }
                }
                Weather::Fair | Weather::Still => {}
            }
            if to.write_all(&buffer[..passes]).is_err() || passes < count {
                break;
            }
        }
        end(from);
        end(to);
    }
}
