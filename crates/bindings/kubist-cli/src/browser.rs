//! Opens the explorer page in the user's browser.

use std::process::{Command, Stdio};

use crate::output::remark;

pub fn open(url: &str) {
    let mut browser = Command::new("xdg-open");
    browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if browser.spawn().is_err() {
        remark("the browser could not be started: open the address yourself");
    }
}
