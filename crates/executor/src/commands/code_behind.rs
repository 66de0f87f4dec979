//! Code of users that runs when a view is read, whatever the text of the view shows of it.
//!
//! A definition names functions and operators, and the planner looks at these. It does not name what a cast calls: `t::text` is all
//! that is written of `CREATE CAST (t AS text) WITH FUNCTION f(t)`, and of implicit casts nothing is. So PostgreSQL is asked what it has
//! recorded: from the rules of the views in `pg_depend` to what they use, and what that uses in its turn. Added is what PostgreSQL
//! computes without a dependency of the query:
//!
//! - policies, constraints, expressions of indexes, keys and statistics of tables that are read, and of their children: functions
//!   over constants run when a query is planned,
//! - checks of domains, operator classes of types,
//! - negators and commutators, which take an operator's place when a query is planned,
//! - functions that take the name of a type as a text: `pg_input_is_valid()`,
//! - casts of types that are read: one made after the view would be found when its definition is parsed again, or by `to_json()`.

use catalog::Oid;
use pgerror::{PgError, Result};

use crate::session::Session;
use crate::shared::catalog_load::text;

impl Session {
    /// To be asked before REFRESH runs the view's query as its owner, in a backend that could become the present role again.
    ///
    /// # Errors
    /// 0A000 with the first function, but for compiled ones that a superuser has brought, and those of his extensions.
    pub(super) async fn refuse_code_behind_refresh(&mut self, view: Oid) -> Result<()> {
        let untrusted = "NOT r.rolsuper OR l.lanname NOT IN ('c', 'internal') AND NOT EXISTS ( \
                 SELECT FROM pg_catalog.pg_depend AS e \
                 WHERE e.classid = 'pg_catalog.pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e')";
        match self.code_behind(&[view], untrusted).await? {
            Some(function) => Err(PgError::unsupported(format!(
                "function {function} behind a materialized view of another role, over several datanodes,"
            ))
            .detail("It may be called by a cast, a policy, a constraint, an index, a type or a view in between.")
            .hint("Refresh it in a session of its owner.")),
            None => Ok(()),
        }
    }

    /// To be asked before these views are read with what is lent from their owners.
    ///
    /// # Errors
    /// 0A000 with the first function that a definition calls, which knows the tables as they are and not as they are lent, or that
    /// belongs to a role which is neither a superuser nor the owner of all the views.
    pub(super) async fn refuse_code_behind_views(&mut self, views: &[Oid]) -> Result<()> {
        let untrusted = "EXISTS ( \
                 SELECT FROM used AS u JOIN pg_catalog.pg_depend AS d ON d.classid = u.classid AND d.objid = u.objid \
                 WHERE u.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_proc'::regclass \
                     AND d.refobjid = p.oid) \
             OR NOT r.rolsuper AND EXISTS ( \
                 SELECT FROM used AS u JOIN pg_catalog.pg_class AS v ON v.oid = u.objid AND v.relkind = 'v' \
                 WHERE u.classid = 'pg_catalog.pg_class'::regclass AND v.relowner <> p.proowner)";
        match self.code_behind(views, untrusted).await? {
            Some(function) => Err(PgError::unsupported(format!(
                "function {function} behind a view that is read with its owner's rights"
            ))
            .detail("It may be called by a cast, a policy, a constraint, an index, a type or a view in between.")
            .hint("Read the view as its owner, or as a role that may read its tables.")),
            None => Ok(()),
        }
    }

    async fn code_behind(&mut self, views: &[Oid], untrusted: &str) -> Result<Option<String>> {
        let sql = planner::own_text(&code_behind_sql(views, untrusted))?;
        let rows = self.rows_on(self.home, &sql).await?;
        rows.first().map(|row| text(row, 0).map(str::to_owned)).transpose()
    }
}

