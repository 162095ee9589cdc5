//! The token of a server from standard input, which other users of the machine cannot see.

use std::io::{BufRead, Read};
use std::path::Path;

use kubist::Cancel;

use crate::failure::{Failure, Result};

/// The end of standard input then cancels the server.
pub fn from_input(cancel: &Cancel) -> Result<String> {
    let mut token = String::new();
    let read = std::io::stdin().lock().read_line(&mut token);
    read.map_err(|error| Failure::io(Path::new("standard input"), &error))?;
    let cancel = cancel.clone();
    std::thread::spawn(move || {
        let mut rest = [0; 256];
        while matches!(std::io::stdin().lock().read(&mut rest), Ok(1..)) {}
        cancel.set();
    });
    Ok(token.trim().to_string())
}
