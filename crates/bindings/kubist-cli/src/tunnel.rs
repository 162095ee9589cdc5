//! `kubist view ssh://user@host/path`: views tables on a remote machine.
//!
//! The user's own ssh client runs `kubist view` on the remote machine and forwards its port, in one connection.
//! A token keeps out other users of both machines. It goes through ssh's standard input, so no command line
//! shows it, except the browser's with `--open`. When this process ends, that input closes and the remote
//! server ends.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kubist::Cancel;

use crate::failure::{Failure, Kind, Result};
use crate::output::{print, remark};
use crate::{args, browser, token};

const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const END_LIMIT: Duration = Duration::from_secs(3);
/// The free ports there are unknown.
const PORT_ATTEMPTS: usize = 4;
const KEPT_LINES: usize = 8;
const SCHEME: &str = "ssh://";
/// Exit codes of a failed ssh, and of a shell that does not find the command.
const SSH_FAILED: i32 = 255;
const COMMAND_NOT_FOUND: i32 = 127;

pub fn is_remote(table: &str) -> bool {
    table.starts_with(SCHEME)
}

#[derive(Debug, PartialEq)]
struct Remote {
    /// `user@host`, or a host alias of the user's ssh configuration.
    host: String,
    port: Option<u16>,
    paths: Vec<String>,
}

impl Remote {
    fn parse<'a>(tables: impl Iterator<Item = &'a str>) -> Result<Remote> {
        let mut remote: Option<Remote> = None;
        for table in tables {
            let (host, port, path) = parse(table)?;
            match &mut remote {
                None => remote = Some(Remote { host, port, paths: vec![path] }),
                Some(remote) if remote.host == host && remote.port == port => remote.paths.push(path),
                Some(remote) => {
                    return Err(Failure::usage(format!(
                        "{}: all tables must be on one host, {}; start a second kubist view for the others",
                        kubist_types::shown::without_password(table),
                        remote.host
                    )));
                }
            }
        }
        remote.ok_or_else(|| Failure::usage("no table is given"))
    }

    fn command(&self, kubist: &str, port: u16) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| quoted(path)).collect();
        format!("{} view --token - --port {port} -- {}", quoted(kubist), paths.join(" "))
    }
}

fn parse(table: &str) -> Result<(String, Option<u16>, String)> {
    let shown = kubist_types::shown::without_password(table);
    let wrong = |why: &str| Failure::usage(format!("{shown}: {why}; expected ssh://user@host/path/run.kubist"));
    let rest = table.strip_prefix(SCHEME).ok_or_else(|| wrong("if one table has ssh://, all must have it"))?;
    let (authority, path) = rest.split_once('/').ok_or_else(|| wrong("the path is missing"))?;
    let (user, address) = match authority.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, authority),
    };
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(|| wrong("a closing bracket is missing"))?,
        None => address.split_at(address.find(':').unwrap_or(address.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port.parse().map_err(|_| wrong("the port is not a number"))?),
        None if port.is_empty() => None,
        None => return Err(wrong("the text after the host is not a port")),
    };
    if user.is_some_and(|user| user.contains(':')) {
        // The list of processes would show it to other users.
        return Err(wrong("a password is not allowed here, because ssh asks for it"));
    }
    // ssh would read it as an option.
    let plain = |name: &str| !name.is_empty() && !name.starts_with('-') && !name.contains(char::is_whitespace);
    if !plain(host) || user.is_some_and(|user| !plain(user)) {
        return Err(wrong("the host or user name is not valid"));
    }
    let path = match path.strip_prefix("~/") {
        Some(in_home) => in_home.to_string(),
        None => format!("/{path}"),
    };
    if path.is_empty() || path == "/" {
        return Err(wrong("the path is missing"));
    }
    let user = user.map_or(String::new(), |user| format!("{user}@"));
    Ok((format!("{user}{host}"), port, path))
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

