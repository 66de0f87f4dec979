//! Values of `regclass` and its kin, which name objects, in variables of bodies.
//!
//! In PostgreSQL such a value is the object's id; its text is a name, which means another object under another search path, or once
//! the object is renamed. So a variable holds the home node's id, in digits, which is a text of these types too. On other nodes
//! that id is another object's: a statement gets the object's name with its schema, as it is at that moment.
//!
//! ```text
//! rows of a statement ── names ──> [`Runner::kept`] ── ids ──> variables ── ids ──> [`Runner::sent`] ── names with schemas ──> parameters
//! ```

use bytes::Bytes;
use pgerror::{PgError, Result};
use routine::{Type, array_text, row_fields, row_text};

use super::runner::Runner;
use super::types::names_objects;

/// A type whose values name objects.
struct Naming {
    oid: u32,
    array: u32,
    name: &'static str,
    /// The catalog of the objects.
    catalog: &'static str,
    /// Its texts name no arguments.
    is_bare: bool,
}

const fn naming(oid: u32, array: u32, name: &'static str, catalog: &'static str) -> Naming {
    Naming { oid, array, name, catalog, is_bare: false }
}

const NAMING: [Naming; 11] = [
    naming(2205, 2210, "regclass", "pg_class"),
    naming(2206, 2211, "regtype", "pg_type"),
    naming(4089, 4090, "regnamespace", "pg_namespace"),
    naming(4096, 4097, "regrole", "pg_authid"),
    naming(2202, 2207, "regprocedure", "pg_proc"),
    naming(2204, 2209, "regoperator", "pg_operator"),
    naming(4191, 4192, "regcollation", "pg_collation"),
    naming(3734, 3735, "regconfig", "pg_ts_config"),
    naming(3769, 3770, "regdictionary", "pg_ts_dict"),
    Naming { is_bare: true, ..naming(24, 1008, "regproc", "pg_proc") },
    Naming { is_bare: true, ..naming(2203, 2208, "regoper", "pg_operator") },
];

impl Naming {
    /// The id that a text `v` means under the search path. What a table's text says with its schema needs no right to use that: the
    /// value may have come from a catalog.
    fn id(&self) -> String {
        // A cast of a text to regclass takes neither digits nor "-".
        let read = format!("CAST({}in(textout(v)) AS pg_catalog.oid)", self.name);
        match self.name {
            "regclass" => format!(
                "COALESCE((SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE v LIKE '%.%' AND c.relname = (parse_ident(v))[2] AND n.nspname = (parse_ident(v))[1] \
                 AND cardinality(parse_ident(v)) = 2), {read})"
            ),
            _ => read,
        }
    }

    /// The name of the object `o`, which means the same under every search path; NULL if there is none.
    fn identity(&self) -> String {
        let catalog = format!("CAST('pg_catalog.{}' AS pg_catalog.regclass)", self.catalog);
        let whole = format!("(pg_identify_object({catalog}, o, 0)).identity");
        let bare = |name: &str, schema: &str| {
            format!(
                "(SELECT quote_ident(n.nspname) || '.' || {name} FROM {} b JOIN pg_namespace n ON n.oid = b.{schema} WHERE b.oid = o)",
                self.catalog
            )
        };
        let named = match (self.is_bare, self.catalog) {
            (false, _) => whole,
            (true, "pg_proc") => bare("quote_ident(b.proname)", "pronamespace"),
            (true, _) => bare("b.oprname", "oprnamespace"),
        };
        // Ids of what is nobody's are the same on all nodes.
        format!("COALESCE({named}, CASE WHEN o < {} THEN CAST(o AS pg_catalog.text) END)", catalog::FIRST_USER_OID)
    }
}

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Into a variable.
    In,
    /// Out of one.
    Out,
}

/// A part of a value that names an object, or objects.
struct Leaf {
    of: u32,
    text: Bytes,
}

impl Runner {
    /// Values of a statement as variables hold them.
    pub(super) async fn kept(&mut self, of: &Type, values: Vec<Option<Bytes>>) -> Result<Vec<Option<Bytes>>> {
        self.translated(Way::In, of, values).await
    }

    /// Values of variables as a statement may have them on whatever node.
    pub(super) async fn sent(&mut self, of: &Type, values: Vec<Option<Bytes>>) -> Result<Vec<Option<Bytes>>> {
        self.translated(Way::Out, of, values).await
    }

