//! Reads the catalog off the primary datanode.
//!
//! All queries run in one REPEATABLE READ transaction, so the snapshot is consistent. The search path is PostgreSQL's own schema:
//! every name PostgreSQL prints is qualified.
//!
//! A load under a new gtm epoch must not miss a schema change whose COMMIT is still on its way to the datanode (its
//! coordinator may be dead already, so nobody will announce it again). A committing schema change therefore has
//! `loxo.committing` locked on the primary datanode (`loxo.lock_for_commit()`), and a load waits for that before it takes its
//! snapshot. Nobody but a superuser can lock the table, so no user can hold up loads or schema changes by it.

use crate::shared::catalog_queries::{
    BUILTINS, CAPTURED, CODE, COLUMNS, DOMAIN_BASES, FOREIGN_KEYS, HIDING, LOOK_ALIKES, NONDETERMINISTIC_COLLATIONS,
    OPERATORS, OWN_OPERATORS, RELATIONS, RULES, SCHEMAS, SYSTEM_NAMES, TYPES, UNIQUE, UNNAMED_FUNCTIONS, VERSION,
    VIEWS_OF_LOOK_ALIKES, exclusions, functions,
};
use crate::shared::definitions::{Definitions, Place};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use catalog::{
    AttNum, Builder, Builtins, Captured, Catalog, Code, Column, Distribution, ForeignKey, Function, Generated, Group,
    KeyColumn, LookAlikes, MapId, Node, NodeId, Oid, Persistence, Relation, RelationKind, Rule, RuleEvent, RuleState,
    UniqueKey, UserType, WrittenMap,
};
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use placement::BucketMap;
use planner::Qualifier;
use tokio::sync::OnceCell;
use txn::decision::LAYOUT;

/// A catalog and what goes with it.
#[derive(Debug)]
pub struct Loaded {
    /// The snapshot.
    pub catalog: Arc<Catalog>,
    /// The gtm epoch in which the reading began; `None` if there was no gtm, or a schema change was under way.
    pub(crate) epoch: Option<u64>,
}

pub(crate) type Row = Vec<Option<Bytes>>;

/// Text of a column; NULL and bad UTF-8 (a name in SQL_ASCII, say) are errors of ours to report, not to panic on.
pub(crate) fn text(row: &Row, column: usize) -> Result<&str> {
    optional(row, column)?.ok_or_else(|| PgError::internal(format!("column {column} of a catalog query is null")))
}

pub(crate) fn optional(row: &Row, column: usize) -> Result<Option<&str>> {
    let value = row.get(column).ok_or_else(|| PgError::internal("a catalog query gave too few columns"))?;
    value
        .as_deref()
        .map(|bytes| std::str::from_utf8(bytes).map_err(|_| PgError::internal("a catalog name is not UTF-8")))
        .transpose()
}

pub(crate) fn number<T: std::str::FromStr>(row: &Row, column: usize) -> Result<T> {
    let value = text(row, column)?;
    value.parse().map_err(|_| PgError::internal(format!("\"{value}\" in a catalog query is not a number")))
}

pub(crate) fn flag(row: &Row, column: usize) -> Result<bool> {
    Ok(text(row, column)? == "t")
}

fn letter(row: &Row, column: usize) -> Result<char> {
    Ok(text(row, column)?.chars().next().unwrap_or(' '))
}

/// `{1,2,3}` or `1 2 3`.
pub(crate) fn numbers<T: std::str::FromStr>(list: Option<&str>) -> Result<Vec<T>> {
    list.unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit() && c != '-')
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| PgError::internal(format!("\"{part}\" is not a number"))))
        .collect()
}

/// The version once no schema change is being committed. The last row of the answer has it.
pub(crate) const VISIBLE_VERSION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     LOCK TABLE loxo.committing IN SHARE MODE; SELECT version FROM loxo.catalog_version; COMMIT";

/// How the queries below are to run. What they are estimated at grows with the number of tables, far beyond what they touch:
/// compiling them, or the hash tables that PostgreSQL lays out for as many rows, would take ten times as long as running them.
const FOR_LOADING: &str =
    "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL jit = off; SET LOCAL work_mem = '4MB'";

/// LOCK takes no snapshot, the SELECT behind it does: none is older than the lock. Then the lock has done its work and is given
/// back. Held longer it would deadlock with a schema change, which has locked tables that are looked at below.
///
/// Printing a definition that was not known before waits for sessions that have locked its tables: see [`Definitions`].
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SAVEPOINT loxo_committing; \
     LOCK TABLE loxo.committing IN SHARE MODE; SELECT 1; ROLLBACK TO SAVEPOINT loxo_committing; RELEASE loxo_committing; \
     SET LOCAL lock_timeout = '2s'";

