//! Tables whose files and folders are links to other users' files: no operation changes anything behind a link.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubist::{Metadata, OptimizeOptions, Result, Table, WriterOptions};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::tables::TABLES;
use super::{Attack, FINE, Outcome, Verdict, set};

struct Links {
    folder: PathBuf,
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    Box::new(Links { folder: folder.to_path_buf() })
}

fn contents(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    set::listed(at).into_iter().map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect()
}

fn precious(at: &Path) {
    for name in [
        "notes.txt",
        "thesis.seg",
        "0123456789abcdef",
        "rank-0.log",
        "rank-0.ack",
        "00000000000000000001",
        "sub/deep.txt",
    ] {
        let path = at.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, format!("{name}: nobody else may change this, and it is longer than an acknowledgement"))
            .expect("a file");
    }
}

fn work(at: &str, what: u32) -> Result<()> {
    let golden = TABLES.iter().find(|golden| golden.name == "outlook").expect("a golden table");
    let table = Table::open(at)?;
    if what != 1 {
        let mut writer = table.writer(&WriterOptions {
            name: Some("rank-0".into()),
            memory_bytes: Some(4096),
            ..Default::default()
        })?;
        writer.append(&golden.more.expect("rows")())?;
        writer.commit()?;
    }
    match what {
        0 | 1 => table.optimize(&OptimizeOptions { debt_share: 0.0, ..Default::default() }, &mut |_, _| {}).map(drop),
        2 => table.set_metadata(None, &Metadata::from([("note".into(), "x".into())])),
        3 => table.clean(Duration::ZERO).and_then(|_| table.clean(Duration::ZERO)).map(drop),
        _ => Table::drop_at(at, true).map(drop),
    }
}

impl Attack for Links {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let (at, victim) = (self.folder.join("table"), self.folder.join("victim"));
        for folder in [&at, &victim] {
            let _ = fs::remove_dir_all(folder);
        }
        set::copied(&set::newest().join("outlook/table"), &at);
        precious(&victim);
        let folders = ["tmp", "logs", "segments", "rewrites", "checkpoints", "leases", "garbage", "alterations"];
        let linked = match random.random_bool(0.5) {
            true => {
                // The folder's own files move behind the link, so that the table still opens.
                let name = folders.choose(random).expect("names");
                let (from, to) = (at.join(name), victim.join(name));
                fs::create_dir_all(&from).expect("a folder of the table");
                fs::create_dir_all(&to).expect("a folder of the victim's");
                set::copied(&from, &to);
                precious(&to);
                fs::remove_dir_all(&from).expect("the folder");
                symlink(&to, &from).expect("a link");
                name.to_string()
            }
            false => {
                let files = set::listed(&at);
                let file = files.choose(random).expect("files");
                let to = victim.join("linked");
                fs::rename(file, &to).expect("a file behind the link");
                symlink(&to, file).expect("a link");
                file.strip_prefix(&at).expect("within").display().to_string()
            }
        };
        let before = contents(&victim);
        let what = random.random_range(0..5);
        let done = work(at.to_str().expect("UTF-8"), what);
        let after = contents(&victim);
        let names = before.keys().chain(after.keys());
        let changed: Vec<&PathBuf> = names.filter(|path| before.get(*path) != after.get(*path)).collect();
        match changed.first() {
            None => FINE,
            Some(first) => {
                let told = format!("{} files behind it are others, as {}", changed.len(), first.display());
                (Outcome::Wrong, format!("work {what} on a table with the link {linked} ({done:?}): {told}"))
            }
        }
    }
}
