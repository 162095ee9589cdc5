//! A model of the log protocol (`logs`, `epochs`) in random histories. Requests reach the three replicas late, in any
//! order, or never. Owners and readers are slow or die between any two steps. A read repairs only the columns that it
//! requests. The model has no clock, so it covers any clock skew.
//!
//! With all rules, every history is correct, and without any single rule, some histories fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// An owner acknowledges an entry without reading the newest epoch.
    OwnerDoesNotLook,
    /// An owner reads the newest epoch before it writes the entry.
    OwnerLooksFirst,
    /// A new owner reads the log before it begins its epoch.
    TakerReadsFirst,
    /// A reader reads the epochs before the log.
    ReaderReadsEpochsFirst,
    /// Reading an entry that only a minority has does not repair it.
    ReadsDoNotRepair,
    /// The start is decided by the heads alone, although only a minority may have the last entry's bytes.
    LastIsNotReadInFull,
    /// A reader that finds an epoch without a start does not decide it.
    ReaderDoesNotSettle,
    /// A new owner begins its epoch although the previous epoch has no start.
    TakersCross,
    /// The last decision on a start counts, instead of the first.
    StartsAreOverwritten,
    /// Entries of every epoch count.
    NothingIsVoid,
}

type Row = (usize, usize, u32);

/// What a replica has of a row: the head, the bytes, or both.
#[derive(Default)]
struct Replica {
    heads: BTreeSet<Row>,
    bytes: BTreeSet<Row>,
}

struct World {
    rng: SmallRng,
    fault: Fault,
    replicas: [Replica; 3],
    requests: Vec<(usize, Row)>,
    starts: Vec<Option<usize>>,
    next: u32,
    acknowledged: BTreeSet<u32>,
    seen: Vec<u32>,
    wrong: Option<String>,
}

type Shared = Rc<RefCell<World>>;

