//! Code of users that runs where rows arrive: nothing calls it when they are only read.
//!
//! A type's receive function evaluates the CHECKs of a domain, with the rights of the role that runs the statement. On one
//! PostgreSQL a SELECT calls none of them. So if such a CHECK calls what could use those rights (what a role has written that is
//! neither a superuser nor the role itself), values of the domain are not sent on.

use std::collections::BTreeSet;

use catalog::{Catalog, FIRST_USER_OID, Oid, Relation, quote_literal};
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use planner::Input;

use crate::backend::call::Call;
use crate::backend::slot::Slot;
use crate::engine::temp::own_temp::TempAs;
use crate::session::{JudgedDomains, Session};
use crate::shared::catalog_load::{number, text};

impl Session {
    /// To be asked before rows of other nodes come into such a table.
    ///
    /// # Errors
    /// 0A000 with the first such function.
    pub(super) async fn refuse_users_code_in(&mut self, slot: Slot, made: &TempAs<'_>, call: &Call) -> Result<()> {
        // Other links, the home node's own session too, may be on their way with rows: only `slot` is asked.
        if !made.receives || !self.may_have_domain_that_calls().await? {
            return Ok(());
        }
        // A column of a domain is described as one of the type below.
        let loaded = self.catalog().await?;
        let hiding = hiding_types(&loaded.catalog);
        let may_be = |field: &Field| field.type_oid >= FIRST_USER_OID || hiding.contains(&field.type_oid);
        if !made.fields.iter().any(may_be) || slot == self.sink && !self.has_domain_that_calls().await? {
            return Ok(());
        }
        let types = self.types_in_temp(slot, made, call).await?;
        self.refuse_users_code_at(slot, &types).await
    }

    /// Refuses such code in a table, named as in SQL, before the statement that makes it fills it: CREATE TABLE AS evaluates no CHECK.
    pub(crate) async fn refuse_users_code_filling(&mut self, table: &str) -> Result<()> {
        if !self.has_domain_that_calls().await? {
            return Ok(());
        }
        let home = self.home;
        let columns = format!(
            "SELECT a.atttypid FROM pg_catalog.pg_attribute AS a \
             WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped",
            quote_literal(table)
        );
        let rows = self.rows_on(home, &planner::own_text(&columns)?).await?;
        let types: Vec<Oid> = rows.iter().map(|row| number(row, 0)).collect::<Result<_>>()?;
        self.refuse_users_code_at(home.into(), &types).await
    }

    /// Refuses such code in a type, an id of the home node, before texts are taken for its values.
    ///
    /// # Errors
    /// As above.
    pub async fn refuse_users_code_of(&mut self, of: Oid) -> Result<()> {
        self.refuse_users_code_of_all(std::iter::once(of)).await
    }

    /// Refuses such code in columns' types, ids in the catalog, before their values are given as texts or parameters.
    pub(crate) async fn refuse_users_code_of_all(&mut self, types: impl Iterator<Item = Oid>) -> Result<()> {
        let types: Vec<Oid> = types.filter(|of| *of >= FIRST_USER_OID).collect();
        match !types.is_empty() && self.has_domain_that_calls().await? {
            true => self.refuse_users_code_at(self.sink, &types).await,
            false => Ok(()),
        }
    }

    /// Refuses such code in what a statement gives, which `fields` describe, before it is kept elsewhere.
    ///
    /// # Errors
    /// As above.
    pub async fn refuse_users_code_given(&mut self, sql: &str, call: &Call, fields: &[Field]) -> Result<()> {
        let Some((hidden, mut types)) = self.types_given(fields).await? else { return Ok(()) };
        if !hidden.is_empty() {
            let arrays = arrays_sql(sql, fields.len(), &hidden)?;
            let arrays = self.describe(&arrays, &call.fragment_types(&arrays)).await?.fields;
            types.extend(arrays.iter().flatten().map(|field| field.type_oid));
        }
        self.refuse_users_code_at(self.home.into(), &types).await
    }

    /// Refuses such code in described values where nobody knows which statement gives them.
    pub async fn refuse_users_code_hidden(&mut self, fields: &[Field]) -> Result<()> {
        let Some((hidden, mut types)) = self.types_given(fields).await? else { return Ok(()) };
        if !hidden.is_empty() {
            let loaded = self.catalog().await?;
            types.extend(loaded.catalog.user_types().filter(|of| of.calls_more).map(|of| of.oid));
        }
        self.refuse_users_code_at(self.home.into(), &types).await
    }

