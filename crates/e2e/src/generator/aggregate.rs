//! Aggregates and window functions whose result is determined: an order is given wherever it matters.

use super::expression::fill;
use super::kind::Kind;
use super::part::{Part, seq};
use super::scope::Generator;

/// Aggregates: what they give, how they are written and what they take. `!` repeats the first argument, which is then a
/// bare column; `@` is where FILTER belongs if that is not the end.
const AGGREGATES: &[(Kind, &str, &[Kind])] = &[
    (Kind::Big, "count(*)", &[]),
    (Kind::Big, "count(*)", &[]),
    (Kind::Big, "count(?)", &[Kind::Text]),
    (Kind::Big, "count(?)", &[Kind::Int]),
    (Kind::Big, "count(DISTINCT ?)", &[Kind::Int]),
    (Kind::Big, "count(DISTINCT ?)", &[Kind::Text]),
    (Kind::Big, "count(DISTINCT ?)", &[Kind::Numeric]),
    (Kind::Big, "sum(?)", &[Kind::Int]),
    (Kind::Big, "sum(?)", &[Kind::Small]),
    (Kind::Big, "sum(DISTINCT ?)", &[Kind::Int]),
    (Kind::Big, "rank(3) WITHIN GROUP (ORDER BY ?)", &[Kind::Int]),
    (Kind::Big, "regr_count(?, ?)", &[Kind::Float, Kind::Float]),
    (Kind::Numeric, "sum(?)", &[Kind::Numeric]),
    (Kind::Numeric, "sum(?)", &[Kind::Big]),
    (Kind::Numeric, "avg(?)", &[Kind::Int]),
    (Kind::Numeric, "avg(?)", &[Kind::Numeric]),
    (Kind::Numeric, "avg(DISTINCT ?)", &[Kind::Int]),
    (Kind::Numeric, "round(var_pop(?)@, 6)", &[Kind::Int]),
    (Kind::Numeric, "round(stddev(?)@, 6)", &[Kind::Numeric]),
    (Kind::Numeric, "round(avg(?)@::numeric, 6)", &[Kind::Float]),
    (Kind::Float, "sum(?)", &[Kind::Float]),
    (Kind::Float, "percentile_cont(0.5) WITHIN GROUP (ORDER BY ?)", &[Kind::Float]),
    (Kind::Int, "percentile_disc(0.5) WITHIN GROUP (ORDER BY ?)", &[Kind::Int]),
    (Kind::Int, "mode() WITHIN GROUP (ORDER BY ?)", &[Kind::Int]),
    (Kind::Int, "bit_and(?)", &[Kind::Int]),
    (Kind::Int, "bit_or(?)", &[Kind::Int]),
    (Kind::Bool, "bool_and(?)", &[Kind::Bool]),
    (Kind::Bool, "bool_or(?)", &[Kind::Bool]),
    (Kind::Bool, "every(?)", &[Kind::Bool]),
    (Kind::Ints, "array_agg(? ORDER BY !)", &[Kind::Int]),
    (Kind::Ints, "array_agg(? ORDER BY ! DESC NULLS LAST)", &[Kind::Int]),
    (Kind::Ints, "array_agg(DISTINCT ?)", &[Kind::Int]),
    (Kind::Text, "string_agg(?, ',' ORDER BY !)", &[Kind::Text]),
    (Kind::Text, "string_agg(DISTINCT ?, ',')", &[Kind::Text]),
    (Kind::Text, "array_agg(? ORDER BY !)@::text", &[Kind::Date]),
    (Kind::Json, "jsonb_agg(? ORDER BY !)", &[Kind::Text]),
    (Kind::Date, "max(?)", &[Kind::Date]),
];

const FRAMES: &[&str] = &[
    "",
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS UNBOUNDED PRECEDING",
    " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES",
];

