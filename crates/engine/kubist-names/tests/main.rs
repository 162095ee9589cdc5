//! The catalogue through its public interface, on stores in memory and in directories.

mod converge;
mod damage;
mod finding;
mod sharing;

use std::sync::Arc;

use kubist::store::{MemoryStore, Store};
use kubist_names::{Catalogue, New, Scalar};

pub fn store(name: &str) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(name))
}

pub fn site(name: &str) -> Catalogue {
    Catalogue::create_in(store(name), Some(name)).unwrap()
}

pub fn new(name: &str) -> New {
    New { name: name.into(), ..New::default() }
}

pub fn run(name: &str, tag: &str, re: f64) -> New {
    let params = [("Re".to_owned(), Scalar::Number(re))].into();
    New { tags: vec![tag.into()], kind: Some("run".into()), params, ..new(name) }
}

/// Everything that a user sees.
pub fn shown(catalogue: &Catalogue) -> Vec<kubist_names::CatalogueEntry> {
    catalogue.names().map(|name| catalogue.get(name).unwrap()).collect()
}

pub fn again(store: &Arc<dyn Store>) -> Catalogue {
    Catalogue::open_in(store.clone()).unwrap()
}