fn pause() -> impl Future<Output = ()> {
    let mut paused = false;
    std::future::poll_fn(move |_| match std::mem::replace(&mut paused, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

async fn write(world: &Shared, row: Row) -> bool {
    world.borrow_mut().requests.extend((0..3).map(|replica| (replica, row)));
    loop {
        pause().await;
        let mut world = world.borrow_mut();
        if world.replicas.iter().filter(|replica| replica.bytes.contains(&row)).count() >= 2 {
            return true;
        }
        if world.rng.random_bool(0.05) {
            return false;
        }
    }
}

async fn read(world: &Shared) -> BTreeSet<Row> {
    let (heads, bytes) = ask(world, true).await;
    heads.intersection(&bytes).copied().collect()
}

async fn read_heads(world: &Shared) -> BTreeSet<Row> {
    ask(world, false).await.0
}

async fn ask(world: &Shared, in_full: bool) -> (BTreeSet<Row>, BTreeSet<Row>) {
    let absent = world.borrow_mut().rng.random_range(0..3);
    let asked: Vec<usize> = (0..3).filter(|replica| *replica != absent).collect();
    let (mut heads, mut bytes) = (BTreeSet::new(), BTreeSet::new());
    for replica in &asked {
        heads.extend(&world.borrow().replicas[*replica].heads);
        if in_full {
            bytes.extend(&world.borrow().replicas[*replica].bytes);
        }
        pause().await;
    }
    if world.borrow().fault != Fault::ReadsDoNotRepair {
        for replica in asked {
            {
                let repaired = &mut world.borrow_mut().replicas[replica];
                repaired.heads.extend(&heads);
                repaired.bytes.extend(&bytes);
            }
            pause().await;
        }
    }
    (heads, bytes)
}

fn chain(rows: &BTreeSet<Row>, starts: &[Option<usize>], fault: Fault) -> Vec<u32> {
    let mut entries: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (position, epoch, entry) in rows {
        entries.insert((*position, if fault == Fault::NothingIsVoid { 0 } else { *epoch }), *entry);
    }
    let of = |position: usize| match fault {
        Fault::NothingIsVoid => Some(0),
        _ => (1..=starts.len()).rev().find(|epoch| starts[epoch - 1].is_some_and(|start| start <= position)),
    };
    let entry = |position: usize| entries.get(&(position, of(position)?)).copied();
    (0..).map_while(entry).collect()
}

async fn settle(world: &Shared, epoch: usize, known: Option<BTreeSet<Row>>) {
    let is_early = known.is_some();
    let heads = match known {
        Some(rows) => rows,
        None => read_heads(world).await,
    };
    let length = |rows: &BTreeSet<Row>| {
        let world = world.borrow();
        chain(rows, &world.starts[..epoch - 1], world.fault).len()
    };
    let mut end = length(&heads);
    let fault = world.borrow().fault;
    if !is_early && fault != Fault::LastIsNotReadInFull {
        pause().await;
        // Only the last entry can be incomplete.
        let rows = read(world).await;
        let newest = world.borrow().starts[..epoch - 1].iter().rev().find_map(|start| *start).unwrap_or(0);
        if length(&rows) < end && end > newest {
            end -= 1;
        }
    }
    pause().await;
    let mut world = world.borrow_mut();
    if world.starts[epoch - 1].is_none() || world.fault == Fault::StartsAreOverwritten {
        world.starts[epoch - 1] = Some(end);
    }
}

async fn own(world: Shared) {
    let fault = world.borrow().fault;
    let early = match fault {
        Fault::TakerReadsFirst => Some(read(&world).await),
        _ => None,
    };
    let epoch = loop {
        let newest = world.borrow().starts.len();
        let open = newest > 0 && world.borrow().starts[newest - 1].is_none();
        if open && fault != Fault::TakersCross {
            settle(&world, newest, None).await;
            continue;
        }
        pause().await;
        let mut world = world.borrow_mut();
        if world.starts.len() == newest {
            world.starts.push(None);
            break newest + 1;
        }
    };
    pause().await;
    settle(&world, epoch, early).await;
    pause().await;
    let start = world.borrow().starts[epoch - 1];
    let Some(mut position) = start else { return };
    loop {
        pause().await;
        if world.borrow_mut().rng.random_bool(0.1) {
            return;
        }
        let looked = world.borrow().starts.len();
        let entry = {
            let mut world = world.borrow_mut();
            world.next += 1;
            world.next
        };
        if !write(&world, (position, epoch, entry)).await {
            return;
        }
        pause().await;
        let mut world = world.borrow_mut();
        let newest = if fault == Fault::OwnerLooksFirst { looked } else { world.starts.len() };
        if newest != epoch && fault != Fault::OwnerDoesNotLook {
            return;
        }
        world.acknowledged.insert(entry);
        position += 1;
    }
}

async fn follow(world: Shared) {
    loop {
        pause().await;
        let fault = world.borrow().fault;
        let (acknowledged, seen) = (world.borrow().acknowledged.clone(), world.borrow().seen.clone());
        let early = world.borrow().starts.clone();
        pause().await;
        let rows = read(&world).await;
        pause().await;
        let starts = match fault {
            Fault::ReaderReadsEpochsFirst => early,
            _ => world.borrow().starts.clone(),
        };
        if let Some(None) = starts.last()
            && fault != Fault::ReaderDoesNotSettle
        {
            settle(&world, starts.len(), None).await;
            continue;
        }
        let found = chain(&rows, &starts, fault);
        let mut world = world.borrow_mut();
        if !found.starts_with(&seen) {
            world.wrong = Some(format!("{seen:?} was seen, and then {found:?}"));
        }
        if !found.starts_with(&world.seen) && !world.seen.starts_with(&found) {
            world.wrong = Some(format!("{:?} and {found:?} were seen", world.seen));
        }
        if let Some(lost) = acknowledged.iter().find(|entry| !found.contains(entry)) {
            world.wrong = Some(format!("{lost} was acknowledged, and is not in {found:?}"));
        }
        if found.len() > world.seen.len() {
            world.seen = found;
        }
    }
}

async fn deliver(world: Shared) {
    loop {
        pause().await;
        let mut world = world.borrow_mut();
        let World { rng, requests, replicas, .. } = &mut *world;
        if !requests.is_empty() {
            let request = rng.random_range(0..requests.len());
            let (replica, row) = requests.swap_remove(request);
            if rng.random_bool(0.9) {
                replicas[replica].heads.insert(row);
                replicas[replica].bytes.insert(row);
            }
        }
    }
}

fn play(seed: u64, fault: Fault) -> Option<String> {
    let world = Rc::new(RefCell::new(World {
        rng: SmallRng::seed_from_u64(seed),
        fault,
        replicas: Default::default(),
        requests: Vec::new(),
        starts: Vec::new(),
        next: 0,
        acknowledged: BTreeSet::new(),
        seen: Vec::new(),
        wrong: None,
    }));
    let mut rng = SmallRng::seed_from_u64(!seed);
    let mut actors: Vec<Pin<Box<dyn Future<Output = ()>>>> =
        vec![Box::pin(deliver(world.clone())), Box::pin(follow(world.clone())), Box::pin(follow(world.clone()))];
    // Some tasks run rarely, so they seem dead until they continue.
    let mut weights = vec![rng.random_range(1..8), 2, 2];
    for _ in 0..rng.random_range(1..5) {
        actors.push(Box::pin(own(world.clone())));
        weights.push(*[1, 1, 4, 16].choose(&mut rng).unwrap());
    }
    let turns: Vec<usize> = (0..actors.len()).flat_map(|actor| std::iter::repeat_n(actor, weights[actor])).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut ended = vec![false; actors.len()];
    for _ in 0..600 {
        let actor = *turns.choose(&mut rng).unwrap();
        if !ended[actor] {
            ended[actor] = actors[actor].as_mut().poll(&mut context).is_ready();
        }
        if let Some(wrong) = world.borrow_mut().wrong.take() {
            return Some(wrong);
        }
    }
    None
}

const HISTORIES: u64 = 20_000;

#[test]
fn with_all_rules_no_history_is_wrong() {
    for seed in 0..HISTORIES {
        assert_eq!(play(seed, Fault::None), None, "seed {seed}");
    }
}

#[test]
fn without_any_rule_some_are() {
    for fault in [
        Fault::OwnerDoesNotLook,
        Fault::OwnerLooksFirst,
        Fault::TakerReadsFirst,
        Fault::ReaderReadsEpochsFirst,
        Fault::ReadsDoNotRepair,
        Fault::LastIsNotReadInFull,
        Fault::ReaderDoesNotSettle,
        Fault::TakersCross,
        Fault::StartsAreOverwritten,
        Fault::NothingIsVoid,
    ] {
        let found = (0..HISTORIES).find_map(|seed| play(seed, fault));
        assert!(found.is_some(), "{fault:?} is not noticed");
    }
}
