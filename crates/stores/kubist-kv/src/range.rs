//! Iteration over keys and values in order.

use std::ops::Bound;
use std::sync::Arc;

use crate::error::Result;
use crate::file::KeyFile;
use crate::node::{Child, Node, child_of};

/// The keys of a range and their values, in ascending order of the keys' bytes, up to the first error.
pub struct Range {
    file: Arc<KeyFile>,
    end: Bound<Vec<u8>>,
    /// The nodes on the path to the next entry, each with the index of the next child or entry.
    path: Vec<(Arc<Node>, usize)>,
}

impl Range {
    pub(crate) fn new(
        file: Arc<KeyFile>,
        root: Option<Child>,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
    ) -> Result<Range> {
        let end = end.map(<[u8]>::to_vec);
        let (mut path, mut next) = (Vec::new(), root);
        while let Some(child) = next.take() {
            let node = file.node(&child, path.len())?;
            let at = match (node.as_ref(), start) {
                (_, Bound::Unbounded) => 0,
                (Node::Leaf(entries), Bound::Included(key)) => {
                    entries.partition_point(|(other, _)| other.as_ref() < key)
                }
                (Node::Leaf(entries), Bound::Excluded(key)) => {
                    entries.partition_point(|(other, _)| other.as_ref() <= key)
                }
                (Node::Inner(children), Bound::Included(key) | Bound::Excluded(key)) => child_of(children, key),
            };
            match node.as_ref() {
                Node::Leaf(_) => path.push((node, at)),
                Node::Inner(children) => {
                    next = Some(children[at].1.clone());
                    path.push((node.clone(), at + 1));
                }
            }
        }
        Ok(Range { file, end, path })
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        while let Some((node, at)) = self.path.last_mut() {
            let (node, index) = (node.clone(), *at);
            *at += 1;
            match node.as_ref() {
                Node::Leaf(entries) if index < entries.len() => {
                    let (key, value) = &entries[index];
                    let is_inside = match &self.end {
                        Bound::Unbounded => true,
                        Bound::Included(end) => key.as_ref() <= &end[..],
                        Bound::Excluded(end) => key.as_ref() < &end[..],
                    };
                    if !is_inside {
                        break;
                    }
                    return Ok(Some((key.to_vec(), self.file.value(value)?)));
                }
                Node::Inner(children) if index < children.len() => {
                    let below = self.file.node(&children[index].1, self.path.len())?;
                    self.path.push((below, 0));
                }
                _ => drop(self.path.pop()),
            }
        }
        self.path.clear();
        Ok(None)
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.step();
        if found.is_err() {
            self.path.clear();
        }
        found.transpose()
    }
}
