//! Child processes that run tries, and the parent that counts them. A child prints `begin N` before each try
//! and its verdict afterwards. If it ends in between, it has aborted; if it is silent for too long, it hangs
//! and is killed. The next child continues after that try.

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::{Kind, Outcome, Verdict, number};

/// Longer than any try on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Address space of a child in KiB, far more than its small tables need.
const MEMORY: u64 = 8 << 20;
const MOST_FAILURES: usize = 100;
const MOST_HANGS: usize = 5;

const VERDICTS: [(&str, Outcome); 5] = [
    ("fine", Outcome::Fine),
    ("wrong", Outcome::Wrong),
    ("lost", Outcome::Lost),
    ("abort", Outcome::Abort),
    ("hang", Outcome::Hang),
];

pub fn play(kind: &Kind) {
    let (first, end, seed) = (number("KUBIST_FIRST", 0), number("KUBIST_END", 0), number("SEED", 1));
    let folder = tempfile::tempdir().expect("a folder");
    let prepared = std::panic::catch_unwind(|| (kind.prepare)(folder.path()));
    let mut attack = match prepared {
        Ok(attack) => attack,
        Err(panic) => return say(&format!("unprepared 0 {}", text_of(panic))),
    };
    for number in first..end {
        say(&format!("begin {number}"));
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| attack.play(&mut random)));
        let (outcome, why) = played.unwrap_or_else(|panic| (Outcome::Abort, format!("panic: {}", text_of(panic))));
        let word = VERDICTS.iter().find(|(_, of)| *of == outcome).expect("all are listed").0;
        say(&format!("{word} {number} {}", why.replace('\n', " ")));
    }
    say("end");
}

fn text_of(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default().replace('\n', " ")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nhostile: {line}").and_then(|()| out.flush()).expect("a parent who listens");
}

pub fn campaign(kind: &Kind, tries: Range<u64>, seed: u64) -> (u64, Vec<(u64, Verdict)>) {
    let mut found = Vec::new();
    let mut next = tries.start;
    let hangs = |found: &[(u64, Verdict)]| found.iter().filter(|(_, verdict)| verdict.0 == Outcome::Hang).count();
    while next < tries.end && found.len() < MOST_FAILURES && hangs(&found) < MOST_HANGS {
        let (reached, bad) = one_child(kind, next..tries.end, seed, &mut found);
        if let Some((outcome, why)) = bad {
            found.push((reached, (outcome, why)));
        }
        next = reached + 1;
    }
    (next.min(tries.end) - tries.start, found)
}

fn one_child(kind: &Kind, tries: Range<u64>, seed: u64, found: &mut Vec<(u64, Verdict)>) -> (u64, Option<Verdict>) {
    let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "campaign::in_a_child", "--nocapture", "--test-threads=1"])
        .envs([("KUBIST_HOSTILE", kind.name)])
        .envs(
            [("KUBIST_FIRST", tries.start), ("KUBIST_END", tries.end), ("SEED", seed)].map(|(k, v)| (k, v.to_string())),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let (send, lines) = channel();
    let out = child.stdout.take().expect("its output");
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
            if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut at = tries.start;
    let mut begun = false;
    let ended = loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let Some(output) = line.strip_prefix("hostile: ") else { continue };
                let mut parts = output.splitn(3, ' ');
                let (word, number) = (parts.next().unwrap_or(""), parts.next().and_then(|number| number.parse().ok()));
                if word == "end" {
                    break None;
                }
                assert_ne!(word, "unprepared", "{}: {output}", kind.name);
                at = number.unwrap_or(at);
                begun = word == "begin";
                let outcome =
                    VERDICTS.iter().find(|(of, _)| *of == word).map_or(Outcome::Fine, |(_, outcome)| *outcome);
                if outcome != Outcome::Fine {
                    found.push((at, (outcome, parts.next().unwrap_or("").into())));
                }
            }
            Err(RecvTimeoutError::Timeout) => break Some((Outcome::Hang, format!("silent for {PATIENCE:?}"))),
            Err(RecvTimeoutError::Disconnected) if begun => break Some((Outcome::Abort, "the process died".into())),
            Err(RecvTimeoutError::Disconnected) => {
                break Some((Outcome::Abort, "the process died between tries".into()));
            }
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    let _ = reader.join();
    match ended {
        None => (tries.end, None),
        bad => (at, bad),
    }
}
