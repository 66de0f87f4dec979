//! Code of users that would run with the cluster's own rights while rows move.
//!
//! Whoever moves rows is the service user, a superuser: nobody else may write tables of all owners past their triggers and
//! policies. But COPY also evaluates CHECKs, checks of domains, generated columns, keys of partitions and expressions of indexes.
//! What a function of somebody's does in these it would do as a superuser. So a table stays where it is as long as such a function
//! belongs to another role than a superuser. (PostgreSQL has the same choice to make for a superuser's own COPY, and leaves it to him.)
//!
//! Functions of PostgreSQL's own can be led to users' code, too, or do what the role that wrote the expression may not: `to_json()`
//! looks for a cast, `query_to_xml()` runs a text, `pg_read_file()` asks who calls. `pg_depend` knows nothing of them, but the stored
//! expressions name them. In what another role than a superuser has made, functions are left that are IMMUTABLE, or PostgreSQL's
//! own, STABLE, PARALLEL SAFE and of arguments whose types say what is done with them; and that this role may execute.

use catalog::Relation;
use pgerror::{PgError, Result, SqlState};

use crate::session::Session;
use crate::shared::catalog_load::text;

impl Session {
    /// To be called under a lock that keeps changes of the tables' schema away.
    ///
    /// # Errors
    /// 0A000 with the first such function.
    pub(crate) async fn refuse_users_code(&mut self, tables: &[&Relation]) -> Result<()> {
        let rows = self.rows_on(self.home, &planner::own_text(&functions_sql(tables))?).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (function, role, is_own) = (text(row, 0)?, text(row, 1)?, text(row, 2)? == "t");
        if !is_own {
            let what = format!(
                "{function} in an expression of role \"{role}\" would run as a superuser if rows of a table with it moved"
            );
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, what).hint(
                "Take the constraint away, or have a superuser own the table, or the domain, if it is to be trusted.",
            ));
        }
        let what = format!(
            "function {function} of role \"{role}\" would run as a superuser if rows of a table that calls it moved"
        );
        Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
            .hint(format!("If it is to be trusted: ALTER FUNCTION {function} OWNER TO a superuser.")))
    }
}

