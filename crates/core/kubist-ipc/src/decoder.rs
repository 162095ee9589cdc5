//! Decoder of Arrow IPC messages into record batches.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{CompressionType, Message, MessageHeader, root_as_message};
use arrow_schema::{DataType, SchemaRef};

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::plain::is_plain;
use crate::unsigned;

/// The largest ratio of decompressed to compressed bytes that LZ4 can reach.
const MOST_LZ4: u64 = 255;

/// Decodes the batches of a stream or file, and keeps their schema and dictionaries.
#[derive(Debug)]
pub struct Decoder {
    schema: SchemaRef,
    columns: Option<Vec<usize>>,
    dictionaries: HashMap<i64, ArrayRef>,
    most_bytes: u64,
}

impl Decoder {
    /// Creates a decoder; `most_bytes` limits each batch, and all dictionaries together.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the byte order is not that of this machine; [`Error::Damaged`].
    pub fn new(schema: arrow_ipc::Schema<'_>, most_bytes: u64) -> Result<Decoder> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Error::Invalid(
                "its byte order differs from this machine's, and Kubist does not convert it".into(),
            ));
        }
        let schema = Arc::new(try_fb_to_schema(schema).map_err(Error::of_decoder)?);
        Ok(Decoder { schema, columns: None, dictionaries: HashMap::new(), most_bytes })
    }

    /// The schema of the stream, with the columns that [`Decoder::take_only`] leaves out.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn take_only(&mut self, columns: Vec<usize>) {
        self.columns = Some(columns);
    }

    /// # Errors
    ///
    /// [`Error::TooLarge`].
    pub fn check_bytes(&self, what: &'static str, bytes: u64) -> Result<()> {
        match bytes > self.most_bytes {
            true => Err(Error::TooLarge { what, bytes, most: self.most_bytes }),
            false => Ok(()),
        }
    }

    /// Returns the rows of a record batch and `None` for a dictionary.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`]; [`Error::Invalid`] if a value or the type of a decoded column is not valid here;
    /// [`Error::TooLarge`].
    pub fn take(&mut self, metadata: &[u8], body: &Buffer) -> Result<Option<RecordBatch>> {
        let message = root_as_message(metadata).map_err(Error::damaged)?;
        match message.header_type() {
            MessageHeader::RecordBatch => self.batch(&message, body).map(Some),
            MessageHeader::DictionaryBatch => self.dictionary(&message, body).map(|()| None),
            MessageHeader::NONE => Ok(None),
            other => Err(Error::Damaged(format!("an unexpected message of the kind {other:?} between the batches"))),
        }
    }

    fn batch(&self, message: &Message, body: &Buffer) -> Result<RecordBatch> {
        let batch = message.header_as_record_batch().ok_or_else(|| Error::damaged("a batch has no header"))?;
        let lengths = self.check(&batch, body)?;
        let mut layout = Layout::new(&batch, message.version(), &lengths);
        for (index, field) in self.schema.fields().iter().enumerate() {
            let (name, data_type) = (field.name(), field.data_type());
            match self.columns.as_ref().is_none_or(|columns| columns.contains(&index)) {
                false => layout.pass(data_type)?,
                true if is_plain(data_type) => layout.check(data_type)?,
                true => {
                    let what = format!("column {name:?} has the type {data_type}, which is not read here");
                    return Err(Error::Invalid(what));
                }
            }
        }
        RecordBatchDecoder::try_new(body, batch, self.schema.clone(), &self.dictionaries, &message.version())
            .and_then(|decoder| decoder.with_projection(self.columns.as_deref()).read_record_batch())
            .map_err(Error::of_decoder)
    }

    fn dictionary(&mut self, message: &Message, body: &Buffer) -> Result<()> {
        let dictionary =
            message.header_as_dictionary_batch().ok_or_else(|| Error::damaged("a dictionary has no header"))?;
        let batch = dictionary.data().ok_or_else(|| Error::damaged("a dictionary has no values"))?;
        let lengths = self.check(&batch, body)?;
        for values in self.values_of(dictionary.id()) {
            if !is_plain(&values) {
                return Ok(());
            }
            Layout::new(&batch, message.version(), &lengths).check(&values)?;
        }
        read_dictionary(body, dictionary, &self.schema, &mut self.dictionaries, &message.version())
            .map_err(Error::of_decoder)?;
        let held = self.dictionaries.values().map(|values| values.get_array_memory_size() as u64).sum();
        self.check_bytes("all dictionaries together", held)
    }

    fn values_of(&self, id: i64) -> Vec<DataType> {
        #[allow(deprecated)] // arrow-ipc has no other way to find the fields of a dictionary.
        let fields = self.schema.fields_with_dict_id(id);
        let values = fields.into_iter().map(|field| match field.data_type() {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        });
        values.collect()
    }

    /// Checks lengths and offsets against the body and the limit, and returns the decompressed length per
    /// buffer.
    fn check(&self, batch: &arrow_ipc::RecordBatch, body: &Buffer) -> Result<Vec<u64>> {
        // Columns of nulls need no bytes in the body, so the number of rows needs its own limit.
        self.check_bytes("a row for each byte", unsigned(batch.length(), "the number of rows")?)?;
        for node in batch.nodes().into_iter().flatten() {
            let (rows, nulls) =
                (unsigned(node.length(), "a length")?, unsigned(node.null_count(), "a number of nulls")?);
            self.check_bytes("a row for each byte", rows)?;
            if nulls > rows {
                return Err(Error::Damaged(format!("{nulls} of {rows} values are null")));
            }
        }
        let codec = batch.compression().map(|compression| compression.codec());
        let (mut lengths, mut inflated) = (Vec::new(), 0u64);
        for buffer in batch.buffers().into_iter().flatten() {
            let (begin, length) = (unsigned(buffer.offset(), "an offset")?, unsigned(buffer.length(), "a length")?);
            let end = begin.checked_add(length).filter(|end| *end <= body.len() as u64);
            let end = end.ok_or_else(|| Error::Damaged(format!("{length} bytes at {begin} are not in the batch")))?;
            lengths.push(match codec.filter(|_| length > 0) {
                None => length,
                Some(codec) => {
                    let says = inflated_bytes(codec, &body[begin as usize..end as usize])?;
                    inflated = inflated.saturating_add(says);
                    says
                }
            });
        }
        self.check_bytes("a decompressed batch", inflated)?;
        Ok(lengths)
    }
}

/// A stated length that LZ4 cannot reach is an error.
fn inflated_bytes(codec: CompressionType, bytes: &[u8]) -> Result<u64> {
    let (says, packed) =
        bytes.split_first_chunk().ok_or_else(|| Error::damaged("a compressed buffer has no length"))?;
    let says = match i64::from_le_bytes(*says) {
        // -1 marks a buffer that is not compressed.
        -1 => packed.len() as u64,
        says => unsigned(says, "a length")?,
    };
    match codec == CompressionType::LZ4_FRAME && says > (packed.len() as u64 + 1) * MOST_LZ4 {
        true => Err(Error::Damaged(format!("{} compressed bytes cannot decompress to {says} bytes", packed.len()))),
        false => Ok(says),
    }
}
