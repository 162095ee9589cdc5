//! Finds the boundaries of records in text, and unclosed quotes. The decoder collects a record until it ends, and
//! accepts the end of the text as the end of a quote, so this check comes first. It uses the same rules (RFC 4180 as
//! csv-core reads it): a quote counts at the start of a field, a doubled quote is a quote, and lines end with CR, LF or
//! both. Unclosed quotes, and records that are too long or have too many fields, are errors.

use std::io::Read;

use crate::error::{Error, Result};
use crate::limits::Limits;

const BUFFER: usize = 1 << 18;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Outside,
    Begin,
    /// In an unquoted field, or after the closing quote.
    Plain,
    Quoted,
    /// After a quote that closes the field or is the first of two.
    Quote,
}

/// The text in parts, which are checked before they are returned.
pub struct Records<R> {
    reader: R,
    delimiter: u8,
    limits: Limits,
    buffer: Vec<u8>,
    unread: std::ops::Range<usize>,
    /// The end of the last complete record in the buffer.
    whole: usize,
    state: State,
    lines: u64,
    after_return: bool,
    /// The lines where the record and the last quote began, and the record's size so far.
    record_line: u64,
    quote_line: u64,
    record_bytes: u64,
    record_fields: usize,
    /// Bytes up to the end of the first record.
    first_bytes: Option<u64>,
    passed: u64,
}

impl<R: Read> Records<R> {
    pub fn new(reader: R, delimiter: u8, limits: Limits) -> Records<R> {
        Records {
            reader,
            delimiter,
            limits,
            buffer: vec![0; BUFFER],
            unread: 0..0,
            whole: 0,
            state: State::Outside,
            lines: 0,
            after_return: false,
            record_line: 1,
            quote_line: 1,
            record_bytes: 0,
            record_fields: 0,
            first_bytes: None,
            passed: 0,
        }
    }

