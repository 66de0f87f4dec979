//! WITH items that change rows, as those see them that read what RETURNING gives.

use super::*;

impl Env<'_> {
    /// One more WITH item, with the user's names for its columns.
    pub fn add(&mut self, name: &str, mut block: Block, columns: &[Node]) {
        rename(&mut block, columns);
        self.ctes.push((name.to_owned(), block));
    }
}

impl Analyzer<'_> {
    /// What a data change gives: the rows of `returning` where the changed rows are.
    pub fn changed(
        &mut self,
        target: &RangeVar,
        others: &[Node],
        condition: Option<&Node>,
        expressions: &[Node],
        returning: &[Node],
        env: &Env<'_>,
    ) -> Local<Block> {
        let expressions = [expressions, returning].concat();
        let body = self.write_body(target, others, condition, &expressions, env)?;
        let select = SelectStmt { target_list: returning.to_vec(), ..tree::empty_select() };
        Ok(self.shown(&select, body))
    }
}