/// The first such function. Ids of PostgreSQL's own objects are in no dependency; what a superuser has made for its types is for all.
fn code_behind_sql(views: &[Oid], untrusted: &str) -> String {
    let views: Vec<String> = views.iter().map(Oid::to_string).collect();
    format!(
        "WITH RECURSIVE used (classid, objid) AS ( \
             SELECT 'pg_catalog.pg_class'::regclass::oid, v.oid FROM unnest('{{{}}}'::oid[]) AS v (oid) \
             UNION \
             SELECT n.classid, n.objid FROM used AS u CROSS JOIN LATERAL ( \
                 SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend AS d WHERE d.classid = u.classid AND d.objid = u.objid \
                 UNION ALL \
                 SELECT c.classid, c.objid FROM ( \
                     SELECT 'pg_catalog.pg_rewrite'::regclass::oid, w.oid FROM pg_catalog.pg_rewrite AS w \
                     WHERE w.ev_class = u.objid AND w.ev_type = '1' \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_policy'::regclass::oid, y.oid FROM pg_catalog.pg_policy AS y WHERE y.polrelid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_constraint'::regclass::oid, k.oid FROM pg_catalog.pg_constraint AS k \
                     WHERE k.conrelid = u.objid AND k.contype <> 'f' \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_class'::regclass::oid, i.indexrelid FROM pg_catalog.pg_index AS i \
                     WHERE i.indrelid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_statistic_ext'::regclass::oid, s.oid FROM pg_catalog.pg_statistic_ext AS s \
                     WHERE s.stxrelid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_class'::regclass::oid, h.inhrelid FROM pg_catalog.pg_inherits AS h \
                     WHERE h.inhparent = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_type'::regclass::oid, c.reltype FROM pg_catalog.pg_class AS c WHERE c.oid = u.objid \
                 ) AS c (classid, objid) WHERE u.classid = 'pg_catalog.pg_class'::regclass \
                 UNION ALL \
                 SELECT t.classid, t.objid FROM ( \
                     SELECT 'pg_catalog.pg_constraint'::regclass::oid, k.oid FROM pg_catalog.pg_constraint AS k \
                     WHERE k.contypid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_class'::regclass::oid, y.typrelid FROM pg_catalog.pg_type AS y WHERE y.oid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_type'::regclass::oid, y.typarray FROM pg_catalog.pg_type AS y WHERE y.oid = u.objid \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_proc'::regclass::oid, c.castfunc FROM pg_catalog.pg_cast AS c \
                     WHERE u.objid IN (c.castsource, c.casttarget) \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_proc'::regclass::oid, a.amproc FROM pg_catalog.pg_amproc AS a \
                     WHERE u.objid IN (a.amproclefttype, a.amprocrighttype) \
                     UNION ALL \
                     SELECT 'pg_catalog.pg_operator'::regclass::oid, a.amopopr FROM pg_catalog.pg_amop AS a \
                     WHERE u.objid IN (a.amoplefttype, a.amoprighttype) \
                 ) AS t (classid, objid) WHERE u.classid = 'pg_catalog.pg_type'::regclass AND u.objid >= 16384 \
                 UNION ALL \
                 SELECT 'pg_catalog.pg_operator'::regclass::oid, x.oid FROM pg_catalog.pg_operator AS o \
                 CROSS JOIN LATERAL unnest(ARRAY[o.oprcom, o.oprnegate]) AS x (oid) \
                 WHERE u.classid = 'pg_catalog.pg_operator'::regclass::oid AND o.oid = u.objid AND x.oid <> 0 \
             ) AS n (classid, objid) WHERE n.objid >= 16384), \
         called (function) AS ( \
             SELECT u.objid FROM used AS u WHERE u.classid = 'pg_catalog.pg_proc'::regclass \
             UNION ALL \
             SELECT f.oid FROM pg_catalog.pg_proc AS f JOIN pg_catalog.pg_roles AS w ON w.oid = f.proowner AND NOT w.rolsuper \
             WHERE f.oid = ANY ( \
                 SELECT c.castfunc FROM pg_catalog.pg_cast AS c WHERE c.castsource < 16384 AND c.casttarget < 16384 \
                 UNION ALL \
                 SELECT a.amproc FROM pg_catalog.pg_amproc AS a WHERE a.amproclefttype < 16384 AND a.amprocrighttype < 16384 \
                 UNION ALL \
                 SELECT o.oprcode FROM pg_catalog.pg_amop AS a JOIN pg_catalog.pg_operator AS o ON o.oid = a.amopopr \
                 WHERE a.amoplefttype < 16384 AND a.amoprighttype < 16384)) \
         SELECT p.oid::regprocedure::text FROM called AS c JOIN pg_catalog.pg_proc AS p ON p.oid = c.function AND p.oid >= 16384 \
         JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang \
         WHERE {untrusted} \
         UNION ALL \
         SELECT p.oid::regprocedure::text FROM ( \
             SELECT concat(y.polqual, y.polwithcheck) FROM used AS u \
             JOIN pg_catalog.pg_policy AS y ON u.classid = 'pg_catalog.pg_policy'::regclass AND y.oid = u.objid \
             UNION ALL \
             SELECT w.ev_action::text FROM used AS u \
             JOIN pg_catalog.pg_rewrite AS w ON u.classid = 'pg_catalog.pg_rewrite'::regclass AND w.oid = u.objid) AS e (tree) \
         JOIN pg_catalog.pg_proc AS p ON p.oid < 16384 AND p.proname LIKE 'pg_input_%' AND e.tree LIKE concat('%:funcid ', p.oid, ' %') \
         ORDER BY 1 LIMIT 1",
        views.join(",")
    )
}