    async fn translated(&mut self, way: Way, of: &Type, values: Vec<Option<Bytes>>) -> Result<Vec<Option<Bytes>>> {
        if values.iter().all(Option::is_none) || !self.has_names(of.oid).await? {
            return Ok(values);
        }
        let mut leaves = Vec::new();
        for value in values.iter().flatten() {
            self.each_name(of, value, &mut |of, text| {
                leaves.push(Leaf { of, text: text.clone() });
                Ok(text)
            })?;
        }
        let mut translated = self.translate(way, leaves).await?.into_iter();
        let mut next = |_, _| translated.next().ok_or_else(|| PgError::internal("a name of an object is lost"));
        values.into_iter().map(|value| value.map(|value| self.each_name(of, &value, &mut next)).transpose()).collect()
    }

    /// The value with something else for each name of an object in it.
    fn each_name(
        &mut self,
        of: &Type,
        value: &Bytes,
        make: &mut dyn FnMut(u32, Bytes) -> Result<Bytes>,
    ) -> Result<Bytes> {
        if names_objects(of.oid) {
            return make(of.oid, value.clone());
        }
        if !self.routines().types.has_names(of.oid) {
            return Ok(value.clone());
        }
        match (&of.over, &of.fields) {
            (Some(over), _) => self.each_name(over, value, make),
            (None, Some(fields)) => {
                let mut values = row_fields(value)?;
                for (value, (_, of)) in values.iter_mut().zip(fields) {
                    if let Some(text) = value.take() {
                        *value = Some(self.each_name(of, &text, make)?);
                    }
                }
                Ok(row_text(values.iter().map(Option::as_deref)))
            }
            (None, None) => Err(PgError::unsupported(format!(
                "a value of type {} in a body that is run by the coordinator",
                of.name
            ))
            .detail("It has names of objects inside of its elements.")
            .hint("Keep the names in variables of their own, or as text.")),
        }
    }

    /// One query for each type.
    async fn translate(&mut self, way: Way, mut leaves: Vec<Leaf>) -> Result<Vec<Bytes>> {
        for naming in &NAMING {
            for of in [naming.oid, naming.array] {
                let at: Vec<usize> = (0..leaves.len()).filter(|at| leaves[*at].of == of).collect();
                if at.is_empty() {
                    continue;
                }
                let texts = array_text(at.iter().map(|at| Some(leaves[*at].text.as_ref())));
                let texts = catalog::quote_literal(crate::protocol::text(&texts)?);
                let sql = format!(
                    "SELECT {} FROM unnest({texts}::text[]) WITH ORDINALITY AS u (v, n) ORDER BY u.n",
                    translation(way, naming, of == naming.array)
                );
                let rows = self.asked(&planner::own_text(&sql)?).await?;
                for (at, row) in at.iter().zip(rows) {
                    leaves[*at].text = row.into_iter().next().flatten().ok_or_else(|| is_gone(naming.name))?;
                }
            }
        }
        Ok(leaves.into_iter().map(|leaf| leaf.text).collect())
    }
}

/// What gives the other form of the text `v`; NULL if it has none.
fn translation(way: Way, naming: &Naming, is_array: bool) -> String {
    match (way, is_array) {
        (Way::In, false) => naming.id(),
        (Way::In, true) => {
            format!("CAST(CAST(CAST(v AS pg_catalog.{}[]) AS pg_catalog.oid[]) AS pg_catalog.text)", naming.name)
        }
        (Way::Out, false) => {
            format!("(SELECT {} FROM (SELECT CAST(v AS pg_catalog.oid) AS o) AS one)", naming.identity())
        }
        (Way::Out, true) => format!(
            "(SELECT CASE WHEN count(*) = 0 THEN '{{}}' WHEN count(*) = count(*) FILTER (WHERE o IS NULL OR i IS NOT NULL) \
             AND min(array_ndims(a)) = 1 AND min(array_lower(a, 1)) = 1 THEN CAST(array_agg(i ORDER BY m) AS pg_catalog.text) END \
             FROM (SELECT CAST(v AS pg_catalog.oid[]) AS a) AS whole, \
             LATERAL (SELECT o, m, {} AS i FROM unnest(a) WITH ORDINALITY AS e (o, m)) AS each)",
            naming.identity()
        ),
    }
}

fn is_gone(of: &str) -> PgError {
    PgError::unsupported(format!("a value of type {of} whose object is gone, in a body that is run by the coordinator,"))
        .detail("In PostgreSQL it is a number then. So is refused here an array of several dimensions, or whose subscripts do not begin at 1.")
        .hint("Keep the name as text before the object is dropped.")
}
