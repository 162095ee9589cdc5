//! Every exchange that would double, lose or guess rows is refused, and metadata that both sites changed is reported.

use kubist::{CopyOptions, Error, Table};

use crate::{append, both, create, ids, place};

fn metadata(location: &str, key: &str) -> Option<serde_json::Value> {
    Table::open(location).unwrap().snapshot().unwrap().metadata().get(key).cloned()
}

fn set(location: &str, key: &str, value: &str) {
    Table::open(location).unwrap().set_metadata(None, &[(key.into(), value.into())].into()).unwrap();
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy_files(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn a_missing_table_becomes_a_copy_and_an_exchange_without_changes_does_nothing() {
    let (a, b) = (place("a"), place("b"));
    create(&a, true);
    append(&a, "w", &[1, 2, 3], None);
    let synced = both(&a, &b).unwrap();
    assert_eq!((synced.created.as_deref(), synced.went.rows), (Some(b.as_str()), 3));
    append(&b, "w", &[4], None);
    assert_eq!(both(&a, &b).unwrap().came.rows, 1);
    assert_eq!((ids(&a), ids(&b)), (vec![1, 2, 3, 4], vec![1, 2, 3, 4]));
    let again = both(&a, &b).unwrap();
    assert_eq!((again.came, again.went), Default::default());
}

#[test]
fn other_tables_are_refused() {
    let (a, b, plain) = (place("a"), place("b"), place("plain"));
    create(&a, true);
    append(&a, "w", &[1], None);
    create(&b, true);
    assert!(matches!(both(&a, &b), Err(Error::Invalid(why)) if why.contains("are not copies of one table")));
    Table::open(&a).unwrap().snapshot().unwrap().copy_to(&plain, &CopyOptions::default(), &mut |_, _| {}).unwrap();
    assert!(matches!(both(&a, &plain), Err(Error::Invalid(why)) if why.contains("are not copies of one table")));
    assert_eq!(ids(&plain), [1]);
}

#[test]
fn copied_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [a, b, c] = ["a", "b", "c"].map(|name| path(name).to_str().unwrap().to_owned());
    create(&a, true);
    append(&a, "w", &[1], None);
    both(&a, &b).unwrap();
    copy_files(&path("a"), &path("c"));
    assert!(matches!(both(&a, &c), Err(Error::Invalid(why)) if why.contains("have the same id")));
    append(&a, "w", &[2], None);
    append(&c, "w", &[3], None);
    append(&c, "w", &[4], None);
    both(&a, &b).unwrap();
    assert!(matches!(both(&c, &b), Err(Error::Refused(why)) if why.contains("differs")));
    assert_eq!(ids(&b), [1, 2]);
}

#[test]
fn a_step_with_rows_to_retract_and_others_is_refused_until_it_is_retracted_here() {
    let (a, b) = (place("a"), place("b"));
    create(&a, true);
    both(&a, &b).unwrap();
    append(&a, "w", &[1], Some(1));
    append(&a, "w", &[2], Some(2));
    both(&a, &b).unwrap();
    append(&b, "v", &[3], Some(2));
    Table::open(&a).unwrap().retract(1).unwrap();
    append(&a, "w", &[4], Some(2));
    assert!(matches!(both(&a, &b), Err(Error::Refused(why)) if why.contains("retract the steps after 1")));
    assert_eq!(ids(&b), [1, 2, 3]);
}

#[test]
fn metadata_that_one_site_changed_is_carried_over_and_other_changes_are_reported() {
    let (a, b) = (place("a"), place("b"));
    create(&a, true);
    set(&a, "note", "old");
    both(&a, &b).unwrap();
    set(&b, "note", "new");
    set(&a, "case", "7");
    assert_eq!(both(&a, &b).unwrap().conflicts, Vec::<String>::new());
    assert_eq!((metadata(&a, "note"), metadata(&b, "case")), (Some("new".into()), Some("7".into())));
    set(&a, "note", "one");
    set(&b, "note", "two");
    let conflicts = both(&a, &b).unwrap().conflicts;
    assert_eq!(conflicts, ["note is \"one\" here and \"two\" there"]);
    assert_eq!((metadata(&a, "note"), metadata(&b, "note")), (Some("one".into()), Some("two".into())));
    assert_eq!(both(&a, &b).unwrap().conflicts.len(), 1);
    set(&b, "note", "one");
    assert_eq!(both(&a, &b).unwrap().conflicts, Vec::<String>::new());
}
