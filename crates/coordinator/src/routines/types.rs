//! Types and casts as the home node knows them.

use std::collections::{HashMap, HashSet};

use pgerror::{PgError, Result, SqlState};
use routine::Type;

use super::runner::Runner;

/// Those that bodies have asked for.
#[derive(Default)]
pub(super) struct KnownTypes {
    types: HashMap<(u32, i32), Type>,
    /// Types of users whose values have names of objects in them.
    naming: HashSet<u32>,
    /// By the settings too: another search path finds other types.
    expressions: HashMap<(u64, String), Type>,
    casts: HashMap<(u32, u32), bool>,
}

impl KnownTypes {
    /// Do values of a type that has been asked for name objects?
    pub(super) fn has_names(&self, oid: u32) -> bool {
        names_objects(oid) || self.naming.contains(&oid)
    }
}

/// Types of PostgreSQL's own whose values name objects, and their arrays.
const NAMING: [[u32; 2]; 11] = [
    [24, 1008],
    [2202, 2207],
    [2203, 2208],
    [2204, 2209],
    [2205, 2210],
    [2206, 2211],
    [3734, 3735],
    [3769, 3770],
    [4089, 4090],
    [4096, 4097],
    [4191, 4192],
];

/// Are values of a type of PostgreSQL's own names of objects?
pub(super) fn names_objects(oid: u32) -> bool {
    NAMING.as_flattened().contains(&oid)
}

/// Has a type of PostgreSQL's own no fields? Those of its catalogs have, among them regproc.
fn is_no_row(oid: u32) -> bool {
    /// First id that is given when a server is made: to catalogs' row types, for one.
    const FIRST_MADE_OID: u32 = 10000;
    /// pg_type, pg_attribute, pg_proc, pg_class.
    const ROWS: [u32; 4] = [71, 75, 81, 83];
    oid < FIRST_MADE_OID && !ROWS.contains(&oid)
}

/// A type's name with its schema, which means the same under every search path, and its length and precision. An array's is its
/// element's.
const NAME: &str = "CASE WHEN t.oid < 16384 THEN pg_catalog.format_type(t.oid, m.modifier) \
     ELSE (pg_catalog.pg_identify_object('pg_catalog.pg_type'::pg_catalog.regclass, e.oid, 0)).identity \
     || pg_catalog.substr(pg_catalog.format_type(e.oid, m.modifier), pg_catalog.length(pg_catalog.format_type(e.oid, NULL)) + 1) \
     || CASE WHEN e.oid <> t.oid THEN '[]' ELSE '' END END";

