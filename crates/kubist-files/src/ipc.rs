//! Arrow IPC: files (also Feather 2) and streams, compressed or not.
//!
//! Messages are framed and looked at here, and decoded by the `arrow-ipc` crate: where a
//! message lies, how long its buffers are, and what each says it inflates to, is compared
//! with the file and the limits before the decoder takes memory for it. The decoder
//! validates the values.

use std::collections::HashMap;
use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary, read_footer_length};
use arrow_ipc::{CompressionType, Message, MessageHeader, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Field, Fields, Schema, SchemaRef};

use crate::Batches;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::source::Counted;

/// Metadata of a message, or of a file, longer than this describes no table.
const LONGEST_METADATA: u64 = 64 << 20;
/// What a byte of LZ4 can become at most.
const MOST_LZ4: u64 = 255;
const CONTINUATION: [u8; 4] = [0xff; 4];
/// A file's last bytes: the length of its footer, and `ARROW1`.
const TRAILER_BYTES: u64 = 10;

/// Where messages are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// Listed in the footer.
    File,
    /// One behind the other.
    Stream,
}

pub fn fields(path: &Path, layout: Layout, limits: &Limits) -> Result<Vec<Field>> {
    let reader = Reader::open(path, layout, Arc::default(), *limits).map_err(|error| error.within(path.display()))?;
    Ok(reader.schema.fields().iter().map(|field| field.as_ref().clone()).collect())
}

pub fn batches(
    path: &Path,
    layout: Layout,
    wanted: &Fields,
    consumed: Arc<AtomicU64>,
    limits: Limits,
) -> Result<Batches> {
    let shown = path.to_path_buf();
    let mut reader = Reader::open(path, layout, consumed, limits).map_err(|error| error.within(path.display()))?;
    let columns = reader.schema.fields().iter().enumerate();
    let columns = columns.filter(|(_, field)| wanted.find(field.name()).is_some()).map(|(index, _)| index);
    reader.columns = columns.collect();
    Ok(Box::new(std::iter::from_fn(move || reader.next().map_err(|error| error.within(shown.display())).transpose())))
}

/// Where a message lies in a file.
struct Block {
    offset: u64,
    metadata_bytes: u64,
    body_bytes: u64,
}

/// Messages of a file, one by one. Its errors do not name the file.
struct Reader {
    file: BufReader<Counted>,
    file_bytes: u64,
    /// Where the next message of a stream begins.
    position: u64,
    /// The messages of a file that are to come, last first; of a stream there is no list.
    blocks: Option<Vec<Block>>,
    schema: SchemaRef,
    columns: Vec<usize>,
    dictionaries: HashMap<i64, ArrayRef>,
    limits: Limits,
}

fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::system(error),
        ArrowError::ParseError(what) | ArrowError::IpcError(what) => Error::invalid(what),
        error => Error::invalid(error),
    }
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the file is damaged or cut short: {why}"))
}

/// A length or an offset, which cannot be negative.
fn whole(number: i64, what: &str) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged(format!("{what} is {number}")))
}

impl Reader {
    fn open(path: &Path, layout: Layout, consumed: Arc<AtomicU64>, limits: Limits) -> Result<Reader> {
        let file = Counted::open(path, consumed)?;
        let file_bytes = file.length().map_err(Error::system)?;
        let mut reader = Reader {
            file: BufReader::with_capacity(1 << 20, file),
            file_bytes,
            position: 0,
            blocks: None,
            schema: Arc::new(Schema::empty()),
            columns: Vec::new(),
            dictionaries: HashMap::new(),
            limits,
        };
        match layout {
            Layout::File => reader.read_footer()?,
            Layout::Stream => reader.read_schema()?,
        }
        limits.check_columns(reader.schema.fields().len())?;
        Ok(reader)
    }

    /// The part of the file at `offset`, which must lie in it.
    fn bytes_at(&mut self, offset: u64, length: u64) -> Result<Buffer> {
        if offset.checked_add(length).is_none_or(|end| end > self.file_bytes) {
            return Err(damaged(format!(
                "{length} bytes at {offset} are not in the file, which has {}",
                self.file_bytes
            )));
        }
        let length = usize::try_from(length).map_err(damaged)?;
        let mut bytes = MutableBuffer::try_from_len_zeroed(length).map_err(Error::invalid)?;
        let here = self.file.stream_position().map_err(Error::system)?;
        // Within what is buffered, if it can be.
        self.file.seek_relative(offset as i64 - here as i64).map_err(Error::system)?;
        self.file.read_exact(&mut bytes).map_err(Error::system)?;
        Ok(bytes.into())
    }

    fn take_schema(&mut self, schema: arrow_ipc::Schema) -> Result<()> {
        if !schema.endianness().equals_to_target_endianness() {
            return Err(Error::invalid("its numbers are in the byte order of other machines"));
        }
        self.schema = Arc::new(try_fb_to_schema(schema).map_err(failed)?);
        Ok(())
    }

