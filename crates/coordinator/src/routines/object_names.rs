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
    fn of(oid: u32) -> Option<&'static Self> {
        NAMING.iter().find(|of| of.oid == oid || of.array == oid)
    }

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
            // PostgreSQL prints one of several with a name by that name, which it does not read: that stays.
            name if self.is_bare => {
                format!("COALESCE(CAST(CAST(to_{name}(v) AS pg_catalog.oid) AS pg_catalog.text), v)")
            }
            _ => read,
        }
    }

    /// The ids that an array's text `v` means.
    fn ids(&self) -> String {
        format!("CAST(CAST(CAST(v AS pg_catalog.{}[]) AS pg_catalog.oid[]) AS pg_catalog.text)", self.name)
    }

    /// Is there an id in the text `v` that is an object's here? The home node prints the name of its own, so it is another node's.
    fn is_foreign(&self, is_array: bool) -> String {
        let texts = if is_array { "unnest(CAST(u.v AS pg_catalog.text[]))" } else { "(VALUES (u.v))" };
        // Not everybody may read the other.
        let catalog = if self.catalog == "pg_authid" { "pg_roles" } else { self.catalog };
        format!(
            "EXISTS (SELECT FROM {texts} AS t (v) WHERE CASE WHEN t.v ~ '^[0-9]+$' THEN CAST(t.v AS pg_catalog.oid) >= {} \
             AND EXISTS (SELECT FROM {} o WHERE o.oid = CAST(t.v AS pg_catalog.oid)) END)",
            catalog::FIRST_USER_OID,
            catalog
        )
    }

    /// The name of the object with the id `v`, which means the same under every search path; NULL if there is none.
    fn identity(&self) -> String {
        let catalog = format!("CAST('pg_catalog.{}' AS pg_catalog.regclass)", self.catalog);
        let id = "CAST(v AS pg_catalog.oid)";
        let whole = format!("(pg_identify_object({catalog}, {id}, 0)).identity");
        let bare = |name: &str, schema: &str| {
            format!(
                "(SELECT quote_ident(n.nspname) || '.' || {name} FROM {} b JOIN pg_namespace n ON n.oid = b.{schema} WHERE b.oid = {id})",
                self.catalog
            )
        };
        let named = match (self.is_bare, self.catalog) {
            (false, _) => whole,
            (true, "pg_proc") => bare("quote_ident(b.proname)", "pronamespace"),
            (true, _) => bare("b.oprname", "oprnamespace"),
        };
        // Ids of what is nobody's are the same on all nodes.
        let named = format!("COALESCE({named}, CASE WHEN {id} < {} THEN v END)", catalog::FIRST_USER_OID);
        match self.is_bare {
            true => format!("CASE WHEN v ~ '^[0-9]+$' THEN {named} ELSE v END"),
            false => named,
        }
    }
}

