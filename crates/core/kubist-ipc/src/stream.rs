//! Reader of a stream of messages.

use std::io::{ErrorKind, Read};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::root_as_message;
use arrow_schema::SchemaRef;

use crate::decoder::Decoder;
use crate::error::{Error, Result};
use crate::{LONGEST_METADATA, unsigned};

const CONTINUATION: [u8; 4] = [0xff; 4];
/// Bytes allocated before the first byte of a message arrives, after which the buffer doubles.
const FIRST_BYTES: usize = 1 << 20;

/// The batches of a stream, in order; unusable after an error.
#[derive(Debug)]
pub struct Stream<R> {
    source: R,
    decoder: Decoder,
}

impl<R: Read> Stream<R> {
    /// Reads the schema; `most_bytes` limits each batch, and all dictionaries together.
    ///
    /// # Errors
    ///
    /// The errors of [`Decoder::new`] and [`Decoder::take`]; [`Error::Io`] if the source fails.
    pub fn begin(mut source: R, most_bytes: u64) -> Result<Stream<R>> {
        let none = || Error::damaged("there is no schema");
        let first = metadata(&mut source)?.ok_or_else(none)?;
        let message = root_as_message(&first).map_err(Error::damaged)?;
        let schema = message.header_as_schema().ok_or_else(|| Error::damaged("its first message is not a schema"))?;
        let mut decoder = Decoder::new(schema, most_bytes)?;
        body(&mut source, &mut decoder, message.bodyLength())?;
        Ok(Stream { source, decoder })
    }

    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    pub fn take_only(&mut self, columns: Vec<usize>) {
        self.decoder.take_only(columns);
    }

    /// Returns the next batch, or `None` at the end of the stream, with the source after the end mark.
    ///
    /// # Errors
    ///
    /// The errors of [`Decoder::take`]; [`Error::Io`] if the source fails.
    #[allow(clippy::should_implement_trait)] // `Iterator::next` cannot return an error of its own.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(metadata) = metadata(&mut self.source)? {
            let length = root_as_message(&metadata).map_err(Error::damaged)?.bodyLength();
            let body = body(&mut self.source, &mut self.decoder, length)?;
            if let Some(batch) = self.decoder.take(&metadata, &body)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

fn metadata(source: &mut impl Read) -> Result<Option<Buffer>> {
    let Some(mut head) = head(source)? else { return Ok(None) };
    if head == CONTINUATION {
        head = self::head(source)?.ok_or_else(ends_early)?;
    }
    match u64::from(u32::from_le_bytes(head)) {
        0 => Ok(None),
        length if length > LONGEST_METADATA => Err(Error::Damaged(format!("metadata of {length} bytes"))),
        length => exactly(source, length).map(Some),
    }
}

fn head(source: &mut impl Read) -> Result<Option<[u8; 4]>> {
    let (mut head, mut filled) = ([0; 4], 0);
    while filled < head.len() {
        match source.read(&mut head[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(ends_early()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Io(error)),
        }
    }
    Ok(Some(head))
}

fn body(source: &mut impl Read, decoder: &mut Decoder, length: i64) -> Result<Buffer> {
    let length = unsigned(length, "a length")?;
    decoder.check_bytes("a batch", length)?;
    exactly(source, length)
}

/// A wrong length allocates at most twice the existing bytes.
fn exactly(source: &mut impl Read, length: u64) -> Result<Buffer> {
    let length = usize::try_from(length).map_err(Error::damaged)?;
    let no_memory = |error| Error::Invalid(format!("{length} bytes: {error}"));
    let mut bytes = MutableBuffer::try_from_len_zeroed(length.min(FIRST_BYTES)).map_err(no_memory)?;
    let mut filled = 0;
    while filled < length {
        let room = bytes.len();
        source.read_exact(&mut bytes[filled..room]).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => ends_early(),
            _ => Error::Io(error),
        })?;
        filled = room;
        bytes.try_resize(length.min(2 * room), 0).map_err(no_memory)?;
    }
    Ok(bytes.into())
}

fn ends_early() -> Error {
    Error::damaged("it ends inside a message")
}
