//! The join is commutative, associative and idempotent, and joins of deltas are joins of states.

use kubist_crdt::{Causal, Context, Dot, Vector};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::histories::{State, effect, history, joined, random_op};

const HISTORIES: u64 = 3000;

#[test]
fn joins_are_commutative_associative_and_idempotent() {
    for seed in 0..HISTORIES {
        let history = history(seed);
        let states: Vec<&State> = history.states.iter().chain(&history.earlier).take(5).collect();
        for &a in &states {
            assert_eq!(&joined([a, a]), a, "idempotent, seed {seed}");
            for &b in &states {
                let ab = joined([a, b]);
                let news = a.news(b).unwrap_or_default();
                assert_eq!(joined([a, &news]), ab, "the news is enough, seed {seed}");
                assert_eq!(a.news(b).is_none(), &ab == a, "no news if nothing is new, seed {seed}");
                assert_eq!(ab, joined([b, a]), "commutative, seed {seed}");
                assert_eq!(ab, joined([&ab, b]), "the join has both, seed {seed}");
                for &c in &states {
                    assert_eq!(joined([&ab, c]), joined([a, &joined([b, c])]), "associative, seed {seed}");
                }
            }
        }
    }
}

#[test]
fn any_order_and_grouping_of_deltas_is_the_state() {
    for seed in 0..HISTORIES {
        let mut random = StdRng::seed_from_u64(seed);
        let mut states = vec![State::default(); 3];
        let mut deltas: Vec<State> = Vec::new();
        for _ in 0..20 {
            let site = random.random_range(0..3usize);
            let op = random_op(&mut random);
            let before = states[site].clone();
            let change = states[site].change(site as u8, |map, dot| effect(op, map, dot));
            assert_eq!(states[site], joined([&before, &change.delta()]), "X ⊔ m^δ(X), seed {seed}");
            deltas.push(change.delta());
            if random.random() {
                let other = states[random.random_range(0..3usize)].clone();
                states[site].join(&other);
            }
        }
        let state = joined(&states);
        deltas.shuffle(&mut random);
        let groups: Vec<State> = deltas.chunks(random.random_range(1..5)).map(joined).collect();
        assert_eq!(joined(groups.iter().chain(&deltas[..3])), state, "seed {seed}");
    }
}

#[test]
fn a_context_is_the_set_of_its_dots() {
    for seed in 0..HISTORIES {
        let mut random = StdRng::seed_from_u64(seed);
        let dots = |random: &mut StdRng| -> std::collections::BTreeSet<Dot<u8>> {
            (0..random.random_range(0..20)).map(|_| Dot(random.random_range(0..3), random.random_range(1..9))).collect()
        };
        let (one, two) = (dots(&mut random), dots(&mut random));
        let mut order: Vec<Dot<u8>> = one.iter().copied().collect();
        order.shuffle(&mut random);
        let mut context: Context<u8> = order.into_iter().collect();
        assert_eq!(context, one.iter().copied().collect());
        context.join(&two.iter().copied().collect());
        let union: Context<u8> = one.union(&two).copied().collect();
        assert_eq!(context, union);
        for dot in (0..3).flat_map(|site| (1..10).map(move |n| Dot(site, n))) {
            assert_eq!(context.contains(dot), one.contains(&dot) || two.contains(&dot));
        }
        assert!(context.cloud().all(|dot| dot.1 > context.vector().get(dot.0) + 1));
    }
}

#[test]
fn vectors_are_a_lattice() {
    let vector = |a, b| Vector::from_iter([(1u8, a), (2, b)]);
    let (mut up, mut down) = (vector(3, 0), vector(3, 4));
    up.join(&vector(1, 2));
    down.meet(&vector(5, 1));
    assert_eq!((up, down), (vector(3, 2), vector(3, 1)));
    assert!(vector(1, 0).is_within(&vector(1, 2)) && !vector(1, 2).is_within(&vector(1, 0)));
}

#[test]
fn states_are_stored_as_json() {
    for seed in 0..50 {
        let state = joined(&history(seed).states);
        let text = serde_json::to_string(&state).unwrap();
        let read: Causal<u8, _> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, state);
    }
}