/// Is it the name of one of several, as PostgreSQL prints it? It does not read that.
pub(super) fn is_of_several(oid: u32, value: &[u8]) -> bool {
    Naming::of(oid).is_some_and(|of| of.is_bare && of.oid == oid) && !value.iter().all(u8::is_ascii_digit)
}

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Into a variable, from whatever node.
    In,
    /// Into a variable, out of others.
    Within,
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

    /// Values that are made of those of variables as variables hold them.
    pub(super) async fn kept_within(&mut self, of: &Type, values: Vec<Option<Bytes>>) -> Result<Vec<Option<Bytes>>> {
        self.translated(Way::Within, of, values).await
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
            self.each_name(way, of, value, &mut |of, text| {
                leaves.push(Leaf { of, text: text.clone() });
                Ok(text)
            })?;
        }
        let mut translated = self.translate(way, leaves).await?.into_iter();
        let mut next = |_, _| translated.next().ok_or_else(|| PgError::internal("a name of an object is lost"));
        values
            .into_iter()
            .map(|value| value.map(|value| self.each_name(way, of, &value, &mut next)).transpose())
            .collect()
    }

    /// The value with something else for each name of an object in it.
    fn each_name(
        &mut self,
        way: Way,
        of: &Type,
        value: &Bytes,
        make: &mut dyn FnMut(u32, Bytes) -> Result<Bytes>,
    ) -> Result<Bytes> {
        if let Some(naming) = Naming::of(of.oid) {
            return match way == Way::Out && of.oid == naming.array {
                true => each_element(value, &mut |id| make(naming.oid, id)),
                false => make(of.oid, value.clone()),
            };
        }
        if !self.routines().types.has_names(of.oid) {
            return Ok(value.clone());
        }
        match (&of.over, &of.fields) {
            (Some(over), _) => self.each_name(way, over, value, make),
            (None, Some(fields)) => {
                let mut values = row_fields(value)?;
                for (value, (_, of)) in values.iter_mut().zip(fields) {
                    if let Some(text) = value.take() {
                        *value = Some(self.each_name(way, of, &text, make)?);
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
                let other = match (way, of == naming.array) {
                    (Way::In | Way::Within, false) => naming.id(),
                    (Way::In | Way::Within, true) => naming.ids(),
                    (Way::Out, _) => naming.identity(),
                };
                let texts = array_text(at.iter().map(|at| Some(leaves[*at].text.as_ref())));
                let texts = catalog::quote_literal(crate::protocol::text(&texts)?);
                let is_foreign = match way {
                    Way::In => naming.is_foreign(of == naming.array),
                    Way::Within | Way::Out => "false".to_owned(),
                };
                let sql = format!(
                    "SELECT {other}, {is_foreign} FROM unnest({texts}::text[]) WITH ORDINALITY AS u (v, n) ORDER BY u.n"
                );
                let rows = self.asked(&planner::own_text(&sql)?).await?;
                for (at, row) in at.iter().zip(rows) {
                    if row.get(1).and_then(Option::as_deref) == Some(b"t") {
                        return Err(is_elsewhere(naming.name));
                    }
                    leaves[*at].text = row.into_iter().next().flatten().ok_or_else(|| is_gone(naming.name))?;
                }
            }
        }
        Ok(leaves.into_iter().map(|leaf| leaf.text).collect())
    }
}

/// An array of ids with something else for each: its text has nothing else with digits but the bounds before it.
fn each_element(ids: &[u8], make: &mut dyn FnMut(Bytes) -> Result<Bytes>) -> Result<Bytes> {
    let bounds = match ids.first() {
        Some(b'[') => ids.iter().position(|byte| *byte == b'=').map_or(0, |at| at + 1),
        _ => 0,
    };
    let (mut text, rest) = (ids[..bounds].to_vec(), &ids[bounds..]);
    for run in rest.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()) {
        if !run[0].is_ascii_digit() {
            text.extend_from_slice(run);
            continue;
        }
        text.push(b'"');
        for byte in make(Bytes::copy_from_slice(run))? {
            if byte == b'"' || byte == b'\\' {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'"');
    }
    Ok(Bytes::from(text))
}

fn is_gone(of: &str) -> PgError {
    PgError::unsupported(format!(
        "a value of type {of} whose object is gone, in a body that is run by the coordinator,"
    ))
    .detail("In PostgreSQL it is a number then.")
    .hint("Keep the name as text before the object is dropped.")
}

fn is_elsewhere(of: &str) -> PgError {
    PgError::unsupported(format!(
        "a value of type {of} whose object is gone, in a body that is run by the coordinator,"
    ))
    .detail("It is a number of another datanode's, which means another object on the home node.")
    .hint("Keep the name as text before the object is dropped.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_replaced_and_quoted() {
        let mut named = |id: Bytes| Ok(Bytes::from(format!("a.\"{}\\", String::from_utf8_lossy(&id))));
        let text = each_element(b"[2:3]={17,NULL}", &mut named).unwrap();
        assert_eq!(&text[..], br#"[2:3]={"a.\"17\\",NULL}"#);
        assert_eq!(each_element(b"{}", &mut named).unwrap(), "{}");
    }
}
