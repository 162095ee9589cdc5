//! Processes that are killed, or stopped and continued much later, at any time. Acknowledged rows exist, a copy
//! is complete or not a table, and the same command works again.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;

use super::command::{all_rows, end, judged, sound_rows, start, verdict};
use super::tables::TABLES;
use super::{Attack, Outcome, Verdict, set};

struct Moments {
    folder: PathBuf,
    whole: Vec<String>,
    play: fn(&Moments, &mut StdRng) -> Result<(), Verdict>,
}

pub fn prepare_kills(folder: &Path) -> Box<dyn Attack> {
    prepare(folder, Moments::kill)
}

pub fn prepare_stalls(folder: &Path) -> Box<dyn Attack> {
    prepare(folder, Moments::stall)
}

fn prepare(folder: &Path, play: fn(&Moments, &mut StdRng) -> Result<(), Verdict>) -> Box<dyn Attack> {
    let golden = TABLES.iter().find(|golden| golden.name == "pages").expect("a golden table");
    golden.write(&folder.join("from"));
    let whole = all_rows(&folder.join("from")).expect("a sound table");
    assert!(matches!(judged(folder, &["query", "from", "-o", "rows.parquet"]), Ok(0)));
    Box::new(Moments { folder: folder.to_path_buf(), whole, play })
}

impl Attack for Moments {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        verdict((self.play)(self, random))
    }
}

fn signal(child: &Child, name: &str) {
    let told = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().expect("kill");
    // A process that has ended cannot be signalled.
    let _ = told;
}

fn wait(random: &mut StdRng, most: u64) {
    std::thread::sleep(Duration::from_micros(random.random_range(0..most)));
}

impl Moments {
    fn fresh(&self, name: &str) -> PathBuf {
        let at = self.folder.join(name);
        let _ = fs::remove_dir_all(&at);
        set::copied(&self.folder.join("from"), &at);
        at
    }

    fn kill(&self, random: &mut StdRng) -> Result<(), Verdict> {
        let to = self.folder.join("to");
        let _ = fs::remove_dir_all(&to);
        let ingest = ["ingest", "to", "rows.parquet", "--dimensions", "x,y", "--identity", "pid"];
        let arguments: &[&str] = match random.random_range(0..3) {
            0 => &["copy", "from", "to"],
            1 => &["salvage", "from", "to"],
            _ => &ingest,
        };
        let mut child = start(&self.folder, arguments);
        wait(random, 80_000);
        signal(&child, "KILL");
        let ended = end(&mut child).ok_or((Outcome::Hang, "a killed process lives on".to_string()))?;
        let rows = sound_rows(&to)?;
        let whole = self.whole.len() as u64;
        let told = |what: String| format!("kubist {}, killed: {what}", arguments.join(" "));
        let is_table = kubist::Table::open(to.to_str().expect("UTF-8")).is_ok();
        // An ingest creates the table first; its rows become visible together.
        let may_be_empty = arguments[0] == "ingest" && rows == 0;
        if is_table && rows != whole && !may_be_empty {
            return Err((Outcome::Lost, told(format!("a table of {rows} rows of {whole} opens"))));
        }
        if ended.success() && rows != whole {
            return Err((Outcome::Lost, told(format!("it succeeded, and {rows} of {whole} rows are there"))));
        }
        // Runs again; a complete table may be refused at its location.
        let code = judged(&self.folder, arguments)?;
        let rows = sound_rows(&to)?;
        match rows == whole {
            true => Ok(()),
            false => Err((Outcome::Lost, told(format!("again: exit code {code}, {rows} of {whole} rows")))),
        }
    }

    fn stall(&self, random: &mut StdRng) -> Result<(), Verdict> {
        let at = self.fresh("stalled");
        let (mut stalled, gains) = match random.random_bool(0.5) {
            true => (start(&self.folder, &["ingest", "stalled", "rows.parquet", "--again"]), self.whole.len() as u64),
            false => (start(&self.folder, &["optimize", "stalled"]), 0),
        };
        wait(random, 60_000);
        signal(&stalled, "STOP");
        for arguments in [
            ["optimize", "stalled"].as_slice(),
            &["clean", "stalled", "--retention-hours", "0"],
            &["clean", "stalled", "--retention-hours", "0"],
        ] {
            if let Err(bad) = judged(&self.folder, arguments) {
                signal(&stalled, "CONT");
                end(&mut stalled);
                return Err(bad);
            }
        }
        signal(&stalled, "CONT");
        let ended = end(&mut stalled).ok_or((Outcome::Hang, "a process that was woken up does not end".to_string()))?;
        let (rows, before) = (sound_rows(&at)?, self.whole.len() as u64);
        match rows == before + gains || (!ended.success() && rows == before) {
            true => Ok(()),
            false => Err((
                Outcome::Lost,
                format!("{rows} rows after a stall; {before} before, {gains} more were to come ({ended})"),
            )),
        }
    }
}
