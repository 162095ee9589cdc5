//! `kubist view`: tables in the browser, and for programs over HTTP.

use std::process::{Command, Stdio};
use std::time::Duration;

use kubist::Cancel;
use kubist_server::{Options, Server};

use crate::args;
use crate::failure::{Failure, Result};
use crate::output::{print, remark};

pub fn run(command: &args::View, cancel: &Cancel) -> Result<()> {
    let loopback = command.address.is_loopback();
    let token = match &command.token {
        None if !loopback => {
            return Err(Failure::usage(format!(
                "{} can be reached from elsewhere: say --token with at least 16 letters and digits, \
                 or stay on 127.0.0.1 and come through ssh -L",
                command.address
            )));
        }
        token => token.clone(),
    };
    let options = Options {
        tables: command.tables.clone(),
        address: command.address,
        port: command.port,
        token: token.clone(),
        ..Options::default()
    };
    let server = Server::start(&options)?;
    let query = token.map_or(String::new(), |token| format!("?token={token}"));
    let url = format!("http://{}/{query}", server.address());
    print(&format!("{url}\n"))?;
    remark("Ctrl-C stops");
    if command.open && !opened(&url) {
        remark("no browser could be started: open the address yourself");
    }
    while !cancel.is_set() {
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    Ok(())
}

fn opened(url: &str) -> bool {
    let mut browser = Command::new("xdg-open");
    browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    browser.spawn().is_ok()
}
