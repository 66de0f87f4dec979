//! Rows in text and CSV format, with at most one fault.

use testkit::Rng;

use super::options::{Header, Options};
use super::types::{ENCODINGS, KINDS, Kind, UNSAFE_ENCODINGS};

/// What is wrong with the data, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// A value that its type does not take.
    BadValue,
    MissingColumn,
    ExtraColumn,
    /// Another line end in mid-file.
    OtherLineEnd,
    /// A byte that is wrong in the encoding.
    BadByte,
    Nul,
    /// A quote, backslash or delimiter where none belongs.
    Stray,
    /// The end is cut off anywhere.
    Truncated,
    /// `\.` in mid-file, alone on its line or not.
    EndMarker,
    /// An empty line.
    EmptyLine,
    /// A random byte is changed.
    Flip,
    /// A byte order mark at the start.
    ByteOrderMark,
    /// A value of many kilobytes.
    Huge,
    /// The header names other columns.
    BadHeader,
}

pub(super) const FAULTS: &[Fault] = &[
    Fault::BadValue,
    Fault::BadValue,
    Fault::BadValue,
    Fault::MissingColumn,
    Fault::ExtraColumn,
    Fault::OtherLineEnd,
    Fault::BadByte,
    Fault::Nul,
    Fault::Stray,
    Fault::Stray,
    Fault::Truncated,
    Fault::EndMarker,
    Fault::EmptyLine,
    Fault::Flip,
    Fault::ByteOrderMark,
    Fault::Huge,
    Fault::BadHeader,
];

/// Writes rows in text or CSV format.
pub(super) struct Writer<'a> {
    pub(super) options: &'a Options,
    pub(super) columns: &'a [(String, usize)],
    pub(super) listed: &'a [usize],
    pub(super) fault: Fault,
    /// NULL now and then.
    pub(super) nulls: bool,
}