    /// [`Session::refuse_users_code_given`] where a temp table may be named.
    pub(crate) async fn refuse_users_code_at_sink(&mut self, sql: &str, fields: &[Field], call: &Call) -> Result<()> {
        let Some((hidden, mut types)) = self.types_given(fields).await? else { return Ok(()) };
        if !hidden.is_empty() {
            let arrays = self.describe_input(self.sink, &input(arrays_sql(sql, fields.len(), &hidden)?), call).await?;
            types.extend(arrays.columns.iter().map(|field| field.type_oid));
        }
        self.refuse_users_code_at(self.sink, &types).await
    }

    /// Refuses such code in what the home node's INSERT fills a stage with, whose rows go on. Values that the INSERT casts to the
    /// domain by itself are checked on one PostgreSQL, too.
    pub(crate) async fn refuse_users_code_staged(
        &mut self,
        fill: &str,
        mut columns: impl Iterator<Item = Oid>,
        call: &Call,
    ) -> Result<()> {
        if columns.all(|of| of < FIRST_USER_OID) || !self.has_domain_that_calls().await? {
            return Ok(());
        }
        for sql in syntax::given_to_insert(fill)? {
            let given = self.describe_input(self.sink, &input(sql.clone()), call).await?;
            self.refuse_users_code_at_sink(&sql, &given.columns, call).await?;
        }
        Ok(())
    }

    /// Refuses such code in expressions before they become arguments of a routine, as texts. An argument that PostgreSQL itself
    /// casts to the domain is checked there, too.
    pub async fn refuse_users_code_passed(&mut self, arguments: &str, call: &Call) -> Result<()> {
        if !self.has_domain_that_calls().await? {
            return Ok(());
        }
        for sql in syntax::given_to_insert(&format!("INSERT INTO arguments VALUES ({arguments})"))? {
            let fields = self.describe(&sql, &call.fragment_types(&sql)).await?.fields.unwrap_or_default();
            self.refuse_users_code_given(&sql, call, &fields).await?;
        }
        Ok(())
    }

    /// The columns (from 1) that may be of a domain, and the types of all, as they are described; `None` if no domain matters.
    async fn types_given(&mut self, fields: &[Field]) -> Result<Option<(Vec<usize>, Vec<Oid>)>> {
        if fields.is_empty() || !self.has_domain_that_calls().await? {
            return Ok(None);
        }
        let loaded = self.catalog().await?;
        let hiding = hiding_types(&loaded.catalog);
        let hidden = (1..).zip(fields).filter(|(_, field)| hiding.contains(&field.type_oid)).map(|(number, _)| number);
        Ok(Some((hidden.collect(), fields.iter().map(|field| field.type_oid).collect())))
    }

    /// Is there a domain whose values may not be made anew? With few exceptions domains ask nothing but functions of PostgreSQL's own that
    /// do no more than look.
    pub async fn has_domain_that_calls(&mut self) -> Result<bool> {
        if !self.may_have_domain_that_calls().await? {
            return Ok(false);
        }
        if self.judged_domains.trusts.is_none() {
            let loaded = self.catalog().await?;
            let calling: Vec<Oid> = loaded.catalog.user_types().filter(|of| of.calls_more).map(|of| of.oid).collect();
            let found = self.rows_on(self.sink, &planner::own_text(&functions_sql(&[], &calling))?).await?;
            self.judged_domains.trusts = Some(found.is_empty());
        }
        Ok(self.judged_domains.trusts == Some(false))
    }

    /// May there be such a domain, as far as it is known without asking?
    async fn may_have_domain_that_calls(&mut self) -> Result<bool> {
        let loaded = self.catalog().await?;
        if !loaded.catalog.user_types().any(|of| of.calls_more) {
            return Ok(false);
        }
        let of = (loaded.catalog.version(), self.settings_now());
        if self.judged_domains.of != of {
            self.judged_domains = JudgedDomains { of, ..JudgedDomains::default() };
        }
        Ok(self.judged_domains.trusts != Some(true))
    }

    async fn refuse_users_code_at(&mut self, slot: Slot, types: &[Oid]) -> Result<()> {
        let node = slot.node();
        let is_new = |of: &&Oid| **of >= FIRST_USER_OID && !self.judged_domains.harmless.contains(&(node, **of));
        let types: Vec<Oid> = types.iter().filter(is_new).copied().collect();
        if types.is_empty() {
            return Ok(());
        }
        let rows = self.rows_on(slot, &planner::own_text(&functions_sql(&[], &types))?).await?;
        let Some(row) = rows.first() else {
            self.judged_domains.harmless.extend(types.into_iter().map(|of| (node, of)));
            return Ok(());
        };
        let (function, role, is_own) = (text(row, 0)?, text(row, 1)?, text(row, 2)? == "t");
        let function = if is_own { format!("function {function}") } else { function.to_owned() };
        Err(PgError::unsupported(format!(
            "{function} of role \"{role}\", which a domain calls whose values would be made anew,"
        ))
        .hint("It would run with your rights. Have a superuser own the domain and the function, if they are to be trusted."))
    }
}

