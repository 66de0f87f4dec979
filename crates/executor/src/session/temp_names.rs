//! What a session has in `pg_temp`: names, which hide others, and views, whose queries the planner puts in their place since only
//! the home node knows them.

use std::sync::Arc;

use catalog::{Column, Distribution, Oid, Persistence, Relation, RelationKind};
use pgerror::{PgError, Result};

use crate::session::Session;
use crate::shared::catalog_load::{Row, flag, number, optional, text};

/// The names, and the definitions as they are under one version of the catalog.
#[derive(Debug, Default)]
pub(crate) struct TempNames {
    /// Of those that a bare name means.
    pub(crate) names: Vec<String>,
    /// Of all of them.
    pub(crate) all: Vec<String>,
    pub(crate) views: Vec<Arc<Relation>>,
    version: u64,
}

/// Where `pg_temp` stands at the end of the search path, others hide what is in it.
const NAMES: &str = "SELECT relname, relkind, pg_catalog.pg_table_is_visible(oid) FROM pg_catalog.pg_class \
     WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()";

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

/// Of whoever asks.
pub(crate) const MAY_MAKE_TEMPORARY: &str =
    "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')";

/// Definitions with every name qualified, whatever the session's search path is.
fn views_sql(in_block: bool) -> String {
    let (begin, end) = match in_block {
        true => ("SAVEPOINT loxo_views", "ROLLBACK TO SAVEPOINT loxo_views; RELEASE SAVEPOINT loxo_views"),
        false => ("BEGIN", "ROLLBACK"),
    };
    format!("{begin}; SET LOCAL search_path = ''; {VIEWS}; {end}")
}

impl TempNames {
    /// The texts of all views: what a statement that reads them depends on.
    pub(crate) fn definitions(&self) -> String {
        self.views.iter().flat_map(|view| ["; ", view.view_definition.as_deref().unwrap_or_default()]).collect()
    }
}

impl Session {
    /// Of the session's own backend on the home node, if it has one.
    pub(crate) async fn temp_relations(&mut self) -> Result<Arc<TempNames>> {
        if !self.links.is_pinned(self.home) {
            return Ok(Arc::default());
        }
        let version = self.catalog_version;
        if let Some(known) = self.temp_relations.as_ref().filter(|k| k.views.is_empty() || k.version == version) {
            return Ok(known.clone());
        }
        let rows = self.rows_on(self.home, NAMES).await?;
        let (mut names, mut all) = (Vec::new(), Vec::new());
        for row in &rows {
            let name = text(row, 0)?;
            all.push(name.to_owned());
            if flag(row, 2)? {
                names.push(name.to_owned());
            }
        }
        let has_views = rows.iter().any(|row| row.get(1).and_then(|kind| kind.as_deref()) == Some(b"v"));
        let views = if has_views { self.temp_views().await? } else { Vec::new() };
        let known = Arc::new(TempNames { names, all, views, version });
        self.temp_relations = Some(known.clone());
        Ok(known)
    }

    async fn temp_views(&mut self) -> Result<Vec<Arc<Relation>>> {
        let columns = self.rows_on(self.home, &planner::own_text(COLUMNS)?).await?;
        let views = self.rows_on(self.home, &views_sql(self.in_block())).await?;
        views.iter().map(|row| view(row, &columns).map(Arc::new)).collect()
    }
}

fn view(row: &Row, columns: &[Row]) -> Result<Relation> {
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
        view_definition: Some(text(row, 2)?.trim_end().trim_end_matches(';').to_owned()),
        is_barrier: flag(row, 3)?,
        check_option: flag(row, 4)?,
        unique_keys: Vec::new(),
        other_unique: Vec::new(),
        has_exclusion: false,
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
