//! What a session has in `pg_temp`: names, which hide others, and views, whose queries the planner puts in their place since only
//! the home node knows them. Likewise functions, and what changes of tables call.

use std::sync::{Arc, LazyLock};

use catalog::{Column, Distribution, Function, LookAlikes, Oid, Persistence, Relation, RelationKind};
use pgerror::{PgError, Result};
use planner::{Qualifier, TempCode, TempType};

use crate::session::Session;
use crate::shared::catalog_load::{Row, flag, function, number, numbers, optional, text};
use crate::shared::catalog_queries::{FUNCTION_COLUMNS, FUNCTION_FROM, HIDING};

/// The names, and the definitions as they are under one version of the catalog.
#[derive(Debug, Default)]
pub(crate) struct TempNames {
    /// Names of those that a bare name means.
    pub(crate) names: Vec<String>,
    /// Names of all of them.
    pub(crate) all: Vec<String>,
    pub(crate) views: Vec<Arc<Relation>>,
    pub(crate) code: Vec<TempCode>,
    pub(crate) functions: Vec<Function>,
    pub(crate) types: Vec<TempType>,
    version: u64,
}

/// Where `pg_temp` stands at the end of the search path, others hide what is in it.
const NAMES: &str = "SELECT 'n', relname, relkind, pg_catalog.pg_table_is_visible(oid) FROM pg_catalog.pg_class \
     WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()";

/// Those of arrays have names that nobody writes.
const TYPES: &str = "SELECT 't', typname, NOT pg_catalog.pg_type_is_visible(oid) FROM pg_catalog.pg_type \
     WHERE typnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() AND typcategory OPERATOR(pg_catalog.<>) 'A'";

/// What the functions of a table's triggers, constraints, defaults, indexes and domains are, and whether a trigger ON TRUNCATE or
/// any other change calls them; also those of children, and of tables whose rows a foreign key changes. What stands for `nextval()` in
/// tables of ours touches nothing, as that does not.
const CODE: &str = "WITH RECURSIVE own(oid, relname) AS (\
       SELECT oid, relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()), \
     reach(oid, reached) AS (SELECT oid, oid FROM own UNION SELECT r.oid, n.reached FROM reach r JOIN (\
       SELECT inhparent, inhrelid FROM pg_inherits UNION ALL SELECT confrelid, conrelid FROM pg_constraint \
       WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))) n(of, reached) ON n.of = r.reached), \
     typed(relid, type) AS (SELECT a.attrelid, a.atttypid FROM pg_attribute a JOIN own o ON o.oid = a.attrelid \
       WHERE a.attnum > 0 AND a.atttypid >= 16384 \
       UNION SELECT t.relid, b FROM typed t JOIN pg_type p ON p.oid = t.type, unnest(ARRAY[p.typbasetype, p.typelem]) b WHERE b >= 16384), \
     object(relid, changes, truncates, class, oid) AS (\
       SELECT tgrelid, tgtype & 28 <> 0, tgtype & 32 <> 0, 'pg_catalog.pg_trigger'::regclass, t.oid \
       FROM pg_trigger t JOIN own o ON o.oid = t.tgrelid WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' \
       UNION ALL SELECT conrelid, true, false, 'pg_catalog.pg_constraint'::regclass, c.oid FROM pg_constraint c JOIN own o ON o.oid = c.conrelid \
       UNION ALL SELECT adrelid, true, false, 'pg_catalog.pg_attrdef'::regclass, d.oid FROM pg_attrdef d JOIN own o ON o.oid = d.adrelid \
       UNION ALL SELECT indrelid, true, false, 'pg_catalog.pg_class'::regclass, indexrelid FROM pg_index i JOIN own o ON o.oid = i.indrelid \
       UNION ALL SELECT oid, true, false, 'pg_catalog.pg_class'::regclass, oid FROM own \
       UNION ALL SELECT relid, true, false, 'pg_catalog.pg_type'::regclass, type FROM typed \
       UNION ALL SELECT relid, true, false, 'pg_catalog.pg_constraint'::regclass, c.oid FROM typed JOIN pg_constraint c ON c.contypid = type), \
     used(relid, changes, truncates, function) AS (\
       SELECT b.relid, b.changes, b.truncates, coalesce(o.oprcode, d.refobjid) FROM object b \
       JOIN pg_depend d ON d.classid = b.class AND d.objid = b.oid \
       LEFT JOIN pg_operator o ON d.refclassid = 'pg_catalog.pg_operator'::regclass AND o.oid = d.refobjid \
       WHERE d.refobjid >= 16384 AND (o.oid IS NOT NULL OR d.refclassid = 'pg_catalog.pg_proc'::regclass) \
       AND d.refobjid NOT IN ('loxo.next_identity'::regproc, 'loxo.identity_sequence'::regproc)) \
     SELECT 'c', o.relname, array_agg(DISTINCT u.function::oid) FILTER (WHERE u.changes), \
       array_agg(DISTINCT u.function::oid) FILTER (WHERE u.truncates) \
     FROM own o JOIN reach r ON r.oid = o.oid JOIN used u ON u.relid = r.reached GROUP BY o.relname";