impl Writer<'_> {
    pub(super) fn write(&self, rows: usize, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        let line_end = self.options.line_end.as_bytes();
        let faulty_row = rng.below(rows.max(1));
        // In other encodings wrong bytes of a header are not seen.
        if self.fault == Fault::ByteOrderMark && self.options.encoding == 0 {
            out.extend_from_slice("\u{feff}".as_bytes());
        }
        if self.options.header != Header::None {
            self.write_header(&mut out, rng);
            out.extend_from_slice(line_end);
        }
        for row in 0..rows {
            let fault = if row == faulty_row { self.fault } else { Fault::None };
            self.write_row(fault, &mut out, rng);
            let other = ["\n", "\r", "\r\n"][rng.below(3)].as_bytes();
            let is_last = row + 1 == rows;
            match fault {
                Fault::OtherLineEnd => out.extend_from_slice(other),
                _ if is_last && rng.one_in(3) => {}
                _ => out.extend_from_slice(line_end),
            }
        }
        if self.fault == Fault::None && rng.one_in(10) && out.ends_with(line_end) {
            out.extend_from_slice(b"\\.");
            out.extend_from_slice(line_end);
        }
        match self.fault {
            Fault::Truncated | Fault::Flip => damaged(out, self.fault, rng),
            _ => out,
        }
    }

    fn write_header(&self, out: &mut Vec<u8>, rng: &mut Rng) {
        let mut names: Vec<&str> = self.listed.iter().map(|column| self.columns[*column].0.as_str()).collect();
        if self.fault == Fault::BadHeader {
            let at = rng.below(names.len());
            match rng.below(5) {
                0 => drop(names.remove(at)),
                1 => names.push("more"),
                2 => names[at] = self.options.null,
                3 => names.reverse(),
                _ => names[at] = "\"Other\"",
            }
        }
        out.extend_from_slice(names.join(&char::from(self.options.delimiter).to_string()).as_bytes());
    }

    fn write_row(&self, fault: Fault, out: &mut Vec<u8>, rng: &mut Rng) {
        let faulty_column = rng.below(self.listed.len());
        for (number, column) in self.listed.iter().enumerate() {
            let here = if number == faulty_column { fault } else { Fault::None };
            if number > 0 {
                if here == Fault::MissingColumn {
                    continue;
                }
                out.push(self.options.delimiter);
            }
            self.write_field(&KINDS[self.columns[*column].1], here, out, rng);
        }
        match fault {
            Fault::ExtraColumn => out.extend_from_slice(&[self.options.delimiter, b'x']),
            Fault::EndMarker if rng.one_in(2) => out.extend_from_slice(b"\n\\."),
            Fault::EndMarker => out.extend_from_slice(b"\\."),
            Fault::EmptyLine => out.extend_from_slice(self.options.line_end.as_bytes()),
            _ => {}
        }
    }

    fn write_field(&self, kind: &Kind, fault: Fault, out: &mut Vec<u8>, rng: &mut Rng) {
        if fault == Fault::None && self.nulls && rng.one_in(8) {
            out.extend_from_slice(self.options.null.as_bytes());
            return;
        }
        let mut value = match kind.good {
            [] => self.random_text(rng),
            values => rng.pick(values).as_bytes().to_vec(),
        };
        match fault {
            Fault::BadValue if !kind.bad.is_empty() && !rng.one_in(4) => value = rng.pick(kind.bad).as_bytes().to_vec(),
            Fault::BadValue => value.extend_from_slice(b"#bad"),
            Fault::BadByte => value.extend_from_slice(rng.pick(&[b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\x81"])),
            Fault::Nul => value.push(0),
            Fault::Huge => value = rng.pick(&["9", "x", "ab cd,", "é"]).as_bytes().repeat(1 + rng.below(120_000)),
            _ => {}
        }
        match self.options.csv {
            true => self.write_csv(&value, out, rng),
            false => self.write_text(&value, out, rng),
        }
        if fault == Fault::Stray {
            let at = out.len() - rng.below(out.len().min(6) + 1);
            out.insert(
                at,
                [self.options.quote, b'\\', self.options.delimiter, b'\n', self.options.quote][rng.below(5)],
            );
        }
    }

    fn random_text(&self, rng: &mut Rng) -> Vec<u8> {
        let pieces = ENCODINGS[self.options.encoding].1;
        let special: [&[u8]; 8] = [b"\n", b"\r", b"\t", b"\\", b"\"", b"'", b",", b"|"];
        let mut text = Vec::new();
        let pieces_max = if rng.one_in(4) { 9 } else { 4 };
        for _ in 0..rng.below(pieces_max) {
            let special_now = rng.one_in(5);
            text.extend_from_slice(if special_now { rng.pick(&special) } else { rng.pick(pieces) });
        }
        text
    }

    fn write_csv(&self, value: &[u8], out: &mut Vec<u8>, rng: &mut Rng) {
        let Options { quote, escape, delimiter, null, .. } = *self.options;
        let special = |byte: &u8| [quote, delimiter, b'\n', b'\r'].contains(byte);
        let must_quote = value.iter().any(special) || value == null.as_bytes() || value == b"\\.";
        if !must_quote && !rng.one_in(3) {
            out.extend_from_slice(value);
            return;
        }
        out.push(quote);
        for byte in value {
            if *byte == quote || *byte == escape {
                out.push(escape);
            }
            out.push(*byte);
        }
        out.push(quote);
    }

    fn write_text(&self, value: &[u8], out: &mut Vec<u8>, rng: &mut Rng) {
        // Bytes of a character of several bytes must stay together and unescaped.
        let is_safe = self.options.encoding < UNSAFE_ENCODINGS;
        for byte in value {
            match *byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\\' if is_safe => out.extend_from_slice(b"\\\\"),
                byte if byte == self.options.delimiter && is_safe => out.extend_from_slice(&[b'\\', byte]),
                byte if byte.is_ascii_graphic() && rng.one_in(40) => {
                    out.extend_from_slice(format!("\\{byte:03o}").as_bytes())
                }
                byte if byte.is_ascii_graphic() && rng.one_in(40) => {
                    out.extend_from_slice(format!("\\x{byte:02x}").as_bytes())
                }
                byte => out.push(byte),
            }
        }
    }
}

/// Cuts the end off, or changes a byte.
pub(super) fn damaged(mut data: Vec<u8>, fault: Fault, rng: &mut Rng) -> Vec<u8> {
    if data.is_empty() {
        return data;
    }
    match fault {
        Fault::Truncated => data.truncate(rng.below(data.len())),
        Fault::Flip => {
            let at = rng.below(data.len());
            data[at] ^= 1 << rng.below(8);
        }
        _ => {}
    }
    data
}