impl Generator<'_> {
    /// An aggregate of a kind over the innermost level, if there is one.
    pub(super) fn aggregate(&mut self, kind: Kind, depth: usize) -> Option<Part> {
        let (template, arguments) = match kind.has_minimum() && self.one_in(3) {
            true => (self.word(&["min(?)", "max(?)"]), vec![self.value(kind, depth)]),
            false => self.aggregate_call(kind, depth)?,
        };
        let filter = match self.one_in(6) {
            true => Part::optional(seq![" FILTER (WHERE ", self.condition(depth.min(1)), ")"]),
            false => Part::Seq(Vec::new()),
        };
        let (call, after) = template.split_once('@').unwrap_or((template, ""));
        let call = match call.split_once('!') {
            Some((before, rest)) => {
                let again = arguments[0].clone();
                seq![fill(before, arguments), again, rest]
            }
            None => fill(call, arguments),
        };
        Some(seq![call, filter, after])
    }

    fn aggregate_call(&mut self, kind: Kind, depth: usize) -> Option<(&'static str, Vec<Part>)> {
        let fitting: Vec<_> = AGGREGATES.iter().filter(|aggregate| aggregate.0 == kind).collect();
        let (_, template, kinds) = fitting.get(self.below(fitting.len().max(1)))?;
        if !template.contains('!') {
            return Some((template, kinds.iter().map(|kind| self.value(*kind, depth)).collect()));
        }
        let columns = self.columns_here(kinds[0]);
        let column = columns.get(self.below(columns.len().max(1)))?.clone();
        Some((template, vec![column.into()]))
    }

    /// A window function's call of a kind; `named` is a window of the level's WINDOW clause.
    pub(super) fn window(&mut self, kind: Kind, named: Option<&str>, depth: usize) -> Option<Part> {
        let ids: Option<Vec<String>> = self.levels.last().and_then(|level| {
            level.iter().map(|source| source.id.as_ref().map(|id| format!("{}.{id}", source.alias))).collect()
        });
        let total = ids.filter(|ids| !ids.is_empty());
        let (column, _) = self.any_column()?;
        let call = match (kind, self.below(4)) {
            (Kind::Big, 0) => self.word(&["rank()", "dense_rank()", "count(*)"]).into(),
            (Kind::Big, 1) if total.is_some() => "row_number()".into(),
            (Kind::Int, 0) if total.is_some() => self.word(&["ntile(3)"]).into(),
            (_, 1 | 2) if total.is_some() => {
                let word = self.word(&["lag(", "lead(", "first_value(", "last_value("]);
                seq![word, self.value(kind, depth.min(1)), ")"]
            }
            _ => self.window_aggregate(kind, depth)?,
        };
        // Without a total order only whole peer groups are determined.
        let frames = if total.is_some() { FRAMES } else { &FRAMES[..2] };
        let over = match named {
            Some(name) if total.is_none() => seq![" OVER ", name],
            _ => {
                let partition = match self.one_in(3) {
                    true => Part::Seq(Vec::new()),
                    false => Part::optional(seq!["PARTITION BY ", column]),
                };
                let mut order: Vec<String> = self.any_column().into_iter().map(|(name, _)| name).collect();
                let direction = self.word(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
                order.iter_mut().for_each(|name| name.push_str(direction));
                order.extend(total.into_iter().flatten());
                let frame = self.word(frames);
                seq![" OVER (", partition, " ORDER BY ", order.join(", "), frame, ")"]
            }
        };
        Some(seq![call, over])
    }

    fn window_aggregate(&mut self, kind: Kind, depth: usize) -> Option<Part> {
        let (word, argument) = match kind {
            Kind::Big => ("sum(", Kind::Int),
            Kind::Numeric => (self.word(&["sum(", "avg(", "max("]), kind),
            Kind::Bool => ("bool_or(", kind),
            _ if kind.has_minimum() => (self.word(&["min(", "max("]), kind),
            _ => return None,
        };
        Some(seq![word, self.value(argument, depth.min(1)), ")"])
    }
}
