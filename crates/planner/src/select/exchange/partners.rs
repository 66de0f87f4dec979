//! Which columns of which tables are equal in every row that counts: a table with few rows then says which rows of the others are needed at all.

use catalog::Column;
use pg_query::Node;
use pg_query::protobuf::{ResTarget, SelectStmt, SubLink, SubLinkType};
use placement::KeyType;

use super::unit::{Partner, Unit};
use crate::context::Context;
use crate::select::levels::{Found, Level};
use crate::select::{shape, terms};
use crate::tree::{self, Get};

/// A column of a unit.
type Place = (usize, String);

/// Finds every unit's partners.
///
/// What an inner level asks for says nothing of the rows of an outer one: a level's equalities, and those of the levels
/// around it, are used for its own tables only.
pub(super) fn find(ctx: &Context<'_>, units: &mut [Unit], levels: &[Level<'_>]) {
    if ctx.has_user_operator("=") {
        return;
    }
    let finder = Finder { ctx, units, levels };
    let own: Vec<Vec<(Place, Place)>> = (0..levels.len()).map(|at| finder.equalities(at)).collect();
    let mut partners: Vec<Vec<Partner>> = units.iter().map(|_| Vec::new()).collect();
    for at in 0..levels.len() {
        let mut pairs = Vec::new();
        let mut level = Some(at);
        while let Some(next) = level {
            pairs.extend(own[next].iter().cloned());
            level = levels[next].parent;
        }
        for class in classes(&pairs) {
            for (unit, column) in class.iter().filter(|(unit, _)| units[*unit].level == at) {
                let others = class.iter().filter(|(other, _)| other != unit);
                partners[*unit].extend(others.map(|(other, name)| Partner {
                    unit: *other,
                    own: column.clone(),
                    other: name.clone(),
                }));
            }
        }
    }
    for (unit, found) in units.iter_mut().zip(partners) {
        unit.partners = found;
    }
}

struct Finder<'a> {
    ctx: &'a Context<'a>,
    units: &'a [Unit],
    levels: &'a [Level<'a>],
}

impl Finder<'_> {
    /// Equalities that every row of the level fulfils. `a IN (SELECT b …)` means that some row of the sub-select has b = a.
    fn equalities(&self, at: usize) -> Vec<(Place, Place)> {
        let mut pairs = Vec::new();
        for condition in &self.levels[at].conditions {
            for (left, right) in terms::equal_pairs(condition) {
                if let (Some(a), Some(b)) = (self.place(Some(at), left), self.place(Some(at), right)) {
                    pairs.push((a, b));
                }
            }
            pairs.extend(self.membership(at, condition));
        }
        pairs.retain(|(a, b)| a.0 != b.0 && self.class(a).is_some() && self.class(a) == self.class(b));
        pairs
    }

    fn membership(&self, at: usize, condition: &Node) -> Option<(Place, Place)> {
        let link = condition.get::<SubLink>()?;
        let query = plain_in(self.ctx, link)?;
        let own = self.place(Some(at), link.testexpr.as_deref()?)?;
        let target = query.target_list.first()?.get::<ResTarget>()?;
        let value = target.val.as_deref()?;
        // The sub-select's level is the child that has this very text.
        let child = self.levels.iter().position(|l| l.parent == Some(at) && l.is_of(query))?;
        let Found::Table(..) = self.levels[child].owner(self.ctx, value) else { return None };
        Some((own, self.place(Some(child), value)?))
    }

    /// The unit and column that a name at a level leads to.
    fn place(&self, mut level: Option<usize>, side: &Node) -> Option<Place> {
        while let Some(at) = level {
            match self.levels[at].owner(self.ctx, side) {
                Found::Table(table, column) => {
                    let number = self.levels[at].tables[table].number;
                    let unit = self.units.iter().position(|u| u.level == at && u.number == number)?;
                    return self.units[unit].keeps.then_some((unit, column));
                }
                Found::Nowhere => level = self.levels[at].parent,
                Found::Unknown => return None,
            }
        }
        None
    }

    fn class(&self, place: &Place) -> Option<KeyType> {
        let column: &Column = self.units[place.0].relation.column(&place.1).filter(|column| column.deterministic)?;
        self.ctx.catalog.key_type(column.type_oid).map(KeyType::hash_class)
    }
}

/// The sub-select of `a IN (SELECT …)` if a row of it stands for itself alone: no grouping, no LIMIT.
fn plain_in<'t>(ctx: &Context<'_>, link: &'t SubLink) -> Option<&'t SelectStmt> {
    let is_in = link.sub_link_type == SubLinkType::AnySublink as i32
        && (link.oper_name.is_empty() || tree::own_name(&link.oper_name) == Some("="));
    let query = link.subselect.get::<SelectStmt>()?;
    let is_plain = !tree::is_operation(query)
        && query.target_list.len() == 1
        && query.distinct_clause.is_empty()
        && tree::is_unlimited(query)
        && shape::windows(query).ok()?.is_empty()
        && !shape::is_aggregated(ctx, query).ok()?;
    (is_in && is_plain).then_some(query)
}

/// Groups places that are equal through any chain of pairs.
fn classes(pairs: &[(Place, Place)]) -> Vec<Vec<Place>> {
    let mut classes: Vec<Vec<Place>> = Vec::new();
    for (a, b) in pairs {
        let mut merged = vec![a.clone(), b.clone()];
        classes.retain_mut(|class| {
            let touches = class.contains(a) || class.contains(b);
            if touches {
                merged.append(class);
            }
            !touches
        });
        merged.sort();
        merged.dedup();
        classes.push(merged);
    }
    classes
}
