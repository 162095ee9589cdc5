//! Who asks: credentials, region and endpoint, from where everyone keeps them.
//!
//! In this order: the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
//! `AWS_SESSION_TOKEN`; the profile `AWS_PROFILE` (or `default`) of `~/.aws/credentials` and
//! `~/.aws/config`; then what the machine is given (a web identity, a container's, an instance's
//! role), which the library finds. A profile that is named is taken before the variables.

use std::collections::BTreeMap;
use std::env::var;
use std::io::ErrorKind;
use std::path::PathBuf;

use object_store::aws::AmazonS3Builder;

use crate::location::Location;

/// What a profile says.
type Profile = BTreeMap<String, String>;

/// A builder that knows who asks, and where.
///
/// # Errors
///
/// What is wrong with the profile, for people.
pub fn builder(location: &Location) -> Result<AmazonS3Builder, String> {
    let named = location.profile.clone();
    let chosen = named.clone().or_else(|| var("AWS_PROFILE").ok().filter(|name| !name.is_empty()));
    let mut builder = AmazonS3Builder::from_env();
    // A profile in the location decides alone: the variables may be somebody else's.
    if named.is_some() {
        builder = AmazonS3Builder::new();
        for (name, set) in [("AWS_ENDPOINT_URL_S3", 1), ("AWS_ENDPOINT_URL", 1), ("AWS_REGION", 0)] {
            if let Ok(value) = var(name) {
                builder = if set == 1 { builder.with_endpoint(value) } else { builder.with_region(value) };
            }
        }
    }
    let has_key = named.is_none() && var("AWS_ACCESS_KEY_ID").is_ok_and(|key| !key.is_empty());
    let is_set = |names: &[&str]| names.iter().any(|name| var(name).is_ok_and(|value| !value.is_empty()));
    if let Some(profile) = profile(chosen.as_deref())? {
        let of = |name: &str| profile.get(name).cloned();
        if let (false, Some(key), Some(secret)) = (has_key, of("aws_access_key_id"), of("aws_secret_access_key")) {
            builder = builder.with_access_key_id(key).with_secret_access_key(secret);
            if let Some(token) = of("aws_session_token") {
                builder = builder.with_token(token);
            }
        }
        if let Some(region) = of("region").filter(|_| !is_set(&["AWS_REGION", "AWS_DEFAULT_REGION"])) {
            builder = builder.with_region(region);
        }
        let given = ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"];
        if let Some(endpoint) = of("endpoint_url").filter(|_| !is_set(&given)) {
            builder = builder.with_endpoint(endpoint);
        }
    }
    Ok(builder)
}

/// The profile of a name, which must be there; of `default` if none is named and it is there.
fn profile(chosen: Option<&str>) -> Result<Option<Profile>, String> {
    let name = chosen.unwrap_or("default");
    let mut found: Option<Profile> = None;
    // What the file of credentials says comes first.
    for (variable, file, prefix) in [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", ""),
        ("AWS_CONFIG_FILE", "config", if name == "default" { "" } else { "profile " }),
    ] {
        let home = || var("HOME").ok().map(|home| PathBuf::from(home).join(".aws").join(file));
        let Some(path) = var(variable).ok().map(PathBuf::from).or_else(home) else { continue };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        if let Some(section) = section(&text, &format!("{prefix}{name}")) {
            let found = found.get_or_insert_default();
            for (key, value) in section {
                found.entry(key).or_insert(value);
            }
        }
    }
    match (found, chosen) {
        (None, Some(name)) => {
            Err(format!("there is no profile {name:?} in the files ~/.aws/credentials and ~/.aws/config"))
        }
        (found, _) => Ok(found),
    }
}

/// The lines `key = value` of a section; settings of settings, which are indented, are passed over.
fn section(text: &str, name: &str) -> Option<Profile> {
    let mut found: Option<Profile> = None;
    let mut inside = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        if let Some(head) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = head.trim() == name;
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (inside && !line.starts_with([' ', '\t']), line.split_once('=')) {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read() {
        let text = "# mine\n[default]\nregion=eu-west-1\n\n[ profile lab ]\nAWS_Access_Key_Id = AKIA = x\n\
                    s3 =\n  addressing_style = path\n; none\nregion = us-east-2\n[other]\nregion = no\n";
        let lab = section(text, "profile lab").unwrap();
        assert_eq!(lab["aws_access_key_id"], "AKIA = x");
        assert_eq!((lab["region"].as_str(), lab.contains_key("addressing_style")), ("us-east-2", false));
        assert_eq!(section(text, "default").unwrap()["region"], "eu-west-1");
        assert_eq!(section(text, "lab"), None);
    }
}
