//! Rows converted ahead are taken over where the router comes to them.

use super::Router;
use crate::parallel::ParallelParse;

impl Router {
    /// Something to convert rows ahead with, once it is clear what the rows look like; `None` if that is not yet so, or if
    /// nothing can be done ahead in this COPY.
    pub fn parallel_parse(&self) -> Option<Box<ParallelParse>> {
        let (lane, _) = self.fast.as_ref()?;
        let eol = self.scanner.eol;
        let knows = !self.done && lane.knows(eol, self.options.header, self.line);
        knows.then(|| {
            Box::new(ParallelParse::new(lane.clone(), self.placer.clone(), self.fresh_scanner(eol), self.encoding))
        })
    }

    /// Does the input still to come begin with a row? To be asked after [`Step::NeedInput`](super::Step::NeedInput).
    pub fn is_at_row_start(&self) -> bool {
        self.input.unfinished_bytes() == 0
    }

    /// As [`Router::push`], with work that was done ahead on these bytes.
    pub fn push_parsed(&mut self, parsed: Box<ParallelParse>) {
        let (block, is_valid) = parsed.block();
        self.push_checked(block, is_valid);
        self.parsed = Some(parsed);
    }

    /// Gives back what [`Router::push_parsed`] brought, once its bytes are used up.
    pub fn spent(&mut self) -> Option<Box<ParallelParse>> {
        self.parsed.take()
    }

    /// How many of [`Router::rows`] were converted ahead.
    pub fn rows_in_parallel(&self) -> u64 {
        self.rows_in_parallel
    }

    /// Takes over stretches as long as one begins where the router stands; gives the output that is full. A stretch counts once
    /// all its rows are in the outputs.
    pub(super) fn take_over(&mut self, outputs: &mut [Vec<u8>]) -> Option<usize> {
        let parsed = self.parsed.as_ref()?;
        while let Some((number, stretch)) = parsed.stretch_at(self.input.row_start()?) {
            if !self.input.is_valid_to(stretch.end) {
                return None;
            }
            while self.taken_over < parsed.destinations() {
                let (tuples, distances, run) = parsed.run(number, self.taken_over);
                let dest = self.placer.turned(self.taken_over);
                outputs[dest].extend_from_slice(tuples);
                self.log.add_run(dest, self.line, run, distances);
                self.taken_over += 1;
                if outputs[dest].len() >= self.frame_bytes {
                    return Some(dest);
                }
            }
            let (before, contents) = parsed.contents(stretch);
            self.batches.add_all(self.line + 1, before, contents);
            self.line += contents.len() as u64;
            self.rows += contents.len() as u64;
            self.rows_in_parallel += contents.len() as u64;
            self.placer.turn(contents.len());
            self.input.advance(stretch.end - stretch.start);
            self.taken_over = 0;
        }
        None
    }
}