/// Longest wait for sessions that have locked a table: each try ends after the `lock_timeout` above.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);

/// What need not be read anew.
pub(crate) struct Known<'a> {
    pub(crate) builtins: &'a OnceCell<Arc<Builtins>>,
    /// Definitions of views, rules and generated columns.
    pub(crate) definitions: &'a Definitions,
    /// The catalog read before: if only rows have moved since then, only what tells that is read.
    pub(crate) before: Option<&'a Catalog>,
}

/// Reads everything but what is `known`. `own_version`: the connection has a transaction open whose own changes are to be seen, under this version.
pub(crate) async fn load(connection: &mut Connection, own_version: Option<u64>, known: &Known<'_>) -> Result<Catalog> {
    let until = Instant::now() + LOCK_WAIT_MAX;
    loop {
        match load_once(connection, own_version, known).await {
            // A session that locked a table just before its view was printed may wait for this load. The next try sees the lock.
            Err(error)
                if error.code() == SqlState::LOCK_NOT_AVAILABLE && own_version.is_none() && Instant::now() < until => {}
            result => return result.map_err(explain),
        }
    }
}

async fn load_once(connection: &mut Connection, own_version: Option<u64>, known: &Known<'_>) -> Result<Catalog> {
    let in_transaction = own_version.is_some();
    if in_transaction {
        connection.execute(&format!("SAVEPOINT loxo_load; {FOR_LOADING}")).await?;
    } else {
        let begun = connection.execute(&format!("{BEGIN}; {FOR_LOADING}")).await;
        if begun.is_err() && connection.is_drained() {
            connection.execute("ROLLBACK").await?;
        }
        begun?;
    }
    let result = read_all(connection, own_version, known).await;
    let end = if in_transaction { "ROLLBACK TO loxo_load; RELEASE loxo_load" } else { "ROLLBACK" };
    if result.is_err() {
        let ended = connection.execute(end).await;
        debug_assert!(ended.is_ok() || connection.is_broken());
    }
    match result {
        Ok(catalog) => connection.execute(end).await.map(|_| catalog),
        Err(error) => Err(error),
    }
}

fn explain(error: PgError) -> PgError {
    match error.code() {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME if error.message().contains("loxo.committing") => {
            other_layout().detail(error.message())
        }
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the datanode has no Loxodonta metadata")
                .detail(error.message())
                .hint("Prepare the cluster with `loxo up` or `loxo init --config FILE`.")
        }
        SqlState::UNDEFINED_COLUMN => other_layout().detail(error.message()),
        SqlState::LOCK_NOT_AVAILABLE => {
            PgError::new(SqlState::LOCK_NOT_AVAILABLE, "the catalog could not be read within 30 s")
                .detail(
                    "A transaction holds a table locked that a view reads, or that has a rule or a generated column.",
                )
                .hint("End the transaction with the ACCESS EXCLUSIVE lock: see pg_locks on the primary datanode.")
        }
        _ => error,
    }
}

fn other_layout() -> PgError {
    PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the datanodes' metadata are of another version of loxo")
        .hint("Stop all coordinators and gtms, and run `loxo init --upgrade`, or `loxo up` for a local cluster.")
}

