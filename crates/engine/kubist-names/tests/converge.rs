//! Sites that exchange changes have the same entries.

use kubist_names::{Catalogue, Scalar, Setting, sync};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{again, run, shown, site, store};

#[test]
fn concurrent_changes_are_all_visible() {
    let (mut one, mut two) = (site("bsc"), site("laptop"));
    one.add(&[run("airway/run-17", "draft", 2000.0)]).unwrap();
    let exchanged = sync(&mut one, &mut two).unwrap();
    assert_eq!((exchanged.came, exchanged.went), (0, 3));
    assert_eq!(shown(&one), shown(&two));

    // The register shows both values, the tag that is added again wins, and the update survives the removal.
    one.set("airway/run-17", &[Setting::Param("Re".into(), Scalar::Number(2100.0))]).unwrap();
    two.set("airway/run-17", &[Setting::Param("Re".into(), Scalar::Number(2200.0))]).unwrap();
    one.unset("airway/run-17", &[Setting::Tag("draft".into())]).unwrap();
    two.unset("airway/run-17", &[Setting::Tag("draft".into())]).unwrap();
    two.set("airway/run-17", &[Setting::Tag("draft".into())]).unwrap();
    one.count_read("airway/run-17").unwrap();
    two.count_read("airway/run-17").unwrap();
    two.count_read("airway/run-17").unwrap();
    sync(&mut two, &mut one).unwrap();
    assert_eq!(shown(&one), shown(&two));
    let entry = one.get("airway/run-17").unwrap();
    assert_eq!(entry.params["Re"], [Scalar::Number(2100.0), Scalar::Number(2200.0)]);
    assert_eq!((entry.tags, entry.reads), (vec!["draft".to_owned()], 3));

    one.remove("airway/run-17").unwrap();
    two.set("airway/run-17", &[Setting::Note("looks good".into())]).unwrap();
    sync(&mut one, &mut two).unwrap();
    let entry = one.get("airway/run-17").unwrap();
    assert_eq!((entry.note, entry.tags.len(), entry.params.len()), (vec!["looks good".to_owned()], 0, 0));
}

#[test]
fn nothing_new_sends_nothing_and_writes_nothing() {
    let (mut one, mut two) = (site("bsc"), site("laptop"));
    one.add(&[run("a", "x", 1.0)]).unwrap();
    two.add(&[run("b", "y", 2.0)]).unwrap();
    sync(&mut one, &mut two).unwrap();
    let lines = one.sites();
    let exchanged = sync(&mut one, &mut two).unwrap();
    assert_eq!((exchanged.came, exchanged.went, exchanged.bytes), (0, 0, 0));
    assert_eq!(one.sites(), lines);
    one.add(&[run("a", "x", 1.0)]).unwrap();
    assert_eq!(one.sites(), lines);
}

#[test]
fn random_histories_of_five_sites_converge() {
    for seed in 0..25 {
        let mut random = StdRng::seed_from_u64(seed);
        let stores: Vec<_> = (0..5).map(|number| store(&format!("memory-{seed}-{number}"))).collect();
        let create =
            |number: usize| Catalogue::create_in(stores[number].clone(), Some(&format!("site-{number}"))).unwrap();
        let mut sites: Vec<Catalogue> = (0..5).map(create).collect();
        for _ in 0..80 {
            let at = random.random_range(0..5);
            let name = format!("run-{}", random.random_range(0..6));
            let known = sites[at].get(&name).is_ok();
            match random.random_range(0..10) {
                0..3 => sites[at].add(&[run(&name, "tag", f64::from(random.random_range(0..9)))]).unwrap(),
                3 if known => sites[at].remove(&name).unwrap(),
                4 if known => sites[at].count_read(&name).unwrap(),
                5 if known => sites[at].set(&name, &[Setting::Note(format!("from {at}"))]).unwrap(),
                6 if known => sites[at].unset(&name, &[Setting::Tag("tag".into())]).unwrap(),
                7 => drop(sites[at].prune().unwrap()),
                8 => sites[at] = again(&stores[at]),
                _ => exchange(&mut sites, at, random.random_range(0..5)),
            }
        }
        (0..2).for_each(|_| (0..5).for_each(|one| (0..5).for_each(|two| exchange(&mut sites, one, two))));
        let first = shown(&sites[0]);
        for (number, site) in sites.iter().enumerate() {
            assert_eq!(shown(site), first, "seed {seed}, site {number}");
            assert_eq!(shown(&again(&stores[number])), first, "seed {seed}, reopened {number}");
        }
    }
}