/// What tables use by their columns' types, constraints, indexes and generated columns, and what that uses in its turn; of it the
/// functions whose owners are no superusers (true), and what else may not be trusted (false).
fn functions_sql(tables: &[&Relation]) -> String {
    let oids: Vec<String> = tables.iter().map(|table| table.oid.to_string()).collect();
    format!(
        "WITH RECURSIVE used (classid, objid) AS ( \
             SELECT 'pg_catalog.pg_class'::regclass::oid, t.oid FROM pg_catalog.pg_class AS t WHERE t.oid = ANY ('{{{oids}}}'::oid[]) \
             UNION \
             SELECT n.classid, n.objid FROM used AS u CROSS JOIN LATERAL ( \
                 SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend AS d WHERE d.classid = u.classid AND d.objid = u.objid \
                 UNION ALL \
                 SELECT 'pg_catalog.pg_constraint'::regclass::oid, c.oid FROM pg_catalog.pg_constraint AS c \
                 WHERE u.classid = 'pg_catalog.pg_type'::regclass::oid AND c.contypid = u.objid \
                 UNION ALL \
                 SELECT 'pg_catalog.pg_class'::regclass::oid, y.typrelid FROM pg_catalog.pg_type AS y \
                 WHERE u.classid = 'pg_catalog.pg_type'::regclass::oid AND y.oid = u.objid AND y.typrelid <> 0 \
                 UNION ALL \
                 SELECT d.classid, d.objid FROM pg_catalog.pg_depend AS d \
                 WHERE u.classid = 'pg_catalog.pg_class'::regclass::oid AND u.objid = ANY ('{{{oids}}}'::oid[]) \
                     AND d.refclassid = u.classid AND d.refobjid = u.objid AND ( \
                         d.classid = 'pg_catalog.pg_constraint'::regclass::oid \
                         OR d.classid = 'pg_catalog.pg_class'::regclass::oid AND EXISTS ( \
                             SELECT FROM pg_catalog.pg_class AS i WHERE i.oid = d.objid AND i.relkind = 'i') \
                         OR d.classid = 'pg_catalog.pg_attrdef'::regclass::oid AND EXISTS ( \
                             SELECT FROM pg_catalog.pg_attrdef AS f \
                             JOIN pg_catalog.pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum \
                             WHERE f.oid = d.objid AND a.attgenerated <> '')) \
             ) AS n (classid, objid)), \
         expressions (owner, tree) AS ( \
             SELECT coalesce(t.relowner, y.typowner), c.conbin::text FROM used AS u \
             JOIN pg_catalog.pg_constraint AS c ON u.classid = 'pg_catalog.pg_constraint'::regclass::oid AND c.oid = u.objid \
             LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.conrelid LEFT JOIN pg_catalog.pg_type AS y ON y.oid = c.contypid \
             UNION ALL \
             SELECT t.relowner, f.adbin::text FROM used AS u \
             JOIN pg_catalog.pg_attrdef AS f ON u.classid = 'pg_catalog.pg_attrdef'::regclass::oid AND f.oid = u.objid \
             JOIN pg_catalog.pg_class AS t ON t.oid = f.adrelid \
             UNION ALL \
             SELECT t.relowner, concat(i.indexprs, i.indpred) FROM used AS u \
             JOIN pg_catalog.pg_index AS i ON u.classid = 'pg_catalog.pg_class'::regclass::oid AND i.indexrelid = u.objid \
             JOIN pg_catalog.pg_class AS t ON t.oid = i.indrelid \
             UNION ALL \
             SELECT t.relowner, k.partexprs::text FROM used AS u \
             JOIN pg_catalog.pg_partitioned_table AS k ON u.classid = 'pg_catalog.pg_class'::regclass::oid AND k.partrelid = u.objid \
             JOIN pg_catalog.pg_class AS t ON t.oid = k.partrelid), \
         calls (owner, name, function) AS ( \
             SELECT r.oid, r.rolname, m.found[1]::oid FROM expressions AS e JOIN pg_catalog.pg_roles AS r ON r.oid = e.owner AND NOT r.rolsuper \
             CROSS JOIN LATERAL regexp_matches(e.tree, ':(?:funcid|opfuncid|hashfuncid|negfuncid) ([1-9][0-9]*)', 'g') AS m (found)) \
         SELECT p.oid::regprocedure::text, r.rolname, true FROM used AS u \
         JOIN pg_catalog.pg_proc AS p ON u.classid = 'pg_catalog.pg_proc'::regclass::oid AND p.oid = u.objid \
         JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner AND NOT r.rolsuper \
         UNION ALL \
         SELECT concat('function ', p.oid::regprocedure), c.name, false FROM calls AS c JOIN pg_catalog.pg_proc AS p ON p.oid = c.function \
         WHERE NOT has_function_privilege(c.owner, p.oid, 'EXECUTE') \
             OR p.provolatile = 'v' \
             OR p.provolatile = 's' AND (p.oid >= 16384 OR p.proparallel <> 's' OR EXISTS ( \
                 SELECT FROM unnest(p.proargtypes) AS a (oid) JOIN pg_catalog.pg_type AS y ON y.oid = a.oid \
                 WHERE y.typtype = 'p' OR y.typname LIKE 'reg%')) \
         UNION ALL \
         SELECT 'a JSON constructor', r.rolname, false FROM expressions AS e JOIN pg_catalog.pg_roles AS r ON r.oid = e.owner AND NOT r.rolsuper \
         WHERE e.tree ~ '[{{]JSON[A-Z]*EXPR ' \
         ORDER BY 1 LIMIT 1",
        oids = oids.join(",")
    )
}