pub fn run(command: &args::View, cancel: &Cancel) -> Result<()> {
    let remote = Remote::parse(command.tables.iter().map(|table| &**table))?;
    if !command.address.is_loopback() {
        return Err(Failure::usage("--address: a table over ssh is served to this machine only; leave out --address"));
    }
    let token = match command.token.as_deref() {
        Some("-") => token::from_input(cancel)?,
        Some(token) => token.to_string(),
        None => random(16)?.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let mut connection = None;
    for attempt in 1..=PORT_ATTEMPTS {
        let local_port = free_port(command.port)?;
        let bytes = random(2)?;
        // Above the ports of services, below the ephemeral ports.
        let remote_port = 20_000 + u16::from_le_bytes([bytes[0], bytes[1]]) % 12_000;
        let mut ssh = Ssh::start(&remote, &command.remote_kubist, &token, local_port, remote_port)?;
        match ssh.wait(cancel)? {
            Some(()) => connection = Some((ssh, local_port)),
            None if cancel.is_set() => return Ok(()),
            None => {
                let failure = ssh.failure(&remote, &command.remote_kubist);
                if attempt < PORT_ATTEMPTS && failure.message.contains(&format!(":{remote_port}")) {
                    continue;
                }
                return Err(failure);
            }
        }
        break;
    }
    let Some((mut ssh, local_port)) = connection else { return Ok(()) };
    let url = format!("http://127.0.0.1:{local_port}/?token={token}");
    print(&format!("{url}\n"))?;
    if command.token.as_deref() != Some("-") {
        remark("Ctrl-C stops the server on both machines");
    }
    if command.open {
        browser::open(&url);
    }
    while !cancel.is_set() {
        if ssh.has_ended()? {
            // Ctrl-C may reach this process before ssh.
            std::thread::sleep(2 * CHECK_INTERVAL);
            if !cancel.is_set() {
                return Err(ssh.failure(&remote, &command.remote_kubist).noting("the connection has ended"));
            }
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    ssh.end();
    Ok(())
}

/// Another process may take it before ssh does.
fn free_port(wanted: u16) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|error| Failure::io(Path::new(&format!("127.0.0.1:{wanted}")), &error))?.port())
}

fn random(bytes: usize) -> Result<Vec<u8>> {
    let source = Path::new("/dev/urandom");
    let mut random = vec![0; bytes];
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut random));
    read.map_err(|error| Failure::io(source, &error))?;
    Ok(random)
}

/// Login messages may have any encoding.
fn lines(source: impl Read) -> impl Iterator<Item = String> {
    let pieces = BufReader::new(source).split(b'\n').map_while(|piece| piece.ok());
    pieces.map(|piece| String::from_utf8_lossy(&piece).trim_end_matches('\r').to_string())
}

