//! Leases of subtrees, so that two optimizers do not do the same work.
//!
//! A lease is only a hint: rewrites are safe without it, because each checks its inputs when it is published. A killed
//! process blocks others only until its lease expires.

use std::sync::Arc;
use std::time::Duration;

use kubist_index::cube::CubeId;
use kubist_store::Store;

use kubist_catalog::core::Core;
use kubist_catalog::error::store_error;
use kubist_catalog::segment::unix_ms;
use kubist_types::error::Result;

use kubist_format::names::LEASES;
const LENGTH: Duration = Duration::from_secs(30);

/// Other optimizers leave the subtree alone until this is dropped or expires.
pub struct Lease {
    store: Arc<dyn Store>,
    name: String,
}

impl Lease {
    /// Returns `None` if another lease overlaps the cube's subtree.
    ///
    /// # Errors
    ///
    /// A storage error.
    pub fn take(core: &Core, cube: CubeId) -> Result<Option<Lease>> {
        let now = unix_ms();
        for name in core.store.list(LEASES).map_err(store_error)? {
            let Some((other, end)) = parse(core, &name) else { continue };
            // A longer lease came from a wrong clock.
            if end < now || end > now + LENGTH.as_millis() as u64 {
                core.store.delete(&name).map_err(store_error)?;
            } else if overlap(core, other, cube) {
                return Ok(None);
            }
        }
        let name = format!("{LEASES}{:032x}-{}", cube.to_u128(), now + LENGTH.as_millis() as u64);
        let taken = core.store.put_if_absent(&name, &[]).map_err(store_error)?;
        Ok(taken.then(|| Lease { store: core.store.clone(), name }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.store.delete(&self.name);
    }
}

fn overlap(core: &Core, one: CubeId, other: CubeId) -> bool {
    let contains =
        |outer: CubeId, inner| core.forest().tree(outer.grid()).is_some_and(|tree| tree.contains(outer, inner));
    contains(one, other) || contains(other, one)
}

fn parse(core: &Core, name: &str) -> Option<(CubeId, u64)> {
    let (cube, end) = name[LEASES.len()..].split_once('-')?;
    Some((core.forest().cube_from_u128(u128::from_str_radix(cube, 16).ok()?)?, end.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field, Schema};
    use kubist_catalog::create::{Plan, make};
    use kubist_store::MemoryStore;
    use kubist_types::options::{Dimension, Domain, TableOptions};

    #[test]
    fn a_part_of_the_tree_is_leased_once_and_not_for_ever() {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float32, false)]));
        let options = TableOptions {
            dimensions: vec![Dimension { column: "x".into(), domain: Domain::Learned }],
            ..TableOptions::default()
        };
        let store = Arc::new(MemoryStore::new("leases"));
        let core = &make(store.clone(), Plan::new(&schema, &options).unwrap(), false).unwrap();
        let children: Vec<CubeId> = core.forest().tree_of(CubeId::root(0)).children(CubeId::root(0)).collect();
        let grandchild = core.forest().tree_of(children[0]).children(children[0]).next().unwrap();
        let first = Lease::take(core, children[0]).unwrap();
        assert!(first.is_some());
        for taken in [CubeId::root(0), children[0], grandchild] {
            assert!(Lease::take(core, taken).unwrap().is_none());
        }
        assert!(Lease::take(core, children[1]).unwrap().is_some());
        drop(first);
        assert!(Lease::take(core, CubeId::root(0)).unwrap().is_some());
        store.put_if_absent(&format!("{LEASES}{:032x}-{}", grandchild.to_u128(), unix_ms() - 1), &[]).unwrap();
        assert!(Lease::take(core, CubeId::root(0)).unwrap().is_some());
        assert!(store.list(LEASES).unwrap().is_empty());
    }
}