/// What columns of such domains are described as.
fn hiding_types(catalog: &Catalog) -> BTreeSet<Oid> {
    catalog.user_types().filter(|of| of.calls_more).map(|of| catalog.value_type(of.oid, -1).0).collect()
}

/// Gives arrays of what a statement gives in these of its columns. It is only described.
fn arrays_sql(sql: &str, width: usize, columns: &[usize]) -> Result<String> {
    let names: Vec<String> = (1..=width).map(|number| format!("c{number}")).collect();
    let arrays: Vec<String> = columns.iter().map(|number| format!("ARRAY[c{number}]")).collect();
    // Only a whole statement may have changes in its WITH.
    let (with, sql) = syntax::with_apart(sql)?;
    let given = format!("loxo_given ({}) AS ({sql})", names.join(", "));
    Ok(format!("{with}{given} SELECT {} FROM loxo_given", arrays.join(", ")))
}

fn input(sql: String) -> Input {
    Input { table: String::new(), nodes: Vec::new(), sql, indexes: Vec::new(), exchange_plan: None }
}

/// See [`functions_sql`].
pub(crate) fn of_tables(tables: &[&Relation]) -> String {
    functions_sql(&tables.iter().map(|table| table.oid).collect::<Vec<_>>(), &[])
}

/// What tables and types use by their columns' types, constraints, indexes and generated columns, and what that uses in its turn, with the
/// negators and commutators that PostgreSQL may put in an operator's place (`negate_clause()`, which no dependency tells of); of it
/// the functions whose owners are neither superusers nor the present role (true), and what else may not be trusted (false).
fn functions_sql(tables: &[Oid], types: &[Oid]) -> String {
    let list = |oids: &[Oid]| oids.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
    format!(
        "WITH RECURSIVE used (classid, objid) AS ( \
             (SELECT 'pg_catalog.pg_class'::regclass::oid, t.oid FROM pg_catalog.pg_class AS t WHERE t.oid = ANY ('{{{oids}}}'::oid[]) \
             UNION ALL \
             SELECT 'pg_catalog.pg_type'::regclass::oid, t.oid FROM unnest('{{{types}}}'::oid[]) AS t (oid)) \
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
                 UNION ALL \
                 SELECT 'pg_catalog.pg_operator'::regclass::oid, x.oid FROM pg_catalog.pg_operator AS o \
                 CROSS JOIN LATERAL unnest(ARRAY[o.oprcom, o.oprnegate]) AS x (oid) \
                 WHERE u.classid = 'pg_catalog.pg_operator'::regclass::oid AND o.oid = u.objid AND x.oid <> 0 \
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
             SELECT r.oid, r.rolname, m.found[1]::oid FROM expressions AS e JOIN pg_catalog.pg_roles AS r ON r.oid = e.owner AND NOT r.rolsuper AND r.rolname <> current_user \
             CROSS JOIN LATERAL regexp_matches(e.tree, ':(?:funcid|opfuncid|hashfuncid|negfuncid) ([1-9][0-9]*)', 'g') AS m (found)) \
         SELECT p.oid::regprocedure::text, r.rolname, true FROM used AS u \
         JOIN pg_catalog.pg_proc AS p ON u.classid = 'pg_catalog.pg_proc'::regclass::oid AND p.oid = u.objid \
         JOIN pg_catalog.pg_roles AS r ON r.oid = p.proowner AND NOT r.rolsuper AND r.rolname <> current_user \
         UNION ALL \
         SELECT concat('function ', p.oid::regprocedure), c.name, false FROM calls AS c JOIN pg_catalog.pg_proc AS p ON p.oid = c.function \
         WHERE NOT has_function_privilege(c.owner, p.oid, 'EXECUTE') \
             OR p.provolatile = 'v' \
             OR p.oid < 16384 AND p.proname LIKE 'pg_input_%' \
             OR p.provolatile = 's' AND (p.oid >= 16384 OR p.proparallel <> 's' OR EXISTS ( \
                 SELECT FROM unnest(p.proargtypes) AS a (oid) JOIN pg_catalog.pg_type AS y ON y.oid = a.oid \
                 WHERE y.typtype = 'p' OR y.typname LIKE 'reg%')) \
         UNION ALL \
         SELECT 'a JSON constructor', r.rolname, false FROM expressions AS e JOIN pg_catalog.pg_roles AS r ON r.oid = e.owner AND NOT r.rolsuper AND r.rolname <> current_user \
         WHERE e.tree ~ '[{{]JSON[A-Z]*EXPR ' \
         ORDER BY 1 LIMIT 1",
        oids = list(tables),
        types = list(types)
    )
}
