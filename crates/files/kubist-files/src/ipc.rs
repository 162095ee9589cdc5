//! Arrow IPC: files (also Feather 2) and streams, optionally compressed. This module finds the messages. `kubist-ipc`
//! checks each message against its bytes and the limits, and decodes it.

use std::io::{BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::read_footer_length;
use arrow_ipc::root_as_footer;
use arrow_schema::{Field, Fields, SchemaRef};
use kubist_ipc::{Decoder, LONGEST_METADATA, Stream, unsigned};

use crate::Batches;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::source::Counted;

const CONTINUATION: [u8; 4] = [0xff; 4];
/// The bytes of the footer's length and of `ARROW1`.
const TRAILER_BYTES: u64 = 10;
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    File,
    Stream,
}

pub fn fields(path: &Path, layout: Layout, limits: &Limits) -> Result<Vec<Field>> {
    let reader = Reader::open(path, layout, Arc::default(), *limits).map_err(|error| error.within(path.display()))?;
    Ok(reader.schema().fields().iter().map(|field| field.as_ref().clone()).collect())
}

pub fn metadata(path: &Path, layout: Layout, limits: &Limits) -> Result<Vec<(String, String)>> {
    let reader = Reader::open(path, layout, Arc::default(), *limits)?;
    Ok(reader.schema().metadata().iter().map(|(name, value)| (name.clone(), value.clone())).collect())
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
    let columns = reader.schema().fields().iter().enumerate();
    let columns = columns.filter(|(_, field)| wanted.find(field.name()).is_some()).map(|(index, _)| index).collect();
    reader.take_only(columns);
    Ok(Box::new(std::iter::from_fn(move || reader.next().map_err(|error| error.within(shown.display())).transpose())))
}

/// A reader of either kind. Its errors do not name the file.
enum Reader {
    Listed(Listed),
    Stream(Stream<BufReader<Counted>>),
}

struct Block {
    offset: u64,
    metadata_bytes: u64,
    body_bytes: u64,
}

struct Listed {
    file: BufReader<Counted>,
    file_bytes: u64,
    blocks: Vec<Block>,
    decoder: Decoder,
}

fn failed(error: kubist_ipc::Error) -> Error {
    match error {
        kubist_ipc::Error::Io(error) => Error::system(error),
        kubist_ipc::Error::Damaged(why) => damaged(why),
        kubist_ipc::Error::Invalid(why) => Error::invalid(why),
        kubist_ipc::Error::TooLarge { what, bytes, most } => {
            Error::limit(format!("{what} takes {bytes} bytes"), format!("{most} bytes"), "read option max_batch")
        }
    }
}

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the file is damaged or cut short: {why}"))
}

impl Reader {
    fn open(path: &Path, layout: Layout, consumed: Arc<AtomicU64>, limits: Limits) -> Result<Reader> {
        let file = Counted::open(path, consumed)?;
        let file_bytes = file.length().map_err(Error::system)?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        let reader = match layout {
            Layout::File => Reader::Listed(Listed::open(file, file_bytes, limits)?),
            Layout::Stream => Reader::Stream(Stream::begin(file, limits.batch_bytes).map_err(failed)?),
        };
        limits.check_columns(reader.schema().fields().len())?;
        Ok(reader)
    }

    fn schema(&self) -> &SchemaRef {
        match self {
            Reader::Listed(listed) => listed.decoder.schema(),
            Reader::Stream(stream) => stream.schema(),
        }
    }

    fn take_only(&mut self, columns: Vec<usize>) {
        match self {
            Reader::Listed(listed) => listed.decoder.take_only(columns),
            Reader::Stream(stream) => stream.take_only(columns),
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Reader::Listed(listed) => listed.next(),
            Reader::Stream(stream) => stream.next().map_err(failed),
        }
    }
}