/// One text for all that is asked at once, since it is asked again after each schema change.
static QUERIES: LazyLock<Result<String>> = LazyLock::new(|| {
    let functions =
        format!("SELECT 'f', {FUNCTION_COLUMNS} FROM {FUNCTION_FROM} WHERE p.pronamespace = pg_my_temp_schema()");
    Ok(format!("{NAMES}; {TYPES}; {}; {}", planner::own_text(CODE)?, planner::own_text(&functions)?))
});

const VIEWS: &str = "SELECT c.oid, c.relname, pg_catalog.pg_get_viewdef(c.oid), \
     EXISTS (SELECT FROM pg_catalog.pg_options_to_table(c.reloptions) o \
       WHERE o.option_name = 'security_barrier' AND o.option_value::bool), \
     coalesce(c.reloptions && ARRAY['check_option=local', 'check_option=cascaded'], false), \
     EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid), \
     EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1') \
     FROM pg_catalog.pg_class c WHERE c.relnamespace = pg_catalog.pg_my_temp_schema() AND c.relkind = 'v'";

const COLUMNS: &str = "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, \
     pg_catalog.format_type(a.atttypid, a.atttypmod), pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
     FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
     LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     WHERE c.relnamespace = pg_catalog.pg_my_temp_schema() AND c.relkind = 'v' AND a.attnum > 0 ORDER BY a.attnum";

/// May the role that asks make temporary tables, and all with them that an owner may? `ALTER DEFAULT PRIVILEGES` can take rights away
/// from the role itself.
pub(crate) const MAY_MAKE_TEMPORARY: &str = "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP') \
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_default_acl d WHERE d.defaclobjtype OPERATOR(pg_catalog.=) 'r' \
       AND d.defaclnamespace OPERATOR(pg_catalog.=) 0 \
       AND pg_catalog.pg_get_userbyid(d.defaclrole) OPERATOR(pg_catalog.=) current_user \
       AND (SELECT pg_catalog.count(*) FROM pg_catalog.aclexplode(d.defaclacl) a WHERE a.grantee OPERATOR(pg_catalog.=) d.defaclrole) \
         OPERATOR(pg_catalog.<) (SELECT pg_catalog.count(*) FROM pg_catalog.aclexplode(pg_catalog.acldefault('r', d.defaclrole))))";

/// Definitions with every name qualified, whatever the session's search path is. Outside a block the text is a transaction by itself,
/// of which a cancel leaves nothing.
fn views_sql(in_block: bool) -> String {
    let asked = format!("SET LOCAL search_path = ''; {VIEWS}");
    match in_block {
        true => {
            format!("SAVEPOINT loxo_views; {asked}; ROLLBACK TO SAVEPOINT loxo_views; RELEASE SAVEPOINT loxo_views")
        }
        false => asked,
    }
}

impl TempNames {
    /// Does the session see what all others of its user see?
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.types.is_empty() && self.functions.is_empty()
    }

    /// Names of relations and types, which a statement may name bare.
    pub(crate) fn bare(&self) -> Vec<String> {
        self.all.iter().cloned().chain(self.types.iter().map(|of| of.name.clone())).collect()
    }

    /// Those that are hidden by others: the session has `pg_temp` at the end of its search path.
    pub(crate) fn hidden(&self) -> Vec<String> {
        self.all.iter().filter(|name| !self.names.contains(name)).cloned().collect()
    }

    /// The texts of all views: what a statement that reads them depends on.
    pub(crate) fn definitions(&self) -> String {
        self.views.iter().flat_map(|view| ["; ", view.view_definition.as_deref().unwrap_or_default()]).collect()
    }
}

