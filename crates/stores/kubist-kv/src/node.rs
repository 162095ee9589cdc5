//! Nodes of the tree, in memory and as bytes.
//!
//! A stored node may name only nodes and values at lower positions, so stored nodes have no cycle, even if their bytes
//! are damaged.

use std::sync::Arc;

use crate::format::{Address, Fields};

/// Longer values are not stored in the node, but are read from their batch.
pub const INLINE_BYTES: usize = 64;
/// A node with more entries is split.
pub const MOST_ENTRIES: usize = 128;
/// A leaf with more bytes and at least two entries is split.
pub const LEAF_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Inline(Arc<[u8]>),
    Stored(Address),
}

impl Value {
    pub fn length(&self) -> u64 {
        match self {
            Value::Inline(bytes) => bytes.len() as u64,
            Value::Stored(address) => u64::from(address.length),
        }
    }
}

#[derive(Debug, Clone)]
pub enum Child {
    Changed(Arc<Node>),
    Stored(Address),
}

#[derive(Debug, Clone)]
pub enum Node {
    Leaf(Vec<(Arc<[u8]>, Value)>),
    /// Children with the lower bounds of their keys, where keys below the first bound belong to the first child.
    Inner(Vec<(Arc<[u8]>, Child)>),
}

impl Node {
    pub fn is_too_large(&self) -> bool {
        match self {
            Node::Leaf(entries) => {
                let bytes = |(key, value): &(Arc<[u8]>, Value)| match value {
                    Value::Inline(value) => key.len() + value.len(),
                    Value::Stored(_) => key.len(),
                };
                entries.len() > MOST_ENTRIES
                    || entries.len() > 1 && entries.iter().map(bytes).sum::<usize>() > LEAF_BYTES
            }
            Node::Inner(children) => children.len() > MOST_ENTRIES,
        }
    }

    /// Encodes a node whose children are all stored.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        };
        let address = |out: &mut Vec<u8>, at: &Address| {
            out.extend(at.position.to_le_bytes());
            out.extend(at.length.to_le_bytes());
            out.extend(at.checksum.to_le_bytes());
        };
        match self {
            Node::Leaf(entries) => {
                out.push(0);
                out.extend((entries.len() as u32).to_le_bytes());
                let prefix = prefix(entries.first()?.0.as_ref(), entries.last()?.0.as_ref());
                text(&mut out, prefix);
                for (key, value) in entries {
                    text(&mut out, &key[prefix.len()..]);
                    match value {
                        Value::Inline(bytes) => {
                            out.push(0);
                            text(&mut out, bytes);
                        }
                        Value::Stored(at) => {
                            out.push(1);
                            address(&mut out, at);
                        }
                    }
                }
            }
            Node::Inner(children) => {
                out.push(1);
                out.extend((children.len() as u32).to_le_bytes());
                for (key, child) in children {
                    text(&mut out, key);
                    let Child::Stored(at) = child else { return None };
                    address(&mut out, at);
                }
            }
        }
        Some(out)
    }

    /// `None` if the bytes are not a node at `position`.
    pub fn decode(bytes: &[u8], position: u64) -> Option<Node> {
        let mut fields = Fields { bytes, at: 0 };
        let address = |fields: &mut Fields<'_>| {
            let at = Address { position: fields.u64()?, length: fields.u32()?, checksum: fields.u32()? };
            at.position.checked_add(u64::from(at.length)).filter(|end| *end <= position).map(|_| at)
        };
        let (kind, count) = (fields.u8()?, fields.u32()?);
        let node = match kind {
            0 => {
                let (prefix, mut entries) = (fields.text()?, Vec::<(Arc<[u8]>, Value)>::new());
                for _ in 0..count {
                    let key: Arc<[u8]> = [prefix, fields.text()?].concat().into();
                    let value = match fields.u8()? {
                        0 => Value::Inline(fields.text()?.into()),
                        1 => Value::Stored(address(&mut fields)?),
                        _ => return None,
                    };
                    if entries.last().is_some_and(|(before, _)| *before >= key) {
                        return None;
                    }
                    entries.push((key, value));
                }
                Node::Leaf(entries)
            }
            1 => {
                let mut children = Vec::<(Arc<[u8]>, Child)>::new();
                for _ in 0..count {
                    let key: Arc<[u8]> = fields.text()?.into();
                    if children.last().is_some_and(|(before, _)| *before >= key) {
                        return None;
                    }
                    children.push((key, Child::Stored(address(&mut fields)?)));
                }
                Node::Inner(children)
            }
            _ => return None,
        };
        (count > 0 && fields.is_done()).then_some(node)
    }
}

pub fn child_of(children: &[(Arc<[u8]>, Child)], key: &[u8]) -> usize {
    children.partition_point(|(bound, _)| bound.as_ref() <= key).saturating_sub(1)
}

fn prefix<'a>(first: &'a [u8], last: &[u8]) -> &'a [u8] {
    let length = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    &first[..length]
}
