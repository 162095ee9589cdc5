//! Random histories: sites change a map of sets, registers and counters and exchange states at random. Each
//! operation records the operations that its site had seen, for the brute-force oracle.

use std::collections::BTreeSet;

use kubist_crdt::{Causal, Change, Context, Dot, DotFun, DotMap, DotSet, DotStore, Tally};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Record {
    pub tags: DotMap<u8, DotSet<u8>>,
    pub note: DotFun<u8, u32>,
    pub reads: DotFun<u8, Tally>,
}

impl DotStore<u8> for Record {
    fn is_empty(&self) -> bool {
        DotStore::<u8>::is_empty(&self.tags) && self.note.is_empty() && self.reads.is_empty()
    }

    fn each_dot(&self, each: &mut dyn FnMut(Dot<u8>)) {
        self.tags.each_dot(each);
        self.note.each_dot(each);
        self.reads.each_dot(each);
    }

    fn only(&self, keep: &dyn Fn(Dot<u8>) -> bool) -> Record {
        Record { tags: self.tags.only(keep), note: self.note.only(keep), reads: self.reads.only(keep) }
    }

    fn join(&mut self, own: &Context<u8>, other: &Record, others: &Context<u8>) {
        self.tags.join(own, &other.tags, others);
        self.note.join(own, &other.note, others);
        self.reads.join(own, &other.reads, others);
    }
}

pub type Map = DotMap<u8, Record>;
pub type State = Causal<u8, Map>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Tag(u8, u8),
    Untag(u8, u8),
    Note(u8, u32),
    Count(u8, i64),
    Remove(u8),
}

pub fn random_op(random: &mut StdRng) -> Op {
    let key = random.random_range(0..3);
    match random.random_range(0..10) {
        0..3 => Op::Tag(key, random.random_range(0..3)),
        3..5 => Op::Untag(key, random.random_range(0..3)),
        5..7 => Op::Note(key, random.random()),
        7..9 => Op::Count(key, random.random_range(-3..4)),
        _ => Op::Remove(key),
    }
}

fn within<S>(change: Change<u8, S>, wrap: impl FnOnce(S) -> Record) -> Change<u8, Record> {
    Change { added: wrap(change.added), gone: change.gone }
}

pub fn effect(op: Op, map: &Map, dot: Dot<u8>) -> Change<u8, Map> {
    match op {
        Op::Tag(key, tag) => map
            .changing(key, |record| within(record.tags.adding(tag, dot), |tags| Record { tags, ..Record::default() })),
        Op::Untag(key, tag) => {
            map.changing(key, |record| within(record.tags.removing(&tag), |tags| Record { tags, ..Record::default() }))
        }
        Op::Note(key, value) => map.changing(key, |record| {
            within(record.note.writing(value, dot), |note| Record { note, ..Record::default() })
        }),
        Op::Count(key, amount) => map.changing(key, |record| {
            within(record.reads.counting(amount, dot), |reads| Record { reads, ..Record::default() })
        }),
        Op::Remove(key) => map.removing(&key),
    }
}

pub struct Noted {
    pub op: Op,
    pub seen: BTreeSet<usize>,
}

pub struct History {
    pub ops: Vec<Noted>,
    pub states: Vec<State>,
    pub earlier: Vec<State>,
}

pub fn history(seed: u64) -> History {
    let mut random = StdRng::seed_from_u64(seed);
    let sites = random.random_range(3..6usize);
    let mut states = vec![State::default(); sites];
    let mut seen = vec![BTreeSet::new(); sites];
    let (mut ops, mut earlier) = (Vec::new(), Vec::new());
    for _ in 0..random.random_range(1..40) {
        let site = random.random_range(0..sites);
        if random.random_range(0..3) == 0 {
            let other = random.random_range(0..sites);
            let (theirs, known) = (states[other].clone(), seen[other].clone());
            states[site].join(&theirs);
            seen[site].extend(known);
        } else {
            let op = random_op(&mut random);
            states[site].change(site as u8, |map, dot| effect(op, map, dot));
            ops.push(Noted { op, seen: seen[site].clone() });
            seen[site].insert(ops.len() - 1);
        }
        if random.random_range(0..4) == 0 {
            earlier.push(states[site].clone());
        }
    }
    History { ops, states, earlier }
}

pub fn joined<'a>(states: impl IntoIterator<Item = &'a State>) -> State {
    let mut all = State::default();
    states.into_iter().for_each(|state| all.join(state));
    all
}
