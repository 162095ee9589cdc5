//! Tests of the dictionary, as one program.

mod crash;
mod hostile;
mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kubist_kv::Snapshot;
use kubist_store::disk::{Disk, OsDisk};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn disk(directory: &Path) -> Arc<dyn Disk> {
    Arc::new(OsDisk::beneath(directory))
}

fn contents(snapshot: &Snapshot) -> kubist_kv::Result<Model> {
    let found: Model = snapshot.range(..)?.collect::<kubist_kv::Result<_>>()?;
    assert_eq!(found.len() as u64, snapshot.keys());
    Ok(found)
}