    fn read_footer(&mut self) -> Result<()> {
        let end = self.file_bytes.checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it has no footer"))?;
        let trailer = self.bytes_at(end, TRAILER_BYTES)?;
        let trailer: [u8; TRAILER_BYTES as usize] = trailer.as_slice().try_into().map_err(damaged)?;
        let length = read_footer_length(trailer).map_err(failed)? as u64;
        let begin = end.checked_sub(length).filter(|_| length <= LONGEST_METADATA);
        let footer = self.bytes_at(begin.ok_or_else(|| damaged(format!("its footer has {length} bytes")))?, length)?;
        let footer = root_as_footer(&footer).map_err(damaged)?;
        self.take_schema(footer.schema().ok_or_else(|| damaged("its footer has no schema"))?)?;
        let batches = footer.recordBatches().ok_or_else(|| damaged("its footer lists no batches"))?;
        let blocks = footer.dictionaries().into_iter().flatten().chain(batches.iter()).map(|block| {
            Ok(Block {
                offset: whole(block.offset(), "an offset")?,
                metadata_bytes: whole(block.metaDataLength().into(), "a length")?,
                body_bytes: whole(block.bodyLength(), "a length")?,
            })
        });
        let mut blocks: Vec<Block> = blocks.collect::<Result<_>>()?;
        blocks.reverse();
        self.blocks = Some(blocks);
        Ok(())
    }

    fn read_schema(&mut self) -> Result<()> {
        let first = self.metadata()?.ok_or_else(|| damaged("there is no schema"))?;
        let message = root_as_message(&first).map_err(damaged)?;
        self.take_schema(message.header_as_schema().ok_or_else(|| damaged("its first message is no schema"))?)?;
        self.position += whole(message.bodyLength(), "a length")?;
        Ok(())
    }

    /// The next message's metadata in a stream; none at its end.
    fn metadata(&mut self) -> Result<Option<Buffer>> {
        if self.position == self.file_bytes {
            return Ok(None);
        }
        let mut head = self.bytes_at(self.position, 4)?;
        self.position += 4;
        if head.as_slice() == CONTINUATION {
            head = self.bytes_at(self.position, 4)?;
            self.position += 4;
        }
        let length = head.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        if length == 0 {
            return Ok(None);
        }
        if length > LONGEST_METADATA {
            return Err(damaged(format!("metadata of {length} bytes")));
        }
        let metadata = self.bytes_at(self.position, length)?;
        self.position += length;
        Ok(Some(metadata))
    }

    /// The next message's metadata and body.
    fn message(&mut self) -> Result<Option<(Buffer, Buffer)>> {
        let Some(blocks) = &mut self.blocks else {
            let Some(metadata) = self.metadata()? else { return Ok(None) };
            let body_bytes = whole(root_as_message(&metadata).map_err(damaged)?.bodyLength(), "a length")?;
            self.limits.check_batch("a batch", body_bytes)?;
            let body = self.bytes_at(self.position, body_bytes)?;
            self.position += body_bytes;
            return Ok(Some((metadata, body)));
        };
        let Some(block) = blocks.pop() else { return Ok(None) };
        if block.metadata_bytes > LONGEST_METADATA {
            return Err(damaged(format!("metadata of {} bytes", block.metadata_bytes)));
        }
        self.limits.check_batch("a batch", block.body_bytes)?;
        let metadata = self.bytes_at(block.offset, block.metadata_bytes)?;
        // Its length stands in front, in older files without the mark before it.
        let prefix = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
        if metadata.len() < prefix {
            return Err(damaged("a message has no metadata"));
        }
        let body = self.bytes_at(block.offset + block.metadata_bytes, block.body_bytes)?;
        Ok(Some((metadata.slice(prefix), body)))
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some((metadata, body)) = self.message()? {
            let message = root_as_message(&metadata).map_err(damaged)?;
            match message.header_type() {
                MessageHeader::RecordBatch => return self.batch(&message, &body).map(Some),
                MessageHeader::DictionaryBatch => self.dictionary(&message, &body)?,
                MessageHeader::NONE => {}
                other => return Err(damaged(format!("a message of the kind {other:?} among the batches"))),
            }
        }
        Ok(None)
    }

    fn batch(&mut self, message: &Message, body: &Buffer) -> Result<RecordBatch> {
        let batch = message.header_as_record_batch().ok_or_else(|| damaged("a batch has no header"))?;
        self.check(&batch, body)?;
        RecordBatchDecoder::try_new(body, batch, self.schema.clone(), &self.dictionaries, &message.version())
            .and_then(|decoder| decoder.with_projection(Some(&self.columns)).read_record_batch())
            .map_err(failed)
    }

    fn dictionary(&mut self, message: &Message, body: &Buffer) -> Result<()> {
        let dictionary = message.header_as_dictionary_batch().ok_or_else(|| damaged("a dictionary has no header"))?;
        self.check(&dictionary.data().ok_or_else(|| damaged("a dictionary has no values"))?, body)?;
        read_dictionary(body, dictionary, &self.schema, &mut self.dictionaries, &message.version()).map_err(failed)?;
        let held = self.dictionaries.values().map(|values| values.get_array_memory_size() as u64).sum();
        self.limits.check_batch("all dictionaries together", held)
    }