    /// Returns the text that was not consumed yet, empty at the end. With `whole`, it has only complete records, if
    /// there is one.
    pub fn part(&mut self, whole: bool) -> Result<&[u8]> {
        if self.unread.is_empty() {
            let length = loop {
                match self.reader.read(&mut self.buffer) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    outcome => break outcome,
                }
            };
            let length = length.map_err(Error::system)?;
            self.unread = 0..length;
            self.scan(length)?;
            if length == 0 && self.state == State::Quoted {
                return Err(Error::invalid(format!("line {}: a quote begins here that never closes", self.quote_line)));
            }
        }
        let end = if whole && self.whole > self.unread.start { self.whole } else { self.unread.end };
        Ok(&self.buffer[self.unread.start..end])
    }

    pub fn consume(&mut self, bytes: usize) {
        self.unread.start += bytes;
    }

    pub fn at_end_of_record(&self) -> bool {
        self.unread.start == self.whole
    }

    /// Returns the first record; call this only before anything is consumed.
    pub fn first(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        while !self.part(false)?.is_empty() {
            text.extend_from_slice(&self.buffer[self.unread.clone()]);
            self.consume(self.unread.len());
            if let Some(bytes) = self.first_bytes {
                text.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
                break;
            }
        }
        Ok(text)
    }

    fn scan(&mut self, length: usize) -> Result<()> {
        self.whole = 0;
        let mut record_begin = 0;
        let mut at = 0;
        while at < length {
            let byte = self.buffer[at];
            let ends_line = matches!(byte, b'\r' | b'\n');
            if ends_line && !(byte == b'\n' && self.after_return) {
                self.lines += 1;
            }
            self.after_return = byte == b'\r';
            at += 1;
            let before = self.state;
            self.state = match before {
                State::Outside if ends_line => {
                    self.whole = at;
                    record_begin = at;
                    continue;
                }
                State::Outside | State::Begin if byte == b'"' => {
                    self.quote_line = self.lines + 1;
                    State::Quoted
                }
                State::Quoted if byte == b'"' => State::Quote,
                State::Quoted => State::Quoted,
                State::Quote if byte == b'"' => State::Quoted,
                _ if byte == self.delimiter => State::Begin,
                _ if ends_line => State::Outside,
                _ => State::Plain,
            };
            if before == State::Outside {
                (self.record_line, self.record_bytes, self.record_fields) = (self.lines + 1, 0, 1);
            }
            match self.state {
                State::Begin => {
                    self.record_fields += 1;
                    if self.record_fields > self.limits.columns {
                        let what = format!("line {} has more fields than a file may have columns", self.record_line);
                        return Err(Error::limit(what, self.limits.columns, "read option max_columns"));
                    }
                }
                State::Outside => {
                    self.check(at - record_begin)?;
                    self.first_bytes.get_or_insert(self.passed + at as u64);
                    self.whole = at;
                    record_begin = at;
                }
                _ => {}
            }
        }
        if self.state != State::Outside {
            self.check(length - record_begin)?;
            self.record_bytes += (length - record_begin) as u64;
        }
        self.passed += length as u64;
        Ok(())
    }

    fn check(&self, more: usize) -> Result<()> {
        if self.record_bytes + more as u64 <= self.limits.record_bytes {
            return Ok(());
        }
        let quote = match self.state {
            State::Quoted => format!(" (in quotes that begin in line {})", self.quote_line),
            _ => String::new(),
        };
        Err(Error::limit(
            format!("the record that begins in line {} is longer than a record may be{quote}", self.record_line),
            format!("{} bytes", self.limits.record_bytes),
            "read option max_record",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bits<'a>(&'a [u8], usize);

    impl Read for Bits<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn through(text: &str, bits: usize, limits: Limits) -> Result<String> {
        let mut records = Records::new(Bits(text.as_bytes(), bits), b',', limits);
        let mut seen = Vec::new();
        loop {
            let part = records.part(false)?.to_vec();
            if part.is_empty() {
                return Ok(String::from_utf8(seen).unwrap());
            }
            seen.extend(&part);
            records.consume(part.len());
        }
    }

    #[test]
    fn a_quote_that_never_closes_is_told_with_its_line() {
        for bits in [1, 2, 7, 1000] {
            for (text, line) in [
                ("a,b\n1,\"x\n2,y\n3,z\n", 2),
                ("a,b\r\n1,x\r\n\"2,y\r\n", 3),
                ("a,b\r1,x\r\r2,\"y", 4),
                ("\"a,b\n1,2\n", 1),
                ("a,b\n\"1\",\"\"\"x\n", 2),
                ("a,b\n\"x\ny\",\"never\n", 3),
            ] {
                let error = through(text, bits, Limits::default()).unwrap_err().to_string();
                assert!(error.starts_with(&format!("line {line}: a quote")), "{text:?}: {error}");
            }
            for text in ["a,b\n1,\"x\ny\"\n", "a\n5\" pipe\n", "a\n\"x\"y\n\"\"\n", "a\n\"say \"\"hi\"\"\"", "", "\n\n"]
            {
                assert_eq!(through(text, bits, Limits::default()).unwrap(), text);
            }
        }
    }

    #[test]
    fn records_are_held_against_the_limits() {
        let limits = Limits { record_bytes: 10, columns: 3, ..Limits::default() };
        for bits in [1, 3, 1000] {
            for (text, expected) in [
                ("a,b\n1,2\n12345678901\n", "line 3"),
                ("a,b\n\"1\n2\n3\n4\n5\n6\n", "in quotes that begin in line 2"),
                ("a,b,c,d\n", "line 1 has more fields"),
                ("a\n1,2,3,4", "line 2 has more fields"),
            ] {
                let error = through(text, bits, limits).unwrap_err().to_string();
                assert!(error.contains(expected), "{text:?}: {error}");
            }
            assert!(through("a,b,c\n1,\"2,3,4\"\n123456789\n", bits, limits).is_ok());
        }
    }

    #[test]
    fn the_first_record_is_cut_off() {
        for bits in [1, 5, 1000] {
            let mut records = Records::new(Bits(b"\n\"a\nb\",c\r\n1,2\n", bits), b',', Limits::default());
            let first = String::from_utf8(records.first().unwrap()).unwrap();
            assert_eq!(first.trim(), "\"a\nb\",c");
        }
    }

    #[test]
    fn whole_records_can_be_asked_for() {
        let mut records = Records::new(&b"a,b\n1,2\n3,"[..], b',', Limits::default());
        assert_eq!(records.part(true).unwrap(), b"a,b\n1,2\n");
        records.consume(8);
        assert!(records.at_end_of_record());
        assert_eq!(records.part(true).unwrap(), b"3,");
    }
}