async fn read_all(connection: &mut Connection, own_version: Option<u64>, known: &Known<'_>) -> Result<Catalog> {
    let version = connection.query_rows(VERSION).await?;
    let row = version.first().ok_or_else(|| PgError::internal("loxo.catalog_version is empty"))?;
    if number::<i32>(row, 3)? != LAYOUT {
        return Err(other_layout());
    }
    let (version, schema_version): (u64, u64) = match own_version {
        Some(own) => (own, own),
        None => (number(row, 0)?, number(row, 6)?),
    };
    if let Some(before) = known.before.filter(|before| before.schema_version() == schema_version) {
        let maps = read_maps(connection).await?;
        return Ok(before.with_maps(version, maps, read_scattered(connection).await?));
    }
    let mut builder = Builder::new(version, number(row, 1)?);
    builder.schema_version(schema_version);
    builder.defers_constraints(flag(row, 2)?).withholds_temp(flag(row, 4)?).rows_move(flag(row, 5)?);
    builder.builtins(known.builtins.get_or_try_init(|| read_builtins(connection)).await?.clone());
    read_nodes(connection, &mut builder).await?;
    for row in connection.query_rows(SCHEMAS).await? {
        builder.schema(text(&row, 0)?);
    }
    let mut look_alikes = LookAlikes::default();
    for row in connection.query_rows(LOOK_ALIKES).await? {
        look_alikes.add(letter(&row, 0)?, text(&row, 1)?);
    }
    if !look_alikes.operators.is_empty() {
        for row in connection.query_rows(VIEWS_OF_LOOK_ALIKES).await? {
            look_alikes.views.insert(number(&row, 0)?);
        }
        for row in connection.query_rows(HIDING).await? {
            look_alikes.hiding.insert(number(&row, 0)?);
        }
    }
    let taken = Qualifier(&look_alikes);
    builder.look_alikes(look_alikes.clone());
    for row in connection.query_rows(TYPES).await? {
        builder.user_type(UserType {
            oid: number(&row, 0)?,
            schema: text(&row, 1)?.to_owned(),
            name: text(&row, 2)?.to_owned(),
            kind: letter(&row, 3)?,
            base: number(&row, 4)?,
            array: flag(&row, 5)?,
            base_modifier: number(&row, 6)?,
            default: optional(&row, 7)?.map(|default| taken.expression(default)),
            functions: numbers(optional(&row, 8)?)?,
            casts: numbers(optional(&row, 9)?)?,
            calls_more: flag(&row, 10)?,
            parts: numbers(optional(&row, 11)?)?,
        });
    }
    for row in connection.query_rows(&functions()).await? {
        builder.function(function(&row, taken)?);
    }
    for row in connection.query_rows(UNNAMED_FUNCTIONS).await? {
        builder.unnamed_function(number(&row, 0)?);
    }
    for row in connection.query_rows(OPERATORS).await? {
        builder.operator(text(&row, 0)?, text(&row, 1)?, number(&row, 2)?);
    }
    for row in connection.query_rows(SYSTEM_NAMES).await? {
        builder.system_name(text(&row, 0)?);
    }
    for row in connection.query_rows(OWN_OPERATORS).await? {
        builder.own_operator(text(&row, 0)?);
    }
    for row in connection.query_rows(NONDETERMINISTIC_COLLATIONS).await? {
        builder.nondeterministic_collation(text(&row, 0)?);
    }
    read_relations(connection, builder, taken, (known.definitions, own_version.is_none())).await
}

/// A row of [`FUNCTION_COLUMNS`](crate::shared::catalog_queries::FUNCTION_COLUMNS).
pub(crate) fn function(row: &Row, taken: Qualifier<'_>) -> Result<Function> {
    Ok(Function {
        oid: number(row, 0)?,
        schema: text(row, 1)?.to_owned(),
        name: text(row, 2)?.to_owned(),
        language: text(row, 3)?.to_owned(),
        volatility: letter(row, 4)?,
        kind: letter(row, 5)?,
        is_public: flag(row, 7)?,
        definition: function_definition(optional(row, 6)?.unwrap_or_default(), taken),
        parts: numbers(optional(row, 8)?)?,
        is_parallel_safe: flag(row, 9)?,
        is_trigger: flag(row, 10)?,
        sets_path: flag(row, 11)?,
        is_definer: flag(row, 14)?,
        arguments: (number(row, 12)?, optional(row, 13)?.map(|_| number(row, 13)).transpose()?),
        leavings: Default::default(),
    })
}

/// The body of BEGIN ATOMIC is bound when the function is made, all others whenever they run.
fn function_definition(definition: &str, taken: Qualifier<'_>) -> String {
    if definition.contains("BEGIN ATOMIC") { taken.statement(definition) } else { definition.to_owned() }
}

/// What never changes, so that it is read once.
async fn read_builtins(connection: &mut Connection) -> Result<Arc<Builtins>> {
    let rows = connection.query_rows(BUILTINS).await?;
    let lines = rows.first().map(|row| text(row, 0)).transpose()?.unwrap_or_default();
    let builtins = Builtins::from_lines(lines);
    builtins.map(Arc::new).ok_or_else(|| PgError::internal("a line about PostgreSQL's own objects cannot be read"))
}

