//! Several processes change one catalogue.

use std::sync::Arc;

use kubist::store::Store;
use kubist_names::{Catalogue, Scalar, Setting};

use crate::{again, run, shown, store};

#[test]
fn several_writers_of_one_directory_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue").display().to_string();
    Catalogue::create(&path, Some("bsc")).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut catalogue = Catalogue::open(path).unwrap();
                for number in 0..40 {
                    catalogue.add(&[run(&format!("run-{writer}-{number}"), "x", 1.0)]).unwrap();
                    catalogue.count_read(&format!("run-{writer}-{number}")).unwrap();
                }
            });
        }
    });
    let catalogue = Catalogue::open(&path).unwrap();
    assert_eq!(catalogue.len(), 160);
    assert!(shown(&catalogue).iter().all(|entry| entry.reads == 1));
    assert_eq!(catalogue.sites()[0].lines, 320);
}

#[test]
fn many_small_lines_become_few_objects() {
    let store = store("packed");
    let mut catalogue = Catalogue::create_in(store.clone(), Some("bsc")).unwrap();
    // A handle that reads from the beginning while objects are packed and deleted.
    let mut follower = again(&store);
    for number in 0..500 {
        catalogue.add(&[run(&format!("run-{number}"), "x", 1.0)]).unwrap();
        if number % 100 == 37 {
            follower.set("run-0", &[Setting::Note(format!("{number}"))]).unwrap();
        }
    }
    let objects = store.list("ops/").unwrap().len() + store.list("packs/").unwrap().len();
    assert!(objects <= 70, "{objects} objects");
    assert_eq!(shown(&again(&store)).len(), 500);
    follower.set("run-1", &[Setting::Note("last".into())]).unwrap();
    let reopened = again(&store);
    assert_eq!(shown(&reopened), shown(&follower));
}

#[test]
fn a_catalogue_is_made_only_in_an_empty_place() {
    let place: Arc<dyn Store> = store("used");
    place.put_if_absent("table", b"x").unwrap();
    let error = Catalogue::create_in(place.clone(), None).err().unwrap().to_string();
    assert!(error.contains("is not empty"), "{error}");
    let error = Catalogue::open_in(place).err().unwrap().to_string();
    assert!(error.contains("kubist catalog create"), "{error}");
    let error = Catalogue::create_in(store("x"), Some("a/b")).err().unwrap().to_string();
    assert!(error.contains("site name"), "{error}");
}

#[test]
fn the_last_of_several_values_in_one_call_counts() {
    let mut catalogue = Catalogue::create_in(store("last"), Some("bsc")).unwrap();
    catalogue.add(&[run("a", "x", 1.0), run("a", "x", 2.0)]).unwrap();
    assert_eq!(catalogue.get("a").unwrap().params["Re"], [Scalar::Number(2.0)]);
    let re = |value| Setting::Param("Re".into(), Scalar::Number(value));
    catalogue.set("a", &[re(3.0), re(2.0)]).unwrap();
    assert_eq!(catalogue.get("a").unwrap().params["Re"], [Scalar::Number(2.0)]);
    catalogue.set("a", &[re(3.0), re(4.0), Setting::Note("n".into())]).unwrap();
    assert_eq!(catalogue.get("a").unwrap().params["Re"], [Scalar::Number(4.0)]);
}

#[test]
fn a_writer_continues_after_another_process_has_pruned() {
    let store = store("pruned");
    let mut one = Catalogue::create_in(store.clone(), Some("bsc")).unwrap();
    let mut two = again(&store);
    one.add(&[run("a", "x", 1.0)]).unwrap();
    assert_eq!(one.prune().unwrap().lines, 1);
    two.add(&[run("b", "x", 1.0)]).unwrap();
    one.add(&[run("c", "x", 1.0)]).unwrap();
    assert_eq!(again(&store).names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(one.sites()[0].lines, 3);
}