fn exchange(sites: &mut [Catalogue], one: usize, two: usize) {
    if one < two {
        let (left, right) = sites.split_at_mut(two);
        sync(&mut left[one], &mut right[0]).unwrap();
    }
}

#[test]
fn pruned_lines_reach_a_new_site_as_a_checkpoint() {
    let stores = [store("prune-0"), store("prune-1")];
    let mut one = Catalogue::create_in(stores[0].clone(), Some("one")).unwrap();
    let mut two = Catalogue::create_in(stores[1].clone(), Some("two")).unwrap();
    for number in 0..20 {
        one.add(&[run(&format!("run-{number}"), "x", f64::from(number))]).unwrap();
    }
    sync(&mut one, &mut two).unwrap();
    one.remove("run-3").unwrap();
    let pruned = one.prune().unwrap();
    // 20 lines from site `one`, and the confirmation by `two`.
    assert_eq!((pruned.lines, pruned.waits_for), (21, vec!["two".to_owned()]));
    sync(&mut one, &mut two).unwrap();
    let pruned = one.prune().unwrap();
    assert!(pruned.lines > 0 && pruned.waits_for.is_empty());
    assert!(stores[0].list("ops/one/").unwrap().is_empty() && stores[0].list("packs/one/").unwrap().is_empty());
    assert_eq!(stores[0].list("state/").unwrap().len(), 1);

    let mut late = site("late");
    late.add(&[run("mine", "x", 1.0), run("run-5", "late", 5.0)]).unwrap();
    sync(&mut one, &mut late).unwrap();
    sync(&mut late, &mut two).unwrap();
    sync(&mut one, &mut two).unwrap();
    assert_eq!(shown(&one), shown(&late));
    assert_eq!(shown(&one), shown(&two));
    assert_eq!(shown(&again(&stores[0])), shown(&one));
    assert!(one.get("run-3").is_err() && one.get("run-5").unwrap().tags.contains(&"late".to_owned()));
}

#[test]
fn prune_waits_for_changes_and_not_for_confirmations() {
    let (mut one, mut two) = (site("bsc"), site("laptop"));
    one.add(&[run("a", "x", 1.0)]).unwrap();
    two.add(&[run("b", "x", 1.0)]).unwrap();
    sync(&mut one, &mut two).unwrap();
    assert!(one.prune().unwrap().waits_for.is_empty());
    two.add(&[run("c", "x", 1.0)]).unwrap();
    one.add(&[run("d", "x", 1.0)]).unwrap();
    assert_eq!(one.prune().unwrap().waits_for, ["laptop"]);
    sync(&mut one, &mut two).unwrap();
    assert!(one.prune().unwrap().waits_for.is_empty() && two.prune().unwrap().waits_for.is_empty());
    assert_eq!(shown(&one), shown(&two));
}

#[test]
fn two_sites_with_one_name_are_detected() {
    let (mut one, mut two) = (site("bsc"), Catalogue::create_in(store("other"), Some("bsc")).unwrap());
    one.add(&[run("a", "x", 1.0)]).unwrap();
    two.add(&[run("b", "x", 1.0)]).unwrap();
    for _ in 0..2 {
        let error = sync(&mut one, &mut two).unwrap_err();
        assert!(error.to_string().contains("two sites are named `bsc`"), "{error}");
        one.add(&[run("c", "x", 1.0)]).unwrap();
    }
    assert!(one.get("b").is_err() && two.get("a").is_err());
}

#[test]
fn a_copy_of_a_site_that_both_went_on_is_detected() {
    let (from, to) = (store("from"), store("to"));
    let mut one = Catalogue::create_in(from.clone(), Some("bsc")).unwrap();
    one.add(&[run("a", "x", 1.0)]).unwrap();
    for object in from.list("").unwrap() {
        to.put_if_absent(&object, &from.get(&object).unwrap().unwrap()).unwrap();
    }
    let mut two = again(&to);
    assert_eq!(shown(&one), shown(&two));
    one.add(&[run("b", "x", 1.0)]).unwrap();
    sync(&mut one, &mut two).unwrap();
    assert_eq!(shown(&one), shown(&two));
    one.add(&[run("c", "x", 1.0)]).unwrap();
    two.add(&[run("d", "x", 1.0)]).unwrap();
    two.add(&[run("e", "x", 1.0)]).unwrap();
    for _ in 0..2 {
        let error = sync(&mut one, &mut two).unwrap_err();
        assert!(error.to_string().contains("the directory of one was copied"), "{error}");
    }
}
