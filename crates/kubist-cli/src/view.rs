//! `kubist view`: tables in the browser, and for programs over HTTP.

use std::io::{BufRead, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use kubist::Cancel;
use kubist_server::{Options, Server};

use crate::args;
use crate::failure::{Failure, Result};
use crate::output::{print, remark};
use crate::tunnel;

pub fn run(command: &args::View, cancel: &Cancel) -> Result<()> {
    if command.tables.iter().any(|table| tunnel::is_remote(table)) {
        return tunnel::run(command, cancel);
    }
    let loopback = command.address.is_loopback();
    let token = match &command.token {
        None if !loopback => {
            return Err(Failure::usage(format!(
                "{} can be reached from elsewhere: say --token with at least 16 letters and digits, \
                 or stay on 127.0.0.1 and come through ssh -L",
                command.address
            )));
        }
        Some(token) if token == "-" => Some(attended(cancel)?),
        token => token.clone(),
    };
    let attended = command.token.as_deref() == Some("-");
    let options = Options {
        tables: command.tables.iter().map(|table| (**table).to_owned()).collect(),
        address: command.address,
        port: command.port,
        token: token.clone(),
        ..Options::default()
    };
    let server = Server::start(&options)?;
    let query = token.map_or(String::new(), |token| format!("?token={token}"));
    let url = format!("http://{}/{query}", server.address());
    print(&format!("{url}\n"))?;
    if !attended {
        remark("Ctrl-C stops");
    }
    if command.open {
        open(&url);
    }
    while !cancel.is_set() {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    Ok(())
}

/// Starts the browser.
pub fn open(url: &str) {
    let mut browser = Command::new("xdg-open");
    browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if browser.spawn().is_err() {
        remark("no browser could be started: open the address yourself");
    }
}

/// The token from standard input, whose end then ends the server.
pub fn attended(cancel: &Cancel) -> Result<String> {
    let mut token = String::new();
    let read = std::io::stdin().lock().read_line(&mut token);
    read.map_err(|error| Failure::io(std::path::Path::new("standard input"), &error))?;
    let cancel = cancel.clone();
    std::thread::spawn(move || {
        let mut rest = [0; 256];
        while matches!(std::io::stdin().lock().read(&mut rest), Ok(1..)) {}
        cancel.set();
    });
    Ok(token.trim().to_string())
}