async fn read_nodes(connection: &mut Connection, builder: &mut Builder) -> Result<()> {
    let nodes = connection
        .query_rows("SELECT id, name, type, host, port, is_primary, is_preferred FROM loxo.node ORDER BY id")
        .await?;
    for row in nodes {
        let node = Node {
            id: NodeId(number(&row, 0)?),
            name: text(&row, 1)?.to_owned(),
            host: text(&row, 3)?.to_owned(),
            port: number(&row, 4)?,
            primary: flag(&row, 5)?,
            preferred: flag(&row, 6)?,
        };
        match letter(&row, 2)? {
            'D' => builder.node(node),
            'C' => builder.coordinator(node),
            _ => builder.gtm(node),
        };
    }
    for row in connection.query_rows("SELECT name, members FROM loxo.node_group ORDER BY name").await? {
        let members = numbers(optional(&row, 1)?)?.into_iter().map(NodeId).collect();
        builder.group(Group { name: text(&row, 0)?.to_owned(), members });
    }
    for WrittenMap { id, map, by } in read_maps(connection).await? {
        builder.map(id, map).map_written(id, by);
    }
    Ok(())
}

async fn read_maps(connection: &mut Connection) -> Result<Vec<WrittenMap>> {
    let map = |row: &Row| {
        let slots: Vec<u16> = numbers(optional(row, 1)?)?;
        let map = BucketMap::from_slice(&slots).ok_or_else(|| PgError::internal("a bucket map has a wrong length"))?;
        Ok(WrittenMap { id: MapId(number(row, 0)?), map, by: number(row, 2)? })
    };
    connection.query_rows("SELECT id, nodes, xmin FROM loxo.bucket_map").await?.iter().map(map).collect()
}

/// As column 22 of RELATIONS.
async fn read_scattered(connection: &mut Connection) -> Result<Vec<(Oid, u32)>> {
    let sql = "SELECT relid, xmin FROM loxo.class WHERE locator = 'N'";
    connection.query_rows(sql).await?.iter().map(|row| Ok((number(row, 0)?, number(row, 1)?))).collect()
}

/// Rows of a query by the object id in their first column.
fn by_relation(rows: Vec<Row>) -> Result<HashMap<Oid, Vec<Row>>> {
    let mut map: HashMap<Oid, Vec<Row>> = HashMap::new();
    for row in rows {
        map.entry(number(&row, 0)?).or_default().push(row);
    }
    Ok(map)
}

async fn read_relations(
    connection: &mut Connection,
    mut builder: Builder,
    taken: Qualifier<'_>,
    (definitions, keep): (&Definitions, bool),
) -> Result<Catalog> {
    let mut columns = by_relation(connection.query_rows(COLUMNS).await?)?;
    let mut unique = by_relation(connection.query_rows(UNIQUE).await?)?;
    let mut code = by_relation(connection.query_rows(CODE).await?)?;
    let mut captured = by_relation(connection.query_rows(CAPTURED).await?)?;
    let mut rules = by_relation(connection.query_rows(RULES).await?)?;
    let mut foreign_keys = by_relation(connection.query_rows(FOREIGN_KEYS).await?)?;
    // Key types of domains need the types, which are in the builder: freeze a copy of what is there so far.
    let types = connection.query_rows(DOMAIN_BASES).await?;
    let mut domains = HashMap::new();
    for row in types {
        domains.insert(number::<Oid>(&row, 0)?, number::<Oid>(&row, 1)?);
    }
    let relations = connection.query_rows(RELATIONS).await?;
    // Inside a block each query sees a state of its own: of rules that are new by now nobody asks.
    let has = |column: usize| move |row: &Row| row.get(column).is_some_and(Option::is_some);
    let is_wanted = !rules.is_empty() || relations.iter().any(has(5)) || columns.values().flatten().any(has(14));
    let definitions = &if is_wanted { definitions.read(connection, keep).await? } else { HashMap::new() };
    for row in relations {
        let oid: Oid = number(&row, 0)?;
        if flag(&row, 19)? {
            builder.column_grants(oid);
        }
        if let Some(owner) = optional(&row, 20)? {
            builder.view_owner(oid, owner.to_owned());
        }
        let columns = columns
            .remove(&oid)
            .unwrap_or_default()
            .iter()
            .map(|row| column(row, taken, definitions))
            .collect::<Result<Vec<Column>>>()?;
        let kind = relation_kind(letter(&row, 3)?)?;
        let (unique_keys, other_unique) = unique_indexes(&unique.remove(&oid).unwrap_or_default())?;
        // One table that is not as we left it must not take all others along.
        let distribution = distribution(&row, kind, &columns, &domains, &builder)
            .unwrap_or_else(|error| Distribution::Broken(error.message().into_owned()));
        if matches!(distribution, Distribution::RoundRobin { .. }) {
            builder.scattered_by(oid, number(&row, 22)?);
        }
        builder.relation(Relation {
            oid,
            schema: text(&row, 1)?.to_owned(),
            name: text(&row, 2)?.to_owned(),
            kind,
            persistence: match letter(&row, 4)? {
                'u' => Persistence::Unlogged,
                't' => Persistence::Temporary,
                _ => Persistence::Permanent,
            },
            columns,
            distribution,
            by_default: flag(&row, 17)?,
            view_definition: optional(&row, 5)?
                .map(|_| definition(definitions, Place::Rule(number(&row, 5)?)))
                .transpose()?
                .map(|sql| taken.statement(sql.trim_end().trim_end_matches(';'))),
            hides_operator: taken.0.hiding.contains(&oid),
            is_barrier: flag(&row, 6)?,
            check_option: flag(&row, 16)?,
            other_unique,
            exclusions: exclusions(optional(&row, 18)?)?,
            unique_keys,
            foreign_keys: foreign_keys
                .remove(&oid)
                .unwrap_or_default()
                .iter()
                .map(foreign_key)
                .collect::<Result<_>>()?,
            parents: numbers(optional(&row, 7)?)?,
            is_partition: flag(&row, 8)?,
            has_children: flag(&row, 9)?,
            has_triggers: flag(&row, 10)?,
            has_other_triggers: flag(&row, 21)?,
            captured: captured.remove(&oid).unwrap_or_default().iter().map(captured_trigger).collect::<Result<_>>()?,
            rules: rules
                .remove(&oid)
                .unwrap_or_default()
                .iter()
                .map(|row| rule(row, taken, definitions))
                .collect::<Result<_>>()?,
            code: code.remove(&oid).map(|rows| called(&rows)).transpose()?,
            rows: number::<f64>(&row, 11)?.max(0.0),
        });
    }
    Ok(builder.build())
}

