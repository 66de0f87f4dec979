//! Code of users that would run with the cluster's own rights while rows move.
//!
//! Whoever moves rows is the service user, a superuser: nobody else may write tables of all owners past their triggers and
//! policies. But COPY also evaluates CHECKs, checks of domains, generated columns, keys of partitions and expressions of indexes.
//! What a function of somebody's does in these it would do as a superuser. So a table stays where it is as long as such a function
//! belongs to another role than a superuser. (PostgreSQL has the same choice to make for a superuser's own COPY, and leaves it to him.)

use catalog::Relation;
use pgerror::{PgError, Result, SqlState};

use crate::session::Session;
use crate::shared::catalog_load::text;

impl Session {
    /// To be called under a lock that keeps changes of the tables' schema away.
    ///
    /// # Errors
    /// 0A000 with the first such function.
    pub(super) async fn refuse_users_code(&mut self, tables: &[&Relation]) -> Result<()> {
        let rows = self.rows_on(self.home, &planner::own_text(&functions_sql(tables))?).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (function, role) = (text(row, 0)?, text(row, 1)?);
        let what = format!(
            "function {function} of role \"{role}\" would run as a superuser if rows of a table that calls it moved"
        );
        Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
            .hint(format!("If it is to be trusted: ALTER FUNCTION {function} OWNER TO a superuser.")))
    }
}

/// What tables use by their columns' types, constraints, indexes and generated columns, and what that uses in its turn; of it the
/// functions whose owners are no superusers.
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
             ) AS n (classid, objid)) \
         SELECT p.oid::regprocedure::text, r.rolname FROM used AS u \
         JOIN pg_catalog.pg_proc AS p ON u.classid = 'pg_catalog.pg_proc'::regclass::oid AND p.oid = u.objid \
         JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner AND NOT r.rolsuper ORDER BY 1 LIMIT 1",
        oids = oids.join(",")
    )
}