impl Session {
    /// Temporary objects in the session's own backend on the home node, if it has one.
    pub(crate) async fn temp_relations(&mut self) -> Result<Arc<TempNames>> {
        if !self.links.is_pinned(self.home) {
            return Ok(Arc::default());
        }
        let version = self.catalog_version;
        if let Some(known) = self.temp_relations.as_ref().filter(|k| k.views.is_empty() || k.version == version) {
            return Ok(known.clone());
        }
        let rows = self.rows_on(self.home, QUERIES.as_ref().map_err(PgError::clone)?).await?;
        let mut known = TempNames { version, ..TempNames::default() };
        let mut has_views = false;
        for mut row in rows {
            match row.remove(0).as_deref() {
                Some(b"n") => {
                    let name = text(&row, 0)?;
                    known.all.push(name.to_owned());
                    if flag(&row, 2)? {
                        known.names.push(name.to_owned());
                    }
                    has_views |= text(&row, 1)? == "v";
                }
                Some(b"t") => {
                    known.types.push(TempType { name: text(&row, 0)?.to_owned(), is_hidden: flag(&row, 1)? });
                }
                Some(b"f") => known.functions.push(function(&row, Qualifier(&LookAlikes::default()))?),
                _ => known.code.push(TempCode {
                    relation: text(&row, 0)?.to_owned(),
                    on_change: numbers(optional(&row, 1)?)?,
                    on_truncate: numbers(optional(&row, 2)?)?,
                }),
            }
        }
        if has_views {
            known.views = self.temp_views(&known.hidden()).await?;
        }
        let known = Arc::new(known);
        self.temp_relations = Some(known.clone());
        Ok(known)
    }

    async fn temp_views(&mut self, hidden: &[String]) -> Result<Vec<Arc<Relation>>> {
        let columns = self.rows_on(self.home, &planner::own_text(COLUMNS)?).await?;
        let views = self.rows_on(self.home, &views_sql(self.in_block())).await?;
        let hiding = match views.is_empty() {
            true => Vec::new(),
            false => self.rows_on(self.home, &planner::own_text(HIDING)?).await?,
        };
        views.iter().map(|row| view(row, &columns, &hiding, hidden).map(Arc::new)).collect()
    }
}

fn view(row: &Row, columns: &[Row], hiding: &[Row], hidden: &[String]) -> Result<Relation> {
    let oid: Oid = number(row, 0)?;
    if flag(row, 6)? {
        // None is made by way of a coordinator.
        let what = format!("temporary view \"{}\", which has rules,", text(row, 1)?);
        return Err(PgError::unsupported(what).hint("Use a permanent view."));
    }
    let own = columns.iter().filter(|column| number::<Oid>(column, 0).is_ok_and(|of| of == oid));
    Ok(Relation {
        oid,
        schema: "pg_temp".to_owned(),
        name: text(row, 1)?.to_owned(),
        kind: RelationKind::View,
        persistence: Persistence::Temporary,
        columns: own.map(column).collect::<Result<_>>()?,
        distribution: Distribution::View,
        by_default: false,
        view_definition: Some(planner::naming_temporary(text(row, 2)?.trim_end().trim_end_matches(';'), hidden)?),
        hides_operator: hiding.iter().any(|of| number::<Oid>(of, 0).is_ok_and(|of| of == oid)),
        is_barrier: flag(row, 3)?,
        check_option: flag(row, 4)?,
        unique_keys: Vec::new(),
        other_unique: Vec::new(),
        exclusions: Vec::new(),
        foreign_keys: Vec::new(),
        parents: Vec::new(),
        is_partition: false,
        has_children: false,
        has_triggers: flag(row, 5)?,
        has_other_triggers: flag(row, 5)?,
        captured: Vec::new(),
        rules: Vec::new(),
        code: None,
        rows: 0.0,
    })
}

fn column(row: &Row) -> Result<Column> {
    Ok(Column {
        number: number(row, 1)?,
        name: text(row, 2)?.to_owned(),
        type_oid: number(row, 3)?,
        type_modifier: number(row, 4)?,
        type_name: text(row, 5)?.to_owned(),
        not_null: false,
        default: optional(row, 6)?.map(str::to_owned),
        default_is_stable: false,
        generated: catalog::Generated::No,
        deterministic: true,
        default_collation: false,
        bytewise: false,
    })
}
