//! Runs the command with limited memory and time.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use kubist::{Result, Table, VerifyOptions};

use super::truth;
use super::{FINE, Outcome, Verdict};

/// Longer than the command needs for a small file on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// Address space in KiB; allocator and threads only reserve most bytes.
const MEMORY: u64 = 6 << 20;
const CODES: [i32; 6] = [0, 1, 2, 3, 4, 130];

pub fn start(folder: &Path, arguments: &[&str]) -> Child {
    let file = |name: &str| File::create(folder.join(name)).expect("a file for what it says");
    Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_kubist")])
        .args(arguments)
        .current_dir(folder)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("the command")
}

/// The exit status; after the time limit, kills the process and returns `None`.
pub fn end(child: &mut Child) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().and_then(|()| child.wait()).expect("a child to kill");
    None
}

pub fn judged(folder: &Path, arguments: &[&str]) -> std::result::Result<i32, Verdict> {
    let mut child = start(folder, arguments);
    let told = |what: &str| format!("kubist {}: {what}", arguments.join(" "));
    let Some(status) = end(&mut child) else { return Err((Outcome::Hang, told("did not end"))) };
    let output = std::fs::read(folder.join("stderr")).expect("what it said");
    let output = String::from_utf8_lossy(&output);
    let code = status.code().filter(|code| CODES.contains(code) && !output.contains("panicked"));
    code.ok_or_else(|| (Outcome::Abort, told(&format!("{status}: {}", output.chars().take(300).collect::<String>()))))
}

pub fn sound_rows(at: &Path) -> std::result::Result<u64, Verdict> {
    let at = at.to_str().expect("a path in UTF-8");
    let look = || -> Result<(u64, Vec<String>)> {
        let table = Table::open(at)?;
        let report = table.verify(&VerifyOptions::deep(), &mut |_, _| {})?;
        Ok((table.snapshot()?.rows()?, report.findings))
    };
    match look() {
        Ok((rows, findings)) if findings.is_empty() => Ok(rows),
        Ok((_, findings)) => Err((Outcome::Wrong, format!("{at} is not sound: {}", findings[0]))),
        Err(kubist::Error::NotATable { .. }) => Ok(0),
        Err(_) if !Path::new(at).exists() => Ok(0),
        Err(error) => Err((Outcome::Wrong, format!("{at} cannot be read: {error}"))),
    }
}

pub fn verdict(found: std::result::Result<(), Verdict>) -> Verdict {
    found.err().unwrap_or(FINE)
}

pub fn all_rows(at: &Path) -> std::result::Result<Vec<String>, Verdict> {
    let answers = truth::answers(at).map_err(|error| (Outcome::Wrong, format!("{}: {error}", at.display())))?;
    Ok(answers.into_iter().next().unwrap_or_default())
}