impl Runner {
    /// The type with this id on the home node.
    pub(super) async fn find_type(&mut self, oid: u32, modifier: i32) -> Result<Type> {
        if let Some(known) = well_known(oid, modifier) {
            return Ok(known);
        }
        if let Some(known) = self.routines().types.types.get(&(oid, modifier)) {
            return Ok(known.clone());
        }
        let sql = format!(
            "SELECT {NAME}, a.attname, a.atttypid, a.atttypmod, \
             CASE t.typtype WHEN 'd' THEN t.typbasetype END, t.typtypmod, CASE WHEN e.oid <> t.oid THEN e.oid END \
             FROM pg_catalog.pg_type t CROSS JOIN (SELECT {modifier} AS modifier) AS m JOIN pg_catalog.pg_type e \
             ON e.oid = coalesce((SELECT o.oid FROM pg_catalog.pg_type o WHERE o.typarray = t.oid), t.oid) \
             LEFT JOIN pg_catalog.pg_attribute a \
             ON a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE t.oid = {oid} ORDER BY a.attnum"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let text = |row: &Vec<Option<bytes::Bytes>>, at: usize| {
            row.get(at).cloned().flatten().map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let first = rows.first().ok_or_else(|| PgError::new(SqlState::UNDEFINED_OBJECT, "the type is gone"))?;
        let name = text(first, 0).unwrap_or_default();
        let over = match text(first, 4).map(|base| (base.parse(), text(first, 5).unwrap_or_default().parse())) {
            Some((Ok(base), Ok(modifier))) => Some(Box::new(Box::pin(self.find_type(base, modifier)).await?)),
            _ => None,
        };
        let mut fields = Vec::new();
        for row in &rows {
            if let Some(column) = text(row, 1) {
                let number = |at: usize| text(row, at).unwrap_or_default();
                let (oid, modifier) = (number(2).parse().unwrap_or(0), number(3).parse().unwrap_or(-1));
                fields.push((column, Box::pin(self.find_type(oid, modifier)).await?));
            }
        }
        let element = match text(first, 6).and_then(|oid| oid.parse().ok()) {
            Some(oid) => Some(Box::pin(self.find_type(oid, -1)).await?),
            None => None,
        };
        let parts = fields.iter().map(|(_, of)| of.oid).chain(over.as_deref().map(|of: &Type| of.oid));
        let known = &mut self.routines().types;
        if parts.chain(element.map(|of| of.oid)).any(|part| known.has_names(part)) && !names_objects(oid) {
            known.naming.insert(oid);
        }
        let of = Type { oid, modifier, name, fields: (!fields.is_empty()).then_some(fields), over };
        self.routines().types.types.insert((oid, modifier), of.clone());
        Ok(of)
    }

    /// Do values of this type have names of objects in them?
    pub(super) async fn has_names(&mut self, oid: u32) -> Result<bool> {
        if names_objects(oid) || is_no_row(oid) {
            return Ok(names_objects(oid));
        }
        self.find_type(oid, -1).await?;
        Ok(self.routines().types.has_names(oid))
    }

    pub(super) async fn find_type_of(&mut self, expression: &str) -> Result<Type> {
        let key = (self.session().settings_now(), expression.to_owned());
        if let Some(known) = self.routines().types.expressions.get(&key) {
            return Ok(known.clone());
        }
        let home = self.session().home();
        let fields = self.session().describe_on(home, &format!("SELECT {expression}")).await;
        let fields = fields.map_err(|error| error.without(pgerror::field::POSITION))?.unwrap_or_default();
        let field = fields.first().ok_or_else(|| PgError::internal("an expression without a type"))?;
        let of = match self.find_domain_of(expression).await? {
            Some(domain) => self.find_type(domain, -1).await?,
            None => self.find_type(field.type_oid, field.type_modifier).await?,
        };
        self.routines().types.expressions.insert(key, of.clone());
        Ok(of)
    }

    /// The domain that an expression is of: PostgreSQL describes it as what it is over. The expression is not computed, for NULL
    /// may be no value of the domain.
    async fn find_domain_of(&mut self, expression: &str) -> Result<Option<u32>> {
        let loaded = self.session().catalog().await?;
        if !loaded.catalog.user_types().any(|of| of.kind == 'd') {
            return Ok(None);
        }
        let sql = format!(
            "SELECT oid FROM pg_catalog.pg_type WHERE typtype OPERATOR(pg_catalog.=) 'd' \
             AND oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof((SELECT {expression} WHERE false))"
        );
        let rows = self.asked(&sql).await?;
        let oid = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_deref()?).ok()?.parse().ok());
        Ok(oid)
    }

    pub(super) async fn find_cast(&mut self, from: u32, to: u32) -> Result<bool> {
        if let Some(known) = self.routines().types.casts.get(&(from, to)) {
            return Ok(*known);
        }
        // Domains are cast as what they are made of, arrays element by element.
        let sql = format!(
            "WITH b AS (SELECT nth, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS oid \
               FROM pg_catalog.unnest(ARRAY[{from}, {to}]::oid[]) WITH ORDINALITY u(oid, nth) JOIN pg_catalog.pg_type t ON t.oid = u.oid), \
             e AS (SELECT b.nth, t.typcategory = 'A' AS is_array, t.typcategory = 'S' AS is_text, \
               CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE t.oid END AS oid FROM b JOIN pg_catalog.pg_type t ON t.oid = b.oid) \
             SELECT f.is_array = t.is_array AND (f.oid = t.oid OR t.is_text OR EXISTS (SELECT FROM pg_catalog.pg_cast c \
               WHERE c.castsource = f.oid AND c.casttarget = t.oid AND c.castcontext <> 'e')) \
             FROM e f, e t WHERE f.nth = 1 AND t.nth = 2"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let has = rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        self.routines().types.casts.insert((from, to), has);
        Ok(has)
    }
}

/// Types of most variables.
fn well_known(oid: u32, modifier: i32) -> Option<Type> {
    const KNOWN: [(u32, &str); 10] = [
        (16, "boolean"),
        (17, "bytea"),
        (20, "bigint"),
        (21, "smallint"),
        (23, "integer"),
        (25, "text"),
        (701, "double precision"),
        (1043, "character varying"),
        (1082, "date"),
        (1700, "numeric"),
    ];
    let (_, name) = KNOWN.iter().find(|(known, _)| *known == oid && modifier == -1)?;
    Some(Type { oid, modifier, name: (*name).to_owned(), fields: None, over: None })
}
