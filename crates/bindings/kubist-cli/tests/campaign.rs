//! The hostile campaign: damaged, crafted or badly timed input gets a correct result or an error, in bounded
//! time and memory.
//!
//! Each file below is one kind of attack. Outcomes: wrong (a result differs from the truth without an error),
//! silent loss (rows are missing without an error), abort (a process dies; a panic counts), hang. Tries run in
//! child processes with a memory limit, so that the campaign continues after an abort.
//!
//! The test runs a short part; `make hostile` runs `TRIES=n` from `SEED=n` and prints the counts. `ONLY=kind`
//! runs one kind, `ONLY=kind:number` repeats one try.

#[path = "../../../engine/kubist/tests/golden/questions.rs"]
mod questions;
#[path = "../../../engine/kubist/tests/golden/set.rs"]
mod set;
#[path = "../../../engine/kubist/tests/golden/tables.rs"]
mod tables;
#[path = "../../../engine/kubist/tests/golden/values.rs"]
mod values;

#[path = "hostile/child.rs"]
mod child;
#[path = "hostile/command.rs"]
mod command;
#[path = "hostile/crafted.rs"]
mod crafted;
#[path = "hostile/expressions.rs"]
mod expressions;
#[path = "hostile/flips.rs"]
mod flips;
#[path = "hostile/frames.rs"]
mod frames;
#[path = "hostile/http.rs"]
mod http;
#[path = "hostile/inputs.rs"]
mod inputs;
#[path = "hostile/links.rs"]
mod links;
#[path = "hostile/moments.rs"]
mod moments;
#[path = "hostile/truth.rs"]
mod truth;

use std::path::Path;

use rand::rngs::StdRng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Fine,
    Wrong,
    Lost,
    Abort,
    Hang,
}

pub type Verdict = (Outcome, String);

pub const FINE: Verdict = (Outcome::Fine, String::new());

pub trait Attack {
    /// Runs a try, which depends on the random numbers only.
    fn play(&mut self, random: &mut StdRng) -> Verdict;
}

struct Kind {
    name: &'static str,
    /// Its fraction of all tries, in thousandths.
    share: u64,
    prepare: fn(&Path) -> Box<dyn Attack>,
}

const KINDS: [Kind; 8] = [
    Kind { name: "flips", share: 380, prepare: flips::prepare },
    Kind { name: "crafted", share: 280, prepare: crafted::prepare },
    Kind { name: "expressions", share: 200, prepare: expressions::prepare },
    Kind { name: "inputs", share: 70, prepare: inputs::prepare },
    Kind { name: "http", share: 50, prepare: http::prepare },
    Kind { name: "links", share: 15, prepare: links::prepare },
    Kind { name: "kills", share: 3, prepare: moments::prepare_kills },
    Kind { name: "stalls", share: 2, prepare: moments::prepare_stalls },
];

const SLICE: u64 = 400;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn in_a_child() {
    let Ok(name) = std::env::var("KUBIST_HOSTILE") else { return };
    let kind = KINDS.iter().find(|kind| kind.name == name).expect("a kind");
    child::play(kind);
}

#[test]
fn nothing_hostile_gets_a_wrong_answer_an_abort_or_a_loss() {
    let (tries, seed) = (number("TRIES", SLICE), number("SEED", 1));
    let only = std::env::var("ONLY").ok();
    let (only, one) = match only.as_deref().map(|only| only.split_once(':').map_or((only, None), |(k, n)| (k, Some(n))))
    {
        Some((kind, number)) => (Some(kind), number.map(|number| number.parse::<u64>().expect("a try's number"))),
        None => (None, None),
    };
    let mut bad = 0;
    println!("{:12} {:>7} {:>7} {:>7} {:>7} {:>7}", "kind", "tries", "wrong", "lost", "aborts", "hangs");
    for kind in KINDS.iter().filter(|kind| only.is_none_or(|only| only == kind.name)) {
        let tries = match one {
            Some(first) => first..first + 1,
            None => 0..(tries * kind.share).div_ceil(1000),
        };
        let (count, found) = child::campaign(kind, tries, seed);
        let of = |outcome| found.iter().filter(|(_, verdict)| verdict.0 == outcome).count();
        let [wrong, lost, aborts, hangs] = [Outcome::Wrong, Outcome::Lost, Outcome::Abort, Outcome::Hang].map(of);
        println!("{:12} {count:7} {wrong:7} {lost:7} {aborts:7} {hangs:7}", kind.name);
        for (number, (outcome, why)) in found.iter().take(10) {
            println!("    {outcome:?}, SEED={seed} ONLY={}:{number}: {why}", kind.name);
        }
        bad += found.len();
    }
    assert_eq!(bad, 0, "of all tries");
}