    /// Holds what a batch says about itself against its body and the limits.
    fn check(&self, batch: &arrow_ipc::RecordBatch, body: &Buffer) -> Result<()> {
        // Rows without a value, as nulls are, are not in the body.
        self.limits.check_batch("a row for each byte", whole(batch.length(), "the number of rows")?)?;
        for node in batch.nodes().into_iter().flatten() {
            let (rows, nulls) = (whole(node.length(), "a length")?, whole(node.null_count(), "a number of nulls")?);
            self.limits.check_batch("a row for each byte", rows)?;
            if nulls > rows {
                return Err(damaged(format!("{nulls} of {rows} values are null")));
            }
        }
        let codec = batch.compression().map(|compression| compression.codec());
        let mut inflated = 0u64;
        for buffer in batch.buffers().into_iter().flatten() {
            let (begin, length) = (whole(buffer.offset(), "an offset")?, whole(buffer.length(), "a length")?);
            let end = begin.checked_add(length).filter(|end| *end <= body.len() as u64);
            let end = end.ok_or_else(|| damaged(format!("{length} bytes at {begin} are not in the batch")))?;
            let Some(codec) = codec.filter(|_| length > 0) else { continue };
            let bytes = &body[begin as usize..end as usize];
            let (says, packed) = bytes.split_first_chunk().ok_or_else(|| damaged("a packed buffer has no length"))?;
            let says = match i64::from_le_bytes(*says) {
                // It is not packed.
                -1 => packed.len() as u64,
                says => whole(says, "a length")?,
            };
            if codec == CompressionType::LZ4_FRAME && says > (packed.len() as u64 + 1) * MOST_LZ4 {
                return Err(damaged(format!("{} bytes cannot inflate to {says}", packed.len())));
            }
            inflated = inflated.saturating_add(says);
        }
        self.limits.check_batch("a batch, inflated,", inflated)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, StringArray};
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    use super::*;
    use crate::testing::read_all;
    use crate::{Kind, Options};

    fn batch() -> RecordBatch {
        RecordBatch::try_from_iter([
            ("kind", Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])) as _),
            ("x", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -1.0])) as _),
        ])
        .unwrap()
    }

    fn packed(batch: &RecordBatch, compression: Option<CompressionType>, layout: Layout) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        match layout {
            Layout::File => {
                let mut writer = FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
                writer.write(batch).unwrap();
                writer.write(batch).unwrap();
                writer.into_inner().unwrap()
            }
            Layout::Stream => {
                let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
                writer.write(batch).unwrap();
                writer.write(batch).unwrap();
                writer.into_inner().unwrap()
            }
        }
    }

    const PACKED: [Option<CompressionType>; 3] = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];

    #[test]
    fn files_and_streams_plain_and_compressed() {
        let folder = tempfile::tempdir().unwrap();
        let batch = batch();
        for (compression, layout) in PACKED.iter().flat_map(|c| [(*c, Layout::File), (*c, Layout::Stream)]) {
            let path = folder.path().join("a");
            std::fs::write(&path, packed(&batch, compression, layout)).unwrap();
            let all = read_all(&path, &Options::default()).unwrap();
            assert_eq!((all.slice(0, 3).column(0), all.num_rows()), (batch.column(0), 6));
            let options = Options { columns: Some(vec!["kind".into()]), ..Options::default() };
            assert_eq!(read_all(&path, &options).unwrap().slice(3, 3), batch.project(&[0]).unwrap());
        }
    }

    #[test]
    fn a_cut_or_flipped_file_is_an_error_never_a_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        for (compression, layout) in PACKED.iter().flat_map(|c| [(*c, Layout::File), (*c, Layout::Stream)]) {
            let whole = packed(&batch(), compression, layout);
            for length in (1..whole.len()).step_by(41).filter(|_| layout == Layout::File) {
                std::fs::write(&path, &whole[..length]).unwrap();
                assert!(read_all(&path, &Options::default()).is_err());
            }
            for bit in (0..8 * whole.len()).step_by(11) {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &damaged).unwrap();
                // The format has no checksums: a flipped value passes unseen.
                let _ = read_all(&path, &Options::default());
            }
        }
    }

    #[test]
    fn lengths_are_believed_only_as_far_as_they_can_be_true() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        // Long enough to be packed at all.
        let x = Arc::new(Float64Array::from(vec![0.5; 1000]));
        let batch = RecordBatch::try_from_iter([("x", x as _)]).unwrap();
        for (compression, says) in
            [(CompressionType::LZ4_FRAME, "cannot inflate"), (CompressionType::ZSTD, "--max-batch")]
        {
            let whole = packed(&batch, Some(compression), Layout::File);
            let at = whole.windows(8).position(|window| window == 8000i64.to_le_bytes()).unwrap();
            for bit in [31, 40, 56] {
                let mut damaged = whole.clone();
                damaged[at + bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &damaged).unwrap();
                let error = read_all(&path, &Options::default()).unwrap_err();
                assert!(error.to_string().contains(says), "{error}");
                assert!(matches!(error.kind(), Kind::Invalid | Kind::Limit));
            }
        }
    }
}