fn relation_kind(letter: char) -> Result<RelationKind> {
    Ok(match letter {
        'r' => RelationKind::Table,
        'p' => RelationKind::PartitionedTable,
        'v' => RelationKind::View,
        'm' => RelationKind::MaterializedView,
        'S' => RelationKind::Sequence,
        'f' => RelationKind::ForeignTable,
        'c' => RelationKind::Composite,
        other => return Err(PgError::internal(format!("unknown kind of relation \"{other}\""))),
    })
}

fn column(row: &Row, taken: Qualifier<'_>, definitions: &HashMap<Place, String>) -> Result<Column> {
    let default = match optional(row, 14)? {
        Some(_) => Some(definition(definitions, Place::Generated(number(row, 14)?))?),
        None => optional(row, 7)?,
    };
    let generated = match (letter(row, 8)?, letter(row, 9)?) {
        ('s', _) => Generated::Stored,
        ('v', _) => Generated::Virtual,
        (_, 'a') => Generated::IdentityAlways,
        (_, 'd') => Generated::IdentityByDefault,
        _ => Generated::No,
    };
    Ok(Column {
        number: number(row, 1)?,
        name: text(row, 2)?.to_owned(),
        type_oid: number(row, 3)?,
        type_modifier: number(row, 4)?,
        type_name: taken.type_name(text(row, 5)?),
        not_null: flag(row, 6)?,
        default: default.map(|default| taken.expression(default)),
        generated,
        default_is_stable: flag(row, 10)?,
        deterministic: flag(row, 11)?,
        default_collation: flag(row, 12)?,
        bytewise: flag(row, 13)?,
    })
}

fn unique_key(row: &Row) -> Result<UniqueKey> {
    Ok(UniqueKey { name: text(row, 1)?.to_owned(), columns: numbers(optional(row, 2)?)?, primary: flag(row, 3)? })
}

/// What keeps columns unique together, and the columns of what says less.
fn unique_indexes(rows: &[Row]) -> Result<(Vec<UniqueKey>, Vec<Vec<AttNum>>)> {
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    for row in rows {
        match flag(row, 4)? {
            true => keys.push(unique_key(row)?),
            false => others.push(numbers(optional(row, 2)?)?),
        }
    }
    Ok((keys, others))
}

