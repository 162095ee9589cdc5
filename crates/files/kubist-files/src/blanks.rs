//! A reader that reduces each run of blanks and tabs to one blank, and removes them at the ends of a line. Quoted text
//! is unchanged: a quote counts at the start of a field, and a doubled quote is a quote.

use std::io::{BufRead, Read, Result};

#[derive(Clone, Copy, PartialEq)]
enum State {
    Begin,
    /// In an unquoted field, or after the closing quote.
    Field,
    Blank,
    Quoted,
    /// After a quote that closes the field or is the first of two.
    Quote,
}

pub struct Blanks<R> {
    text: R,
    state: State,
    /// A byte that waits, because the output was full after its blank.
    pending: Option<u8>,
}

impl<R> Blanks<R> {
    pub fn new(text: R) -> Blanks<R> {
        Blanks { text, state: State::Begin, pending: None }
    }

    /// Whether to write a blank before the byte, and whether to write the byte.
    fn pass(&mut self, byte: u8) -> (bool, bool) {
        let is_blank = matches!(byte, b' ' | b'\t');
        let ends_line = matches!(byte, b'\r' | b'\n');
        let before = self.state;
        self.state = match before {
            State::Quoted if byte == b'"' => State::Quote,
            State::Quoted => State::Quoted,
            State::Quote if byte == b'"' => State::Quoted,
            _ if ends_line => State::Begin,
            State::Begin if is_blank => State::Begin,
            _ if is_blank => State::Blank,
            State::Begin | State::Blank if byte == b'"' => State::Quoted,
            _ => State::Field,
        };
        let goes = before == State::Quoted || !is_blank;
        (before == State::Blank && goes && !ends_line, goes)
    }
}

impl<R: BufRead> Read for Blanks<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let mut written = 0;
        if let (Some(first), Some(byte)) = (out.first_mut(), self.pending.take()) {
            (*first, written) = (byte, 1);
        }
        while written < out.len() && self.pending.is_none() {
            let Some(&byte) = self.text.fill_buf()?.first() else { break };
            self.text.consume(1);
            let (blank, goes) = self.pass(byte);
            for byte in blank.then_some(b' ').into_iter().chain(goes.then_some(byte)) {
                match out.get_mut(written) {
                    Some(place) => (*place, written) = (byte, written + 1),
                    None => self.pending = Some(byte),
                }
            }
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_blanks_are_one_outside_of_quotes() {
        for (text, expected) in [
            ("  1   2\t 3  \n4 5 6\n", "1 2 3\n4 5 6\n"),
            ("a  \"b  c\"   d\r\n  e  f  g \r\n", "a \"b  c\" d\r\ne f g\r\n"),
            ("\"x  \"\"  y\"  z", "\"x  \"\"  y\" z"),
            ("5\"  pipe  x\n\n  \n", "5\" pipe x\n\n\n"),
            ("   ", ""),
        ] {
            for room in [1, 2, 3, 100] {
                let mut blanks = Blanks::new(text.as_bytes());
                let (mut found, mut buffer) = (Vec::new(), vec![0; room]);
                loop {
                    match blanks.read(&mut buffer).unwrap() {
                        0 => break,
                        length => found.extend(&buffer[..length]),
                    }
                }
                assert_eq!(String::from_utf8(found).unwrap(), expected, "{text:?} by {room}");
            }
        }
    }
}
