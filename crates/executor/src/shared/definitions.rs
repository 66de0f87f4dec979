//! Definitions of views, rules and generated columns, as PostgreSQL prints them.
//!
//! To print one, PostgreSQL locks its tables (for an expression since 15.18 and 17), and so waits for a session that has one in
//! ACCESS EXCLUSIVE mode. That may be a session which waits for this very load: a circle that nobody sees, for the connection is not
//! that session's. So a definition in which a locked table stands is taken from an earlier load, if nothing has changed since of what
//! its text is made of: the stored tree, and the names of all that it uses.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::Oid;
use pgerror::{PgError, Result};
use pgproto::Connection;

use crate::shared::catalog_load::{Row, flag, number, optional, text};

/// What each definition is made of, as a digest, whether somebody else has locked something in it, and if not the definition.
const MADE_OF: &str = "WITH locked AS MATERIALIZED (\
       SELECT DISTINCT relation FROM pg_locks WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' \
       AND pid IS DISTINCT FROM pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), \
     stored AS MATERIALIZED (\
       SELECT 'pg_rewrite'::regclass AS catalog, r.oid, r.ev_class AS relation, r.ev_type AS kind, \
         md5(concat_ws(' ', r.rulename, r.ev_type, r.is_instead, r.ev_qual, r.ev_action)) AS tree \
       FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
       WHERE c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)' \
       AND (r.ev_type <> '1' OR n.nspname NOT IN ('pg_catalog', 'information_schema')) \
       UNION ALL SELECT 'pg_attrdef'::regclass, d.oid, d.adrelid, 'g', md5(d.adbin::text) \
       FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
       JOIN pg_class c ON c.oid = d.adrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
       WHERE c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)' AND a.attgenerated <> ''), \
     used AS MATERIALIZED (\
       SELECT s.catalog, s.oid, d.refclassid AS class, d.refobjid AS object FROM pg_depend d \
       JOIN stored s ON d.classid = s.catalog AND d.objid = s.oid \
       UNION SELECT catalog, oid, 'pg_class'::regclass, relation FROM stored), \
     named AS MATERIALIZED (\
       SELECT u.class, u.object, concat_ws(' ', (pg_identify_object(u.class, u.object, 0)).identity, \
         (SELECT string_agg(a.attname, ' ' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attnum > 0 AND a.attrelid = ANY (ARRAY[\
           CASE u.class WHEN 'pg_class'::regclass THEN u.object END, \
           CASE u.class WHEN 'pg_type'::regclass THEN (SELECT typrelid FROM pg_type WHERE oid = u.object) END, \
           CASE u.class WHEN 'pg_proc'::regclass THEN (SELECT t.typrelid FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype \
             WHERE p.oid = u.object) END])), \
         CASE u.class WHEN 'pg_proc'::regclass THEN (SELECT format_type(prorettype, NULL) FROM pg_proc WHERE oid = u.object) END, \
         CASE u.class WHEN 'pg_type'::regclass THEN (SELECT string_agg(e.enumlabel, ' ' ORDER BY e.oid) FROM pg_enum e \
           WHERE e.enumtypid IN (u.object, (SELECT typelem FROM pg_type WHERE oid = u.object))) END) AS name \
       FROM (SELECT DISTINCT class, object FROM used) u) \
     SELECT s.kind = 'g', s.oid, md5(concat(s.tree, m.names)), m.is_locked, CASE WHEN NOT m.is_locked THEN CASE s.kind \
       WHEN '1' THEN pg_get_viewdef(s.relation) \
       WHEN 'g' THEN (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef d WHERE d.oid = s.oid) \
       ELSE pg_get_ruledef(s.oid) END END FROM stored s JOIN (\
       SELECT u.catalog, u.oid, string_agg(n.name, E'\n' ORDER BY n.class, n.object) AS names, \
         bool_or(l.relation IS NOT NULL) AS is_locked \
       FROM used u JOIN named n ON n.class = u.class AND n.object = u.object \
       LEFT JOIN locked l ON l.relation = u.object AND u.class = 'pg_class'::regclass GROUP BY u.catalog, u.oid) m \
       ON m.catalog = s.catalog AND m.oid = s.oid";

/// Prints what was not known, whatever is locked.
const PRINTED: &str = "SELECT false, oid, CASE ev_type WHEN '1' THEN pg_get_viewdef(ev_class) ELSE pg_get_ruledef(oid) END \
     FROM pg_rewrite WHERE oid = ANY ('{rules}'::oid[]) \
     UNION ALL SELECT true, oid, pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE oid = ANY ('{generated}'::oid[])";

/// Where PostgreSQL has a definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Oid in `pg_rewrite`.
    Rule(Oid),
    /// Oid in `pg_attrdef`.
    Generated(Oid),
}

impl Place {
    fn of(row: &Row) -> Result<Self> {
        let oid = number(row, 1)?;
        Ok(if flag(row, 0)? { Place::Generated(oid) } else { Place::Rule(oid) })
    }
}

/// Definitions that a load has printed.
#[derive(Default)]
pub(crate) struct Definitions(Mutex<HashMap<Place, Definition>>);

#[derive(Clone)]
struct Definition {
    /// Digest of what it is made of.
    digest: String,
    text: String,
}

impl Definitions {
    /// All definitions of now. `keep` them for later loads: not those that are about changes of one transaction alone.
    pub(crate) async fn read(&self, connection: &mut Connection, keep: bool) -> Result<HashMap<Place, String>> {
        let (mut all, mut to_print) = (HashMap::new(), HashMap::new());
        for row in connection.query_rows(MADE_OF).await? {
            let (place, digest) = (Place::of(&row)?, text(&row, 2)?);
            let known = match flag(&row, 3)? {
                true => self.known(place, digest),
                false => optional(&row, 4)?.map(|text| Definition { digest: digest.to_owned(), text: text.to_owned() }),
            };
            match known {
                Some(known) => drop(all.insert(place, known)),
                None => drop(to_print.insert(place, digest.to_owned())),
            }
        }
        if !to_print.is_empty() {
            for row in connection.query_rows(&printed(to_print.keys())).await? {
                let place = Place::of(&row)?;
                let digest =
                    to_print.remove(&place).ok_or_else(|| PgError::internal("a definition that was not asked for"))?;
                // What has been dropped meanwhile has none.
                if let Some(text) = optional(&row, 2)? {
                    all.insert(place, Definition { digest, text: text.to_owned() });
                }
            }
        }
        let texts = all.iter().map(|(place, definition)| (*place, definition.text.clone())).collect();
        if keep {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
        }
        Ok(texts)
    }

    fn known(&self, place: Place, digest: &str) -> Option<Definition> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&place).filter(|known| known.digest == digest).cloned()
    }
}

fn printed<'a>(places: impl Iterator<Item = &'a Place>) -> String {
    let (mut rules, mut generated) = (Vec::new(), Vec::new());
    for place in places {
        match place {
            Place::Rule(oid) => rules.push(oid.to_string()),
            Place::Generated(oid) => generated.push(oid.to_string()),
        }
    }
    PRINTED
        .replace("{rules}", &format!("{{{}}}", rules.join(",")))
        .replace("{generated}", &format!("{{{}}}", generated.join(",")))
}
