//! The location of a table in Cassandra:
//! `cassandra://[user[:password]@]host[:port],.../keyspace/table[?setting=value&...]`.
//! docs/cassandra.md lists the settings.
//!
//! The text of a location has no password, so messages, debug output and other processes do not get it. If a location
//! has a user but no password, `parse` takes the password from `KUBIST_CASSANDRA_PASSWORD`.

use std::fmt;
use std::time::Duration;

use scylla::statement::Consistency;

use crate::replication::replication;

const SCHEME: &str = "cassandra://";
pub const PASSWORD_VARIABLE: &str = "KUBIST_CASSANDRA_PASSWORD";

const PORT: u16 = 9042;
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of concurrent requests of a table, before the best number is known.
const PARALLEL: usize = 32;

#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    pub hosts: Vec<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// The file with the root certificates of the nodes (PEM); `None` for a connection without TLS.
    pub authorities: Option<String>,
    pub keyspace: String,
    pub table: String,
    pub agreement: Agreement,
    /// Number of copies in a new keyspace: `3`, or by data center `dc1:3,dc2:2`.
    pub replication: Option<String>,
    pub patience: Duration,
    pub parallel: usize,
    /// True if the number of concurrent requests is adapted to the cluster, starting at `parallel`; false if it is
    /// fixed.
    pub tuned: bool,
    /// The location without its password.
    shown: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    One,
    Quorum,
    All,
}

impl Agreement {
    pub fn consistency(self) -> Consistency {
        match self {
            Agreement::One => Consistency::One,
            Agreement::Quorum => Consistency::Quorum,
            Agreement::All => Consistency::All,
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown)
    }
}

impl Location {
    /// Parses a location; the error does not repeat the text, which may contain a password.
    ///
    /// # Errors
    ///
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Location, String> {
        let form = || format!("a location is {SCHEME}host1,host2/keyspace/table");
        let rest = text.strip_prefix(SCHEME).ok_or_else(form)?;
        // A `/` or `?` in a password would end the host names too early, and messages would then show a part of the
        // password.
        if rest.split_once(['/', '?']).is_some_and(|(_, behind)| behind.contains('@')) {
            return Err("a / or ? in a user or password is written as %2F or %3F".into());
        }
        let (path, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let [authority, keyspace, table] = path.split('/').collect::<Vec<_>>()[..] else { return Err(form()) };
        let (login, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
        let shown_hosts = hosts;
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some((user, "")) => (Some(decoded(user)?), std::env::var(PASSWORD_VARIABLE).ok()),
            Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
        };
        let shown_user = login.map(|login| login.split(':').next().unwrap_or_default().to_owned() + "@");
        let mut location = Location {
            shown: format!("{SCHEME}{}{}/{keyspace}/{table}", shown_user.unwrap_or_default(), shown_hosts),
            hosts,
            user,
            password,
            authorities: None,
            keyspace: identifier(keyspace)?,
            table: table.to_owned(),
            agreement: Agreement::Quorum,
            replication: None,
            patience: PATIENCE,
            parallel: PARALLEL,
            tuned: true,
        };
        kubist_store::names::check_part(table).map_err(|error| error.to_string())?;
        let mut tls = false;
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            location.set(setting, &mut tls)?;
        }
        match (tls, &location.authorities) {
            (true, None) => return Err("tls=on needs ca=FILE, the root certificates of the nodes (PEM)".into()),
            (false, Some(_)) => return Err("ca=FILE needs tls=on".into()),
            _ => {}
        }
        if !settings.is_empty() {
            location.shown += &format!("?{settings}");
        }
        Ok(location)
    }

    fn set(&mut self, setting: &str, tls: &mut bool) -> Result<(), String> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let bad = |what: &str| format!("{name}={value}: it is {what}");
        match name {
            "consistency" => {
                self.agreement = match value {
                    "one" => Agreement::One,
                    "quorum" => Agreement::Quorum,
                    "all" => Agreement::All,
                    _ => return Err(bad("one, quorum or all")),
                }
            }
            "replication" => {
                replication(value).ok_or_else(|| bad("a number, or numbers by data center: dc1:3,dc2:2"))?;
                self.replication = Some(value.to_owned());
            }
            "patience" => {
                let seconds = value.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                self.patience = Duration::from_secs(seconds.ok_or_else(|| bad("1 to 3600 seconds"))?);
            }
            "parallel" => {
                let blocks = value.parse().ok().filter(|blocks| (1..=1024).contains(blocks));
                self.parallel = blocks.ok_or_else(|| bad("1 to 1024 blocks at once"))?;
                self.tuned = false;
            }
            "tls" => {
                *tls = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(bad("on or off")),
                }
            }
            "ca" => self.authorities = Some(decoded(value)?),
            _ => {
                return Err(format!(
                    "{name:?} is not a setting: there are consistency, replication, patience, parallel, tls and ca"
                ));
            }
        }
        Ok(())
    }

    /// Locations with the same key share a connection; a key contains the password, so it must not be shown.
    pub fn session_key(&self) -> String {
        format!("{:?} {:?} {:?} {:?} {}", self.hosts, self.user, self.password, self.authorities, self.keyspace)
    }
}

