//! The location of a store: `s3://bucket/prefix[?setting=value&...]`.
//!
//! It contains no key and no password, so it can be shown and passed to other processes. `credentials` finds them in
//! the usual places.

use std::fmt;
use std::time::Duration;

use kubist_store::names::check_part;

const SCHEME: &str = "s3://";
const PATIENCE: Duration = Duration::from_secs(30);
const PARALLEL: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub bucket: String,
    /// The common prefix of the store's keys, without a final slash.
    pub prefix: String,
    /// The address of the service, if it is not Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// Whether the bucket is part of the host name instead of the path.
    pub virtual_hosted: Option<bool>,
    pub profile: Option<String>,
    pub authorities: Option<String>,
    pub patience: Duration,
    pub patience_is_given: bool,
    pub parallel: usize,
    settings: String,
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{SCHEME}{}/{}", self.bucket, self.prefix)?;
        match self.settings.is_empty() {
            true => Ok(()),
            false => write!(out, "?{}", self.settings),
        }
    }
}

impl Location {
    /// Parses a location; the error does not repeat text that may be a key.
    ///
    /// # Errors
    ///
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Location, String> {
        let form = || format!("a location is {SCHEME}bucket/prefix");
        let rest = text.strip_prefix(SCHEME).ok_or_else(form)?;
        let (path, settings) = rest.split_once('?').unwrap_or((rest, ""));
        let (bucket, prefix) = path.split_once('/').ok_or_else(form)?;
        if bucket.contains(['@', ':']) || prefix.contains('@') {
            return Err("a location must not contain keys: set them in the environment or in a profile".into());
        }
        let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(known) {
            return Err(format!("bucket {bucket:?}: a name is 3 to 63 of a-z, 0-9, - and ."));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() {
            return Err(form());
        }
        for part in prefix.split('/') {
            check_part(part).map_err(|error| error.to_string())?;
        }
        let mut location = Location {
            bucket: bucket.into(),
            prefix: prefix.into(),
            endpoint: None,
            region: None,
            virtual_hosted: None,
            profile: None,
            authorities: None,
            patience: PATIENCE,
            patience_is_given: false,
            parallel: PARALLEL,
            settings: settings.into(),
        };
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            location.set(setting)?;
        }
        Ok(location)
    }

    fn set(&mut self, setting: &str) -> Result<(), String> {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let bad = |what: &str| format!("{name}={value}: it is {what}");
        match name {
            "endpoint" => {
                if !value.starts_with("http://") && !value.starts_with("https://") || value.contains('@') {
                    return Err(format!("{name}: it is http://host:port or https://host"));
                }
                self.endpoint = Some(value.trim_end_matches('/').into());
            }
            "region" => self.region = Some(value.into()),
            "profile" => self.profile = Some(value.into()),
            "ca" => self.authorities = Some(value.into()),
            "style" => {
                self.virtual_hosted = Some(match value {
                    "path" => false,
                    "virtual" => true,
                    _ => return Err(bad("path or virtual")),
                })
            }
            "patience" => {
                let seconds = value.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
                self.patience = Duration::from_secs(seconds.ok_or_else(|| bad("1 to 3600 seconds"))?);
                self.patience_is_given = true;
            }
            "parallel" => {
                let requests = value.parse().ok().filter(|requests| (1..=1024).contains(requests));
                self.parallel = requests.ok_or_else(|| bad("1 to 1024 requests at once"))?;
            }
            _ => {
                return Err(format!(
                    "{name:?} is not a setting: there are endpoint, region, style, profile, ca, patience and parallel"
                ));
            }
        }
        Ok(())
    }

    /// The location with `suffix` after the prefix, and another number of concurrent requests.
    pub fn beside(&self, suffix: &str, requests: usize) -> String {
        let settings = self.settings.split('&').filter(|setting| !setting.starts_with("parallel="));
        let settings: Vec<&str> = settings.filter(|setting| !setting.is_empty()).collect();
        let between = if settings.is_empty() { "" } else { "&" };
        let settings = settings.join("&");
        format!("{SCHEME}{}/{}{suffix}?{settings}{between}parallel={requests}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read() {
        let location = Location::parse("s3://bucket/runs/drops.2/").unwrap();
        assert_eq!((location.bucket.as_str(), location.prefix.as_str()), ("bucket", "runs/drops.2"));
        assert_eq!(location.to_string(), "s3://bucket/runs/drops.2");
        let text = "s3://my-bucket/t?endpoint=http://127.0.0.1:7070&region=eu-west-1&style=path&patience=5&parallel=8";
        let location = Location::parse(text).unwrap();
        assert_eq!(location.endpoint.as_deref(), Some("http://127.0.0.1:7070"));
        assert_eq!((location.region.as_deref(), location.virtual_hosted), (Some("eu-west-1"), Some(false)));
        assert_eq!((location.patience, location.parallel), (Duration::from_secs(5), 8));
        assert_eq!(location.to_string(), text);
        let beside = Location::parse(&location.beside(".fit", 3)).unwrap();
        assert_eq!((beside.prefix.as_str(), beside.parallel), ("t.fit", 3));
        assert_eq!(beside.endpoint, location.endpoint);
        assert_eq!(Location::parse("s3://bucket/t").unwrap().beside(".fit", 3), "s3://bucket/t.fit?parallel=3");
    }

    #[test]
    fn what_is_wrong_is_said_without_a_key() {
        for (text, word) in [
            ("s3://bucket", "s3://bucket/prefix"),
            ("s3://bucket/", "s3://bucket/prefix"),
            ("s3://ab/t", "3 to 63"),
            ("s3://Bucket/t", "3 to 63"),
            ("s3://bucket/a b", "only A-Z"),
            ("s3://bucket/a//b", "empty"),
            ("s3://bucket/../t", "dot"),
            ("s3://AKIA:secret@bucket/t", "environment"),
            ("s3://bucket/t?endpoint=https://AKIA:secret@host", "http://host:port"),
            ("s3://bucket/t?endpoint=127.0.0.1", "http://host:port"),
            ("s3://bucket/t?style=old", "path or virtual"),
            ("s3://bucket/t?patience=0", "3600"),
            ("s3://bucket/t?parallel=x", "1024"),
            ("s3://bucket/t?speed=1", "not a setting"),
        ] {
            let error = Location::parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
