//! Compares the bytes that sites exchange with the four forms of a CRDT (see the crate's documentation).
//!
//! Five sites share an add-wins set. In each of 20 rounds every site changes it, and each pair exchanges messages,
//! counted as JSON without spaces. Run with `cargo run --release -p kubist-crdt --example bytes`.

use kubist_crdt::{Causal, DotMap, DotSet, Envelope, Gossip, PureOp, PureSet, Replica};

const SITES: u16 = 5;
const ROUNDS: usize = 20;
type Set = DotMap<String, DotSet<u16>>;

fn bytes(message: &impl serde::Serialize) -> usize {
    serde_json::to_string(message).map_or(0, |text| text.len())
}

/// Calls `make` for each change in a round: one in five removes an element from the previous round, the others add one.
fn each_change(round: usize, changes: usize, mut make: impl FnMut(u16, String, bool)) {
    for (site, number) in (0..SITES).flat_map(|site| (0..changes).map(move |number| (site, number))) {
        let remove = round > 0 && (round * changes + number) % 5 == 4;
        let of = if remove { round - 1 } else { round };
        make(site, format!("airway/run-{of:04}-{site}-{number:03}"), !remove);
    }
}

fn others(site: u16) -> impl Iterator<Item = u16> {
    (0..SITES).filter(move |&other| other != site)
}

fn state_based(changes: usize) -> (usize, usize) {
    let mut sites = vec![Causal::<u16, Set>::default(); SITES.into()];
    let mut sent = 0;
    for round in 0..ROUNDS {
        each_change(round, changes, |site, element, add| {
            sites[usize::from(site)]
                .change(site, |set, dot| if add { set.adding(element, dot) } else { set.removing(&element) });
        });
        let before = sites.clone();
        for (from, to) in (0..SITES).flat_map(|from| others(from).map(move |to| (from, to))) {
            sent += bytes(&before[usize::from(from)]);
            sites[usize::from(to)].join(&before[usize::from(from)]);
        }
    }
    (sent, sites[0].store.len())
}

fn delta_state(changes: usize) -> (usize, usize) {
    let mut sites: Vec<Gossip<u16, Set>> = (0..SITES).map(|site| Gossip::new(site, 0..SITES)).collect();
    let mut sent = 0;
    for round in 0..ROUNDS {
        each_change(round, changes, |site, element, add| {
            sites[usize::from(site)]
                .change(|set, dot| if add { set.adding(element, dot) } else { set.removing(&element) });
        });
        for (from, to) in (0..SITES).flat_map(|from| others(from).map(move |to| (from, to))) {
            let Some(interval) = sites[usize::from(from)].interval(to) else { continue };
            let end = sites[usize::from(to)].receive(&interval);
            sites[usize::from(from)].confirm(to, end);
            sent += bytes(&interval) + bytes(&end);
        }
    }
    (sent, sites[0].state().store.len())
}

fn op_based(changes: usize) -> (usize, usize) {
    let mut sites: Vec<Replica<u16, Set>> = (0..SITES).map(Replica::new).collect();
    let mut sent = 0;
    for round in 0..ROUNDS {
        let mut messages = Vec::new();
        each_change(round, changes, |site, element, add| {
            let of = &mut sites[usize::from(site)];
            messages.push(of.change(|set, dot| if add { set.adding(element, dot) } else { set.removing(&element) }));
        });
        sent += deliver(&messages, |to, envelope| sites[usize::from(to)].receive(envelope));
    }
    (sent, sites[0].store().len())
}

fn pure_op_based(changes: usize) -> (usize, usize) {
    let mut sites: Vec<PureSet<u16, String>> = (0..SITES).map(|site| PureSet::new(site, 0..SITES)).collect();
    let mut sent = 0;
    for round in 0..ROUNDS {
        let mut messages = Vec::new();
        each_change(round, changes, |site, element, add| {
            let op = if add { PureOp::Add(element) } else { PureOp::Remove(element) };
            messages.push(sites[usize::from(site)].change(op));
        });
        sent += deliver(&messages, |to, envelope| sites[usize::from(to)].receive(envelope));
    }
    (sent, sites[0].elements().len())
}

/// Delivers each message to all other sites; returns the bytes sent.
fn deliver<M: Clone + serde::Serialize>(
    messages: &[Envelope<u16, M>],
    mut receive: impl FnMut(u16, Envelope<u16, M>),
) -> usize {
    let mut sent = 0;
    for envelope in messages {
        for to in others(envelope.dot.0) {
            sent += bytes(envelope);
            receive(to, envelope.clone());
        }
    }
    sent
}

fn main() {
    println!("{SITES} sites, {ROUNDS} rounds of exchange between all pairs; one change in five is a removal\n");
    println!("{:>8}  {:>8}  {:>9}  {:>14}  {:>22}", "changes", "elements", "form", "bytes", "bytes/change/receiver");
    for changes in [1, 5, 50] {
        for (form, run) in [
            ("state", state_based as fn(usize) -> (usize, usize)),
            ("delta", delta_state),
            ("op", op_based),
            ("pure op", pure_op_based),
        ] {
            let (sent, elements) = run(changes);
            let made = changes * usize::from(SITES) * ROUNDS;
            let each = sent as f64 / (made * usize::from(SITES - 1)) as f64;
            println!("{made:>8}  {elements:>8}  {form:>9}  {sent:>14}  {each:>22.0}");
        }
    }
}
