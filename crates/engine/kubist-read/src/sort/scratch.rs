//! Sorted rows in a scratch file: runs of blocks, with the keys of the rows.
//!
//! The file has no name and is in the system's temporary folder (`TMPDIR`), because a table's store may be
//! read-only.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use kubist_store::{Scratch, local_scratch};

use super::keys::Keys;
use kubist_catalog::error::store_error;
use kubist_types::error::{Error, Result};

pub(super) struct Block {
    pub columns: Vec<ArrayRef>,
    pub keys: Keys,
}

/// Offset and length of a block, in bytes.
pub(super) type BlockRange = (u64, u64);

pub(super) struct Spilled {
    schema: SchemaRef,
    scratch: Option<Arc<dyn Scratch>>,
    written: u64,
    most: Option<u64>,
}

impl Spilled {
    pub fn new(schema: SchemaRef, most: Option<u64>) -> Spilled {
        Spilled { schema, scratch: None, written: 0, most }
    }

    pub fn write(&mut self, block: &Block) -> Result<BlockRange> {
        let mut bytes = Vec::new();
        block.keys.write(&mut bytes);
        if !block.columns.is_empty() {
            let batch = RecordBatch::try_new(self.schema.clone(), block.columns.clone()).map_err(Error::kernel)?;
            let mut writer = StreamWriter::try_new(&mut bytes, &self.schema).map_err(Error::kernel)?;
            writer.write(&batch).and_then(|()| writer.finish()).map_err(Error::kernel)?;
        }
        self.written += bytes.len() as u64;
        if let Some(most) = self.most.filter(|most| self.written > *most) {
            return Err(Error::invalid(format!(
                "order_by: more than {} MiB of scratch space would be needed: ask for a sample, for less \
                 (first, columns), or without an order",
                most >> 20
            )));
        }
        let scratch = match &self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(local_scratch().map_err(store_error)?.into()),
        };
        Ok((scratch.append(&bytes).map_err(store_error)?, bytes.len() as u64))
    }

    pub fn read(&self, (offset, length): BlockRange) -> Result<Block> {
        let damaged = || Error::internal("a scratch file does not hold what was written to it");
        let scratch = self.scratch.as_ref().ok_or_else(damaged)?;
        let bytes = scratch.read(offset..offset + length).map_err(store_error)?;
        let (keys, begin) = Keys::read(&bytes).ok_or_else(damaged)?;
        if self.schema.fields().is_empty() {
            return Ok(Block { columns: Vec::new(), keys });
        }
        let (mut decoder, mut buffer) = (StreamDecoder::new(), Buffer::from(bytes.slice(begin..)));
        let batch = decoder.decode(&mut buffer).map_err(Error::kernel)?.ok_or_else(damaged)?;
        if batch.num_rows() != keys.len() {
            return Err(damaged());
        }
        Ok(Block { columns: batch.columns().to_vec(), keys })
    }
}