/// A running ssh, which ends on drop.
struct Ssh {
    child: Child,
    /// The remote server runs while this is open.
    input: Option<ChildStdin>,
    ready: Receiver<()>,
    /// Of standard error, with the thread that reads it.
    last: Arc<Mutex<Vec<String>>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Ssh {
    fn start(remote: &Remote, kubist: &str, token: &str, local_port: u16, remote_port: u16) -> Result<Ssh> {
        let mut ssh = Command::new("ssh");
        // A shared connection would outlive this process and hide that a port is in use.
        ssh.args(["-T", "-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes"]);
        ssh.args(["-L", &format!("127.0.0.1:{local_port}:127.0.0.1:{remote_port}")]);
        if let Some(port) = remote.port {
            ssh.args(["-p", &port.to_string()]);
        }
        ssh.args(["--", &remote.host, &remote.command(kubist, remote_port)]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure { kind: Kind::Existence, message: "ssh is not on the PATH: install the OpenSSH client".into() }
            }
            _ => Failure::io(Path::new("ssh"), &error),
        })?;
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            // If ssh has ended, its exit status explains the error.
            let _ = writeln!(input, "{token}");
        }
        let (send, ready) = channel();
        if let Some(output) = child.stdout.take() {
            let address = format!("http://127.0.0.1:{remote_port}/");
            std::thread::spawn(move || {
                // The login may print messages first.
                for line in lines(output) {
                    if line.starts_with(&address) && send.send(()).is_err() {
                        return;
                    }
                }
            });
        }
        let last: Arc<Mutex<Vec<String>>> = Arc::default();
        let stderr_reader = child.stderr.take().map(|errors| {
            let last = last.clone();
            std::thread::spawn(move || {
                for line in lines(errors) {
                    // Failures are reported once, at the end.
                    if !line.starts_with("kubist: error: ") {
                        remark(&line);
                    }
                    let mut last = last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    last.push(line);
                    if last.len() > KEPT_LINES {
                        last.remove(0);
                    }
                }
            })
        });
        Ok(Ssh { child, input, ready, last, stderr_reader })
    }

    /// Waits until the server listens; `None` if ssh has ended or the command was cancelled.
    fn wait(&mut self, cancel: &Cancel) -> Result<Option<()>> {
        while !cancel.is_set() {
            match self.ready.recv_timeout(CHECK_INTERVAL) {
                Ok(()) => return Ok(Some(())),
                Err(RecvTimeoutError::Timeout) => {}
                // No message can arrive any more, because ssh is ending.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(CHECK_INTERVAL),
            }
            if self.has_ended()? {
                // Even with an address just received, the connection is gone.
                std::thread::sleep(2 * CHECK_INTERVAL);
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn has_ended(&mut self) -> Result<bool> {
        let ended = self.child.try_wait().map_err(|error| Failure::io(Path::new("ssh"), &error))?;
        Ok(ended.is_some())
    }

    /// The last lines of standard error. Waits a limited time, because a shared connection of the user's
    /// configuration may keep it open.
    fn lines(&mut self) -> Vec<String> {
        let begin = Instant::now();
        while !self.stderr_reader.as_ref().is_none_or(|stderr_reader| stderr_reader.is_finished())
            && begin.elapsed() < END_LIMIT
        {
            std::thread::sleep(CHECK_INTERVAL);
        }
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn failure(&mut self, remote: &Remote, kubist: &str) -> Failure {
        let code = self.child.wait().ok().and_then(|status| status.code());
        let lines = self.lines();
        let last = lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default();
        let host = &remote.host;
        if let Some(message) = lines.iter().rev().find_map(|line| line.strip_prefix("kubist: error: ")) {
            let kind = match code {
                Some(1) => Kind::Unsound,
                Some(2) => Kind::Usage,
                Some(3) => Kind::Existence,
                _ => Kind::System,
            };
            return Failure { kind, message: format!("{host}: {message}") };
        }
        match code {
            Some(SSH_FAILED) => {
                let why = if last.is_empty() { "no message" } else { last };
                Failure { kind: Kind::System, message: format!("ssh cannot reach {host}: {why}") }
            }
            Some(COMMAND_NOT_FOUND) => Failure {
                kind: Kind::Existence,
                message: format!(
                    "{host} has no command {kubist}: install Kubist there, or give its path with --remote-kubist"
                ),
            },
            Some(code) => {
                Failure { kind: Kind::System, message: format!("{host}: {kubist} ended with exit code {code}: {last}") }
            }
            None => Failure { kind: Kind::System, message: format!("{host}: a signal ended ssh") },
        }
    }

    fn end(&mut self) {
        self.input = None;
        let begin = Instant::now();
        while begin.elapsed() < END_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        // Both fail if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_where() {
        let of = |table: &str| parse(table).ok();
        let is = |host: &str, port, path: &str| Some((host.to_string(), port, path.to_string()));
        assert_eq!(of("ssh://ada@cluster/data/run.kubist"), is("ada@cluster", None, "/data/run.kubist"));
        assert_eq!(of("ssh://cluster:2222/~/run 7.kubist"), is("cluster", Some(2222), "run 7.kubist"));
        assert_eq!(of("ssh://ada@[fe80::1]:22/t"), is("ada@fe80::1", Some(22), "/t"));
        for wrong in [
            "ssh://cluster",
            "ssh://cluster/",
            "ssh:///t",
            "ssh://cluster/~/",
            "ssh://-oProxyCommand=evil/t",
            "ssh://-l@cluster/t",
            "ssh://cluster:port/t",
            "ssh://[fe80::1/t",
            "ssh://ada:secret@cluster/t",
            "run.kubist",
        ] {
            let failure = parse(wrong).unwrap_err();
            assert_eq!(failure.kind, Kind::Usage, "{wrong}");
            assert!(!failure.message.contains("secret"), "{}", failure.message);
        }
    }

    #[test]
    fn tables_of_one_host_go_together() {
        let of = |tables: &[&str]| Remote::parse(tables.iter().copied());
        let remote = of(&["ssh://a@h/x", "ssh://a@h/it's"]).unwrap();
        assert_eq!(remote.command("kubist", 1), r"'kubist' view --token - --port 1 -- '/x' '/it'\''s'");
        for wrong in [&["ssh://a@h/x", "ssh://b@h/x"][..], &["ssh://h/x", "y"]] {
            assert_eq!(of(wrong).unwrap_err().kind, Kind::Usage);
        }
    }
}
