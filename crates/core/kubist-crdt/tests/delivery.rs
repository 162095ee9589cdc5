//! The op-based, delta-state and state-based forms give the same state under delay, repetition and loss.

use std::collections::BTreeSet;

use kubist_crdt::{Envelope, Gossip, PureOp, PureSet, Replica};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::histories::{Map, State, effect, joined, random_op};

const SITES: u8 = 4;

#[test]
fn operations_in_any_causal_order_give_the_state() {
    for seed in 0..2000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut sites: Vec<Replica<u8, Map>> = (0..SITES).map(Replica::new).collect();
        let mut messages: Vec<(u8, Envelope<u8, _>)> = Vec::new();
        let mut deltas: Vec<State> = Vec::new();
        for _ in 0..30 {
            let site = random.random_range(0..SITES);
            if random.random_range(0..3) > 0 && !messages.is_empty() {
                let place = random.random_range(0..messages.len());
                let (to, envelope) = messages[place].clone();
                if random.random_range(0..4) > 0 {
                    messages.swap_remove(place);
                }
                sites[usize::from(to)].receive(envelope);
            } else {
                let op = random_op(&mut random);
                let envelope = sites[usize::from(site)].change(|map, dot| effect(op, map, dot));
                deltas.push(envelope.message.delta());
                messages.extend((0..SITES).filter(|&to| to != site).map(|to| (to, envelope.clone())));
            }
        }
        while !messages.is_empty() {
            let (to, envelope) = messages.swap_remove(random.random_range(0..messages.len()));
            sites[usize::from(to)].receive(envelope);
        }
        let state = joined(&deltas);
        for site in &sites {
            assert_eq!((site.store(), site.waiting()), (&state.store, 0), "seed {seed}");
        }
    }
}

#[test]
fn intervals_converge_although_messages_are_lost() {
    for seed in 0..500 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut sites: Vec<Gossip<u8, Map>> = (0..SITES).map(|site| Gossip::new(site, 0..SITES)).collect();
        let mut deltas: Vec<State> = Vec::new();
        for round in 0..60 {
            let from = random.random_range(0..SITES);
            if round < 30 && random.random() {
                let op = random_op(&mut random);
                sites[usize::from(from)].change(|map, dot| {
                    let change = effect(op, map, dot);
                    deltas.push(change.delta());
                    change
                });
                continue;
            }
            let to = random.random_range(0..SITES);
            exchange(&mut sites, from, to, random.random_range(0..3));
        }
        for _ in 0..2 {
            (0..SITES).for_each(|from| (0..SITES).for_each(|to| exchange(&mut sites, from, to, 2)));
        }
        let state = joined(&deltas);
        for site in &sites {
            assert_eq!(site.state(), &state, "seed {seed}");
            assert_eq!(site.kept(), 0, "all deltas are confirmed, seed {seed}");
        }
    }
}

/// `arrives`: 0 the interval is lost, 1 the confirmation is lost.
fn exchange(sites: &mut [Gossip<u8, Map>], from: u8, to: u8, arrives: u8) {
    if from == to || arrives == 0 {
        return;
    }
    let Some(interval) = sites[usize::from(from)].interval(to) else { return };
    let end = sites[usize::from(to)].receive(&interval);
    if arrives == 2 {
        sites[usize::from(from)].confirm(to, end);
    }
}

#[test]
fn pure_operations_follow_equation_4_1_and_prune_their_vectors() {
    for seed in 0..2000 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut sites: Vec<PureSet<u8, u8>> = (0..SITES).map(|site| PureSet::new(site, 0..SITES)).collect();
        let mut sent: Vec<Envelope<u8, PureOp<u8>>> = Vec::new();
        let mut messages: Vec<(u8, Envelope<u8, PureOp<u8>>)> = Vec::new();
        for _ in 0..40 {
            let site = random.random_range(0..SITES);
            if random.random_range(0..3) > 0 && !messages.is_empty() {
                let (to, envelope) = messages.swap_remove(random.random_range(0..messages.len()));
                sites[usize::from(to)].receive(envelope);
            } else {
                let element = random.random_range(0..3);
                let op = if random.random() { PureOp::Add(element) } else { PureOp::Remove(element) };
                send(&mut sites, site, op, &mut sent, &mut messages);
            }
        }
        deliver(&mut sites, &mut messages);
        let expected: BTreeSet<u8> = sent
            .iter()
            .filter_map(|add| match &add.message {
                PureOp::Add(element) => Some((add, element)),
                PureOp::Remove(_) => None,
            })
            .filter(|(add, element)| {
                !sent.iter().any(|later| {
                    let (PureOp::Add(of) | PureOp::Remove(of)) = &later.message;
                    of == *element && later.dot != add.dot && add.stamp.is_within(&later.stamp)
                })
            })
            .map(|(_, element)| *element)
            .collect();
        for site in &sites {
            assert_eq!(site.elements(), expected, "seed {seed}");
        }
        for site in 0..SITES {
            send(&mut sites, site, PureOp::Remove(9), &mut sent, &mut messages);
            deliver(&mut sites, &mut messages);
        }
        for site in &sites {
            assert_eq!((site.elements(), site.unstable()), (expected.clone(), 0), "seed {seed}");
        }
    }
}

fn send(
    sites: &mut [PureSet<u8, u8>],
    site: u8,
    op: PureOp<u8>,
    sent: &mut Vec<Envelope<u8, PureOp<u8>>>,
    messages: &mut Vec<(u8, Envelope<u8, PureOp<u8>>)>,
) {
    let envelope = sites[usize::from(site)].change(op);
    messages.extend((0..SITES).filter(|&to| to != site).map(|to| (to, envelope.clone())));
    sent.push(envelope);
}

fn deliver(sites: &mut [PureSet<u8, u8>], messages: &mut Vec<(u8, Envelope<u8, PureOp<u8>>)>) {
    for (to, envelope) in messages.drain(..) {
        sites[usize::from(to)].receive(envelope);
    }
}