fn host(text: &str) -> Result<String, String> {
    let (name, port) = match text.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets, and do not begin a port.
        Some((name, port)) if !port.ends_with(']') => {
            let wrong = || format!("{port:?} is not a port");
            (name, port.parse().map_err(|_| wrong())?)
        }
        _ => (text, PORT),
    };
    let known = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    match !name.is_empty() && name.chars().all(known) {
        true => Ok(format!("{name}:{port}")),
        false => Err("a location names hosts, each perhaps with a port: host1,host2:9042".into()),
    }
}

/// Checks that the name of a keyspace needs no quotes in CQL, because it has only lower-case letters.
fn identifier(name: &str) -> Result<String, String> {
    let mut bytes = name.bytes();
    let begins = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let goes_on = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match begins && goes_on && name.len() <= 48 {
        true => Ok(name.to_owned()),
        false => Err(format!("keyspace {name:?}: a name is a letter, then a-z, 0-9 and _, at most 48 of them")),
    }
}

/// Decodes escapes such as `%2F`, so that a password or file name can have any character.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "user, password or file: % begins two hexadecimal digits, and %25 is a % itself".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        (rest, _) = (after, ());
        bytes.push(match first {
            b'%' => {
                let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(wrong)?;
                rest = &after[2..];
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read() {
        let location = Location::parse("cassandra://a,b:9043,[::1]/science/drops.2").unwrap();
        assert_eq!(location.hosts, ["a:9042", "b:9043", "[::1]:9042"]);
        assert_eq!((location.keyspace.as_str(), location.table.as_str()), ("science", "drops.2"));
        assert_eq!((location.agreement, location.replication.as_deref()), (Agreement::Quorum, None));
        assert!(location.tuned);
        let text = "cassandra://h/k/t?consistency=all&replication=dc1:3,dc2:2&patience=60&parallel=8";
        let location = Location::parse(text).unwrap();
        assert_eq!((location.agreement, location.replication.as_deref()), (Agreement::All, Some("dc1:3,dc2:2")));
        assert_eq!((location.patience, location.parallel, location.tuned), (Duration::from_secs(60), 8, false));
        assert_eq!(Location::parse(&location.to_string()).unwrap(), location);
        let location = Location::parse("cassandra://h/k/t?ca=/a%26b/ca.pem&tls=on").unwrap();
        assert_eq!(location.authorities.as_deref(), Some("/a&b/ca.pem"));
        assert_eq!(Location::parse(&location.to_string()).unwrap(), location);
        assert_eq!(Location::parse("cassandra://h/k/t?tls=off").unwrap().authorities, None);
    }

    #[test]
    fn passwords_are_read_and_never_shown() {
        let location = Location::parse("cassandra://ada:se%40cret%25@h/k/t").unwrap();
        assert_eq!((location.user.as_deref(), location.password.as_deref()), (Some("ada"), Some("se@cret%")));
        for text in [location.to_string(), format!("{location:?}")] {
            assert_eq!(text, "cassandra://ada@h/k/t");
        }
        for login in [
            "ada:secret",
            "ada:1/secret",
            "ada:secret/1",
            "ada:9/secret/1",
            "ada:1:secret",
            "ada:1/k/secret",
            "ada:1/k/t?secret",
        ] {
            for rest in ["h/k/t/more", "h/k/t", "h/t", "h"] {
                if let Err(error) = Location::parse(&format!("cassandra://{login}@{rest}")) {
                    assert!(!error.contains("secret"), "{login}@{rest}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("cassandra://h/k", "host1,host2"),
            ("cassandra:///k/t", "names hosts"),
            ("cassandra://h:x/k/t", "port"),
            ("cassandra://h/K/t", "keyspace \"K\""),
            ("cassandra://h/k/a b", "only A-Z"),
            ("cassandra://a%2@h/k/t", "%25"),
            ("cassandra://h/k/t?speed=1", "not a setting"),
            ("cassandra://h/k/t?consistency=none", "quorum or all"),
            ("cassandra://h/k/t?replication=dc1", "data center"),
            ("cassandra://h/k/t?patience=0", "3600"),
            ("cassandra://h/k/t?parallel=x", "1024"),
            ("cassandra://h/k/t?tls=yes", "on or off"),
            ("cassandra://h/k/t?tls=on", "needs ca="),
            ("cassandra://h/k/t?ca=/ca.pem", "needs tls=on"),
        ] {
            let error = Location::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
