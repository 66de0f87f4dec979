//! Definitions of views and rules, as PostgreSQL prints them.
//!
//! To print one, PostgreSQL locks its tables, and so waits for a session that has one in ACCESS EXCLUSIVE mode. That may be a
//! session which waits for this very load: a circle that nobody sees, for the connection is not that session's. So a definition in
//! which a locked table stands is taken from an earlier load, if nothing has changed since of what its text is made of: the stored
//! tree, and the names of all that it uses.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::Oid;
use pgerror::{PgError, Result};
use pgproto::Connection;

use crate::shared::catalog_load::{flag, number, optional, text};

/// What each definition is made of, as a digest, whether somebody else has locked something in it, and if not the definition.
const MADE_OF: &str = "WITH locked AS MATERIALIZED (\
       SELECT DISTINCT relation FROM pg_locks WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' \
       AND pid IS DISTINCT FROM pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), \
     rule AS MATERIALIZED (\
       SELECT r.oid, r.ev_class, r.ev_type, md5(concat_ws(' ', r.rulename, r.ev_type, r.is_instead, r.ev_qual, r.ev_action)) AS tree \
       FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
       WHERE c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)' \
       AND (r.ev_type <> '1' OR n.nspname NOT IN ('pg_catalog', 'information_schema'))), \
     used AS MATERIALIZED (\
       SELECT d.objid AS rule, d.refclassid AS class, d.refobjid AS object FROM pg_depend d \
       WHERE d.classid = 'pg_rewrite'::regclass AND d.objid IN (SELECT oid FROM rule) \
       UNION SELECT oid, 'pg_class'::regclass, ev_class FROM rule), \
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
     SELECT r.oid, md5(concat(r.tree, m.names)), m.is_locked, CASE WHEN NOT m.is_locked THEN \
       CASE r.ev_type WHEN '1' THEN pg_get_viewdef(r.ev_class) ELSE pg_get_ruledef(r.oid) END END FROM rule r JOIN (\
       SELECT u.rule, string_agg(n.name, E'\n' ORDER BY n.class, n.object) AS names, bool_or(l.relation IS NOT NULL) AS is_locked \
       FROM used u JOIN named n ON n.class = u.class AND n.object = u.object \
       LEFT JOIN locked l ON l.relation = u.object AND u.class = 'pg_class'::regclass GROUP BY u.rule) m ON m.rule = r.oid";

/// Definitions that a load has printed, by the oids of their rules in `pg_rewrite`.
#[derive(Default)]
pub(crate) struct Definitions(Mutex<HashMap<Oid, Definition>>);

#[derive(Clone)]
struct Definition {
    /// Digest of what it is made of.
    digest: String,
    text: String,
}

impl Definitions {
    /// All definitions of now. `keep` them for later loads: not those that are about changes of one transaction alone.
    pub(crate) async fn read(&self, connection: &mut Connection, keep: bool) -> Result<HashMap<Oid, String>> {
        let (mut all, mut to_print) = (HashMap::new(), HashMap::new());
        for row in connection.query_rows(MADE_OF).await? {
            let (rule, digest): (Oid, &str) = (number(&row, 0)?, text(&row, 1)?);
            let known = match flag(&row, 2)? {
                true => self.known(rule, digest),
                false => optional(&row, 3)?.map(|text| Definition { digest: digest.to_owned(), text: text.to_owned() }),
            };
            match known {
                Some(known) => drop(all.insert(rule, known)),
                None => drop(to_print.insert(rule, digest.to_owned())),
            }
        }
        if !to_print.is_empty() {
            let rules: Vec<String> = to_print.keys().map(Oid::to_string).collect();
            let sql = format!(
                "SELECT oid, CASE ev_type WHEN '1' THEN pg_get_viewdef(ev_class) ELSE pg_get_ruledef(oid) END \
                 FROM pg_rewrite WHERE oid = ANY ('{{{}}}'::oid[])",
                rules.join(",")
            );
            for row in connection.query_rows(&sql).await? {
                let rule = number(&row, 0)?;
                let digest =
                    to_print.remove(&rule).ok_or_else(|| PgError::internal("a rule that was not asked for"))?;
                // What has been dropped meanwhile has none.
                if let Some(text) = optional(&row, 1)? {
                    all.insert(rule, Definition { digest, text: text.to_owned() });
                }
            }
        }
        let texts = all.iter().map(|(rule, definition)| (*rule, definition.text.clone())).collect();
        if keep {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
        }
        Ok(texts)
    }

    fn known(&self, rule: Oid, digest: &str) -> Option<Definition> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&rule).filter(|known| known.digest == digest).cloned()
    }
}
