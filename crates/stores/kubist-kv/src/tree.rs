//! Changes of the tree, which copy the nodes on the path.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::{KeyFile, Log};
use crate::format::{Address, Kind};
use crate::node::{Child, Node, Value, child_of};

/// The nodes that replace a node, with lower bounds: none, one, or two after a split.
type Replaced = Vec<(Arc<[u8]>, Child)>;

pub fn get(file: &KeyFile, root: Option<&Child>, key: &[u8]) -> Result<Option<Value>> {
    let Some(mut child) = root.cloned() else { return Ok(None) };
    for depth in 0.. {
        let node = file.node(&child, depth)?;
        match node.as_ref() {
            Node::Leaf(entries) => {
                let found = entries.binary_search_by(|(other, _)| other.as_ref().cmp(key));
                return Ok(found.ok().map(|at| entries[at].1.clone()));
            }
            Node::Inner(children) => child = children[child_of(children, key)].1.clone(),
        }
    }
    Ok(None)
}

/// Puts a value or deletes the key, and returns the new root and the old value.
pub fn change(
    file: &KeyFile,
    root: Option<Child>,
    key: &[u8],
    value: Option<Value>,
) -> Result<(Option<Child>, Option<Value>)> {
    let Some(root) = root else {
        let leaf = value.map(|value| Child::Changed(Arc::new(Node::Leaf(vec![(key.into(), value)]))));
        return Ok((leaf, None));
    };
    let (mut replaced, before) = change_below(file, root, key, value, 0)?;
    let root = match replaced.len() {
        0 => None,
        1 => replaced.pop().map(|(_, child)| child),
        _ => Some(Child::Changed(Arc::new(Node::Inner(replaced)))),
    };
    Ok((root.map(|root| collapsed(file, root)).transpose()?, before))
}

fn collapsed(file: &KeyFile, mut root: Child) -> Result<Child> {
    for depth in 0.. {
        match file.node(&root, depth)?.as_ref() {
            Node::Inner(children) if children.len() == 1 => root = children[0].1.clone(),
            _ => break,
        }
    }
    Ok(root)
}

fn change_below(
    file: &KeyFile,
    child: Child,
    key: &[u8],
    value: Option<Value>,
    depth: usize,
) -> Result<(Replaced, Option<Value>)> {
    // No snapshot has a changed node, so it can be changed in place.
    let mut node = match child {
        Child::Changed(node) => node,
        stored => file.node(&stored, depth)?,
    };
    let before = match Arc::make_mut(&mut node) {
        Node::Leaf(entries) => {
            let found = entries.binary_search_by(|(other, _)| other.as_ref().cmp(key));
            match (found, value) {
                (Ok(at), Some(value)) => Some(std::mem::replace(&mut entries[at].1, value)),
                (Ok(at), None) => Some(entries.remove(at).1),
                (Err(at), Some(value)) => {
                    entries.insert(at, (key.into(), value));
                    None
                }
                (Err(_), None) => None,
            }
        }
        Node::Inner(children) => {
            let at = child_of(children, key);
            let (bound, child) = children.remove(at);
            let (mut replaced, before) = change_below(file, child, key, value, depth + 1)?;
            // Bounds must not rise above later keys.
            if let Some(first) = replaced.first_mut() {
                first.0 = bound;
            }
            children.splice(at..at, replaced);
            before
        }
    };
    Ok((split(node), before))
}

fn split(mut node: Arc<Node>) -> Replaced {
    let second = match (node.is_too_large(), Arc::make_mut(&mut node)) {
        (true, Node::Leaf(entries)) => Some(Node::Leaf(entries.split_off(entries.len() / 2))),
        (true, Node::Inner(children)) => Some(Node::Inner(children.split_off(children.len() / 2))),
        (false, _) => None,
    };
    let bound = |node: &Node| match node {
        Node::Leaf(entries) => entries.first().map(|(key, _)| key.clone()),
        Node::Inner(children) => children.first().map(|(key, _)| key.clone()),
    };
    let nodes = [Some(node), second.map(Arc::new)].into_iter().flatten();
    nodes.filter_map(|node| bound(&node).map(|bound| (bound, Child::Changed(node)))).collect()
}

/// Children come first; returns the address of the root.
pub fn store(file: &KeyFile, log: &mut Log, child: Child) -> Result<Address> {
    let mut node = match child {
        Child::Stored(at) => return Ok(at),
        Child::Changed(node) => node,
    };
    if let Node::Inner(children) = Arc::make_mut(&mut node) {
        for (_, child) in children.iter_mut() {
            *child = Child::Stored(store(file, log, child.clone())?);
        }
    }
    let bytes = node.encode().ok_or_else(|| Error::Invalid("a node without entries cannot be stored".into()))?;
    let position = log.append(file, Kind::Node, &bytes)?;
    Ok(Address { position, length: bytes.len() as u32, checksum: crc32c::crc32c(&bytes) })
}