impl Listed {
    fn open(mut file: BufReader<Counted>, file_bytes: u64, limits: Limits) -> Result<Listed> {
        let end = file_bytes.checked_sub(TRAILER_BYTES).ok_or_else(|| damaged("it has no footer"))?;
        let trailer = bytes_at(&mut file, file_bytes, end, TRAILER_BYTES)?;
        let trailer: [u8; TRAILER_BYTES as usize] = trailer.as_slice().try_into().map_err(damaged)?;
        let length = read_footer_length(trailer).map_err(damaged)? as u64;
        let begin = end.checked_sub(length).filter(|_| length <= LONGEST_METADATA);
        let begin = begin.ok_or_else(|| damaged(format!("its footer has {length} bytes")))?;
        let footer = bytes_at(&mut file, file_bytes, begin, length)?;
        let footer = root_as_footer(&footer).map_err(damaged)?;
        let schema = footer.schema().ok_or_else(|| damaged("its footer has no schema"))?;
        let decoder = Decoder::new(schema, limits.batch_bytes).map_err(failed)?;
        let batches = footer.recordBatches().ok_or_else(|| damaged("its footer lists no batches"))?;
        let blocks = footer.dictionaries().into_iter().flatten().chain(batches.iter()).map(|block| {
            Ok(Block {
                offset: unsigned(block.offset(), "an offset")?,
                metadata_bytes: unsigned(block.metaDataLength().into(), "a length")?,
                body_bytes: unsigned(block.bodyLength(), "a length")?,
            })
        });
        let mut blocks: Vec<Block> = blocks.collect::<kubist_ipc::Result<_>>().map_err(failed)?;
        blocks.reverse();
        Ok(Listed { file, file_bytes, blocks, decoder })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(block) = self.blocks.pop() {
            let (metadata, body) = self.message(&block)?;
            if let Some(batch) = self.decoder.take(&metadata, &body).map_err(failed)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn message(&mut self, block: &Block) -> Result<(Buffer, Buffer)> {
        if block.metadata_bytes > LONGEST_METADATA {
            return Err(damaged(format!("metadata of {} bytes", block.metadata_bytes)));
        }
        self.decoder.check_bytes("a batch", block.body_bytes).map_err(failed)?;
        let metadata = bytes_at(&mut self.file, self.file_bytes, block.offset, block.metadata_bytes)?;
        // The length precedes the metadata. Older files have no marker before the length.
        let prefix = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
        if metadata.len() < prefix {
            return Err(damaged("a message has no metadata"));
        }
        let begin = block.offset + block.metadata_bytes;
        Ok((metadata.slice(prefix), bytes_at(&mut self.file, self.file_bytes, begin, block.body_bytes)?))
    }
}

fn bytes_at(file: &mut BufReader<Counted>, file_bytes: u64, offset: u64, length: u64) -> Result<Buffer> {
    if offset.checked_add(length).is_none_or(|end| end > file_bytes) {
        return Err(damaged(format!("{length} bytes at {offset} are not in the file, which has {file_bytes}")));
    }
    let length = usize::try_from(length).map_err(damaged)?;
    let mut bytes = MutableBuffer::try_from_len_zeroed(length).map_err(Error::invalid)?;
    let here = file.stream_position().map_err(Error::system)?;
    file.seek_relative(offset as i64 - here as i64).map_err(Error::system)?;
    file.read_exact(&mut bytes).map_err(Error::system)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, StringArray};
    use arrow_ipc::CompressionType;
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
                // Without checksums, a changed value is not detected.
                let _ = read_all(&path, &Options::default());
            }
        }
    }

    #[test]
    fn lengths_are_believed_only_as_far_as_they_can_be_true() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.arrow");
        // Long enough to be compressed.
        let x = Arc::new(Float64Array::from(vec![0.5; 1000]));
        let batch = RecordBatch::try_from_iter([("x", x as _)]).unwrap();
        for (compression, says) in
            [(CompressionType::LZ4_FRAME, "cannot decompress"), (CompressionType::ZSTD, "read option max_batch")]
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