fn foreign_key(row: &Row) -> Result<ForeignKey> {
    Ok(ForeignKey {
        name: text(row, 1)?.to_owned(),
        columns: numbers(optional(row, 2)?)?,
        referenced: number(row, 3)?,
        referenced_columns: numbers(optional(row, 4)?)?,
        cascades: flag(row, 5)?,
        resets: numbers(optional(row, 6)?)?,
        acts: flag(row, 7)?,
        on_delete: letter(row, 8)?,
        on_update: letter(row, 9)?,
    })
}

fn captured_trigger(row: &Row) -> Result<Captured> {
    Ok(Captured {
        name: text(row, 1)?.to_owned(),
        kind: number(row, 2)?,
        columns: numbers(optional(row, 5)?)?,
        has_transition_table: flag(row, 3)?,
        is_enabled: flag(row, 4)?,
        function: number(row, 6)?,
    })
}

/// Definition of a rule, or of the view whose rule it is.
fn definition(definitions: &HashMap<Place, String>, place: Place) -> Result<&str> {
    let found = definitions.get(&place).map(String::as_str);
    found.ok_or_else(|| PgError::internal("a rule or a generated column was dropped while the catalog was read"))
}

fn rule(row: &Row, taken: Qualifier<'_>, definitions: &HashMap<Place, String>) -> Result<Rule> {
    let event = match letter(row, 2)? {
        '2' => RuleEvent::Update,
        '3' => RuleEvent::Insert,
        '4' => RuleEvent::Delete,
        other => return Err(PgError::internal(format!("unknown event of a rule \"{other}\""))),
    };
    // On a view PostgreSQL never gets to see the statement.
    let state = match (letter(row, 3)?, letter(row, 5)?) {
        ('D', _) | ('R', 'v') => RuleState::Disabled,
        ('R', _) | (_, 'v') => RuleState::Enabled,
        _ => RuleState::OnNodes,
    };
    Ok(Rule {
        name: text(row, 1)?.to_owned(),
        event,
        state,
        definition: taken.statement(definition(definitions, Place::Rule(number(row, 4)?))?),
    })
}

fn called(rows: &[Row]) -> Result<Arc<Code>> {
    let mut code = Code::default();
    for row in rows {
        let list = match letter(row, 1)? {
            'c' => {
                code.captures = true;
                continue;
            }
            'k' => {
                code.moves = true;
                continue;
            }
            'm' => {
                code.makes_rows = true;
                continue;
            }
            't' => &mut code.triggers,
            'p' => &mut code.policies,
            'r' => &mut code.policy_tables,
            _ => &mut code.expressions,
        };
        list.push(number(row, 2)?);
    }
    Ok(Arc::new(code))
}

fn distribution(
    row: &Row,
    kind: RelationKind,
    columns: &[Column],
    domains: &HashMap<Oid, Oid>,
    builder: &Builder,
) -> Result<Distribution> {
    let Some(locator) = optional(row, 12)? else {
        return Ok(match kind {
            RelationKind::View => Distribution::View,
            _ => Distribution::CatalogNode,
        });
    };
    let nodes = || -> Result<Vec<NodeId>> { Ok(numbers(optional(row, 15)?)?.into_iter().map(NodeId).collect()) };
    let map_id = || -> Result<MapId> { Ok(MapId(number(row, 14)?)) };
    let map = |id: MapId| {
        builder.get_map(id).ok_or_else(|| PgError::internal(format!("Bucket map {} does not exist.", id.0)))
    };
    let key = numbers::<i16>(optional(row, 13)?)?
        .into_iter()
        .map(|attnum| {
            let column = columns.iter().find(|column| column.number == attnum);
            let mut type_oid = column.map_or(0, |column| column.type_oid);
            while let Some(base) = domains.get(&type_oid) {
                type_oid = *base;
            }
            let key_type = placement::KeyType::from_oid(type_oid).ok_or_else(|| {
                PgError::internal(format!("Distribution key column {attnum} is missing or has no hash."))
            })?;
            Ok(KeyColumn { number: attnum, key_type })
        })
        .collect::<Result<Vec<_>>>()?;
    match (locator, key.as_slice()) {
        ("R", _) => Ok(Distribution::Replicated { nodes: nodes()? }),
        ("N", _) => Ok(Distribution::RoundRobin { nodes: nodes()? }),
        ("H", [_, ..]) => Ok(Distribution::Hash { columns: key, map_id: map_id()?, map: map(map_id()?)? }),
        ("M", [column]) => Ok(Distribution::Modulo { column: *column, map_id: map_id()?, map: map(map_id()?)? }),
        _ => Err(PgError::internal("Its row in loxo.class makes no sense.")),
    }
}
