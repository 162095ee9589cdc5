//! `kubist view`: serves tables to the browser and to programs over HTTP.

use std::time::Duration;

use kubist::Cancel;
use kubist_server::{Options, Server};

use crate::failure::{Failure, Result};
use crate::output::{print, remark};
use crate::{args, browser, token, tunnel};

pub fn run(command: &args::View, cancel: &Cancel) -> Result<()> {
    if command.tables.iter().any(|table| tunnel::is_remote(table)) {
        return tunnel::run(command, cancel);
    }
    let loopback = command.address.is_loopback();
    let token = match &command.token {
        None if !loopback => {
            return Err(Failure::usage(format!(
                "{} can be reached from other machines: give --token with at least 16 letters and digits, \
                 or listen on 127.0.0.1 and connect through ssh -L",
                command.address
            )));
        }
        Some(token) if token == "-" => Some(token::from_input(cancel)?),
        token => token.clone(),
    };
    let is_supervised = command.token.as_deref() == Some("-");
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
    if !is_supervised {
        remark("Ctrl-C stops the server");
    }
    if command.open {
        browser::open(&url);
    }
    while !cancel.is_set() {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    Ok(())
}
