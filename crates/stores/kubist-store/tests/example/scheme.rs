//! The scheme `bucket`: `bucket://name` leads to the bucket of that name.
use std::{collections::BTreeMap, fmt, sync::Arc, sync::Mutex};

use kubist_store::{Content, Result, Scheme, Store, StoreLocation};

use crate::bucket::Bucket;

#[derive(Default)]
pub struct Buckets(Mutex<BTreeMap<String, Bucket>>);

impl Scheme for Buckets {
    fn name(&self) -> &'static str { "bucket" }
    /// A real service needs its address, and the login that the location may contain.
    fn read(&self, location: &str) -> Result<Arc<dyn StoreLocation>, String> {
        let mut buckets = self.0.lock().unwrap();
        let new = || Bucket { location: location.into(), ..Bucket::default() };
        Ok(Arc::new(At(buckets.entry(location.into()).or_insert_with(new).clone())))
    }
}

struct At(Bucket);

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result { out.write_str(&self.0.location) }
}

impl StoreLocation for At {
    fn find(&self) -> Result<Content> {
        match self.0.values.lock().unwrap().is_empty() {
            true => Ok(Content::Nothing),
            false => Ok(Content::Store(Arc::new(self.0.clone()))),
        }
    }
    fn create(&self) -> Result<Arc<dyn Store>> { Ok(Arc::new(self.0.clone())) }
    fn beside(&self, suffix: &str, _requests: usize) -> String { format!("{}{suffix}", self.0.location) }
}
