//! A line number of a COPY back to a line of a file.
//!
//! PostgreSQL counts newlines in quotes by the style of line ends, which the first row of a COPY does not know yet. So the
//! lines that a row takes may differ between the file as a whole and a COPY of a piece of it, but only for the first row of
//! either; the other rows keep their distance.

use pgerror::{PgError, field};

use crate::files::cut::Piece;

/// The lines of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Lines of the file before it.
    pub(crate) lines_before: u64,
    /// Lines of its first row: in the file, in a COPY that begins with it, in one that does not.
    pub(crate) first_row: [u64; 3],
    /// Lines of all its other rows.
    pub(crate) more_lines: u64,
}

/// What a COPY was sent so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// For each piece: the lines of the COPY before it, the file, its lines.
    pieces: Vec<(u64, usize, Span)>,
    lines: u64,
}

impl Sent {
    pub(crate) fn add(&mut self, piece: &Piece) {
        let span = piece.span;
        let first = span.first_row[if self.pieces.is_empty() { 1 } else { 2 }];
        self.pieces.push((self.lines, piece.file, span));
        self.lines += first + span.more_lines;
    }

    /// File and line of a line of the COPY.
    fn find(&self, line: u64) -> Option<(usize, u64)> {
        let index = self.pieces.partition_point(|(before, ..)| *before < line).checked_sub(1)?;
        let (before, file, span) = self.pieces[index];
        let [in_file, first, later] = span.first_row;
        let in_copy = if index == 0 { first } else { later };
        // A row is known by its last line.
        Some((file, span.lines_before + (line - before + in_file).saturating_sub(in_copy).max(1)))
    }

    /// Gives the error the line of the file, if its CONTEXT names one of COPY; and that place.
    pub(crate) fn renumber(&self, error: PgError, relation: &str) -> (PgError, Option<(usize, u64)>) {
        let mut found = None;
        let error = copyfmt::renumber(error, relation, |line| {
            found = self.find(line);
            found.map(|(_, line)| line)
        });
        (error, found)
    }
}

/// `file:line: message`, and CONTEXT, which names column and value, where a person sees it.
pub(crate) fn locate(error: PgError, name: &str, line: u64) -> PgError {
    let message = format!("{name}:{line}: {}", error.message());
    let (detail, context) = (error.text(field::DETAIL).into_owned(), error.text(field::WHERE).into_owned());
    let parts: Vec<String> = [detail, context].into_iter().filter(|part| !part.is_empty()).collect();
    let error = error.with(field::MESSAGE, message);
    if parts.is_empty() { error } else { error.detail(parts.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lines_before: u64, first_row: [u64; 3], more_lines: u64) -> Piece {
        let span = Span { lines_before, first_row, more_lines };
        Piece {
            file: 0,
            start: 0,
            end: 0,
            rows: 1,
            blocks: Vec::new(),
            checksum: 0,
            span,
            eol: copyfmt::Eol::Lf,
            unterminated: false,
        }
    }

    #[test]
    fn lines_of_later_pieces_and_of_odd_first_rows() {
        let mut sent = Sent::default();
        // The COPY counts one line for a first row that has three in the file.
        sent.add(&piece(10, [3, 1, 3], 4));
        sent.add(&piece(100, [1, 1, 1], 9));
        assert_eq!(sent.find(1), Some((0, 13)));
        assert_eq!(sent.find(5), Some((0, 17)));
        assert_eq!(sent.find(6), Some((0, 101)));
        assert_eq!(sent.find(15), Some((0, 110)));
        assert_eq!(sent.find(0), None);
    }
}
