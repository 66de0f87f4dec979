//! Reads the catalog off the primary datanode.
//!
//! All queries run in one REPEATABLE READ transaction, so the snapshot is consistent. The search path is PostgreSQL's own schema:
//! every name PostgreSQL prints is qualified.
//!
//! A load under a new gtm epoch must not miss a schema change whose COMMIT is still on its way to the datanode (its
//! coordinator may be dead already, so nobody will announce it again). A committing schema change therefore has
//! `loxo.committing` locked on the primary datanode (`loxo.lock_for_commit()`), and a load waits for that before it takes its
//! snapshot. Nobody but a superuser can lock the table, so no user can hold up loads or schema changes by it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{
    AttNum, Builder, Builtins, Captured, Catalog, Code, Column, Distribution, FIRST_USER_OID, ForeignKey, Function,
    Generated, Group, KeyColumn, MapId, Node, NodeId, Oid, Persistence, Relation, RelationKind, Rule, RuleEvent,
    RuleState, UniqueKey, UserType,
};
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use placement::BucketMap;
use planner::LookAlikes;
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
fn numbers<T: std::str::FromStr>(list: Option<&str>) -> Result<Vec<T>> {
    list.unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit() && c != '-')
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().map_err(|_| PgError::internal(format!("\"{part}\" is not a number"))))
        .collect()
}

/// The version once no schema change is being committed. The last row of the answer has it.
pub(crate) const SETTLED_VERSION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     LOCK TABLE loxo.committing IN SHARE MODE; SELECT version FROM loxo.catalog_version; COMMIT";

/// How the queries below are to run. What they are estimated at grows with the number of tables, far beyond what they touch:
/// compiling them, or the hash tables that PostgreSQL lays out for as many rows, would take ten times as long as running them.
const FOR_LOADING: &str =
    "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL jit = off; SET LOCAL work_mem = '4MB'";

/// LOCK takes no snapshot, the SELECT behind it does: none is older than the lock. Then the lock has done its work and is given
/// back. Held longer it would deadlock with a schema change, which has locked tables that are looked at below.
///
/// Printing a view's definition waits for whoever has locked the view's tables. That may be a session that waits for this
/// very load: a circle which nobody sees, for the connection is not that session's.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SAVEPOINT loxo_settled; \
     LOCK TABLE loxo.committing IN SHARE MODE; SELECT 1; ROLLBACK TO SAVEPOINT loxo_settled; RELEASE loxo_settled; \
     SET LOCAL lock_timeout = '30s'";

/// Reads everything but what is `known`. `own_version`: the connection has a transaction open whose own changes are to be seen, under this version.
pub(crate) async fn load(
    connection: &mut Connection,
    own_version: Option<u64>,
    known: &OnceCell<Arc<Builtins>>,
) -> Result<Catalog> {
    let in_transaction = own_version.is_some();
    if in_transaction {
        connection.execute(&format!("SAVEPOINT loxo_load; {FOR_LOADING}")).await?;
    } else {
        let begun = connection.execute(&format!("{BEGIN}; {FOR_LOADING}")).await;
        if begun.is_err() && connection.is_settled() {
            connection.execute("ROLLBACK").await?;
        }
        begun.map_err(explain)?;
    }
    let result = read_all(connection, own_version, known).await;
    let end = if in_transaction { "ROLLBACK TO loxo_load; RELEASE loxo_load" } else { "ROLLBACK" };
    if result.is_err() {
        let ended = connection.execute(end).await;
        debug_assert!(ended.is_ok() || connection.is_broken());
    }
    match result {
        Ok(catalog) => connection.execute(end).await.map(|_| catalog),
        Err(error) => Err(explain(error)),
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
                .detail("A transaction holds a table locked that a view reads, or that has a rule.")
                .hint("End the transaction with the ACCESS EXCLUSIVE lock: see pg_locks on the primary datanode.")
        }
        _ => error,
    }
}

fn other_layout() -> PgError {
    PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the datanodes' metadata are of another version of loxo")
        .hint("Use the loxo that made the cluster; to move on, dump with pg_dump through it and restore into a new cluster.")
}

async fn read_all(
    connection: &mut Connection,
    own_version: Option<u64>,
    known: &OnceCell<Arc<Builtins>>,
) -> Result<Catalog> {
    let version = connection.query_rows(VERSION).await?;
    let row = version.first().ok_or_else(|| PgError::internal("loxo.catalog_version is empty"))?;
    if number::<i32>(row, 3)? != LAYOUT {
        return Err(other_layout());
    }
    let mut builder = Builder::new(own_version.map_or_else(|| number(row, 0), Ok)?, number(row, 1)?);
    builder.defers_constraints(flag(row, 2)?).withholds_temp(flag(row, 4)?);
    builder.builtins(known.get_or_try_init(|| read_builtins(connection)).await?.clone());
    read_nodes(connection, &mut builder).await?;
    for row in connection.query_rows(SCHEMAS).await? {
        builder.schema(text(&row, 0)?);
    }
    let mut taken = LookAlikes::default();
    for row in connection.query_rows(LOOK_ALIKES).await? {
        taken.add(letter(&row, 0)?, text(&row, 1)?);
    }
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
            has_casts: flag(&row, 9)?,
        });
    }
    for row in connection.query_rows(FUNCTIONS).await? {
        builder.function(Function {
            oid: number(&row, 0)?,
            schema: text(&row, 1)?.to_owned(),
            name: text(&row, 2)?.to_owned(),
            language: text(&row, 3)?.to_owned(),
            volatility: letter(&row, 4)?,
            kind: letter(&row, 5)?,
            is_public: flag(&row, 7)?,
            definition: function_definition(optional(&row, 6)?.unwrap_or_default(), &taken),
            parts: numbers(optional(&row, 8)?)?,
            is_parallel_safe: flag(&row, 9)?,
            is_trigger: flag(&row, 10)?,
            sets_path: flag(&row, 11)?,
            arguments: (number(&row, 12)?, optional(&row, 13)?.map(|_| number(&row, 13)).transpose()?),
            leavings: Default::default(),
        });
    }
    for row in connection.query_rows(UNNAMED_FUNCTIONS).await? {
        builder.unnamed_function(number(&row, 0)?);
    }
    for row in connection.query_rows(OPERATORS).await? {
        builder.operator(text(&row, 0)?, number(&row, 1)?);
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
    read_relations(connection, builder, &taken).await
}

/// The body of BEGIN ATOMIC is bound when the function is made, all others whenever they run.
fn function_definition(definition: &str, taken: &LookAlikes) -> String {
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
            _ => builder,
        };
    }
    for row in connection.query_rows("SELECT name, members FROM loxo.node_group ORDER BY name").await? {
        let members = numbers(optional(&row, 1)?)?.into_iter().map(NodeId).collect();
        builder.group(Group { name: text(&row, 0)?.to_owned(), members });
    }
    for row in connection.query_rows("SELECT id, nodes FROM loxo.bucket_map").await? {
        let slots: Vec<u16> = numbers(optional(&row, 1)?)?;
        let map = BucketMap::from_slice(&slots).ok_or_else(|| PgError::internal("a bucket map has a wrong length"))?;
        builder.map(MapId(number(&row, 0)?), map);
    }
    Ok(())
}

/// Rows of a query by the object id in their first column.
fn by_relation(rows: Vec<Row>) -> Result<HashMap<Oid, Vec<Row>>> {
    let mut map: HashMap<Oid, Vec<Row>> = HashMap::new();
    for row in rows {
        map.entry(number(&row, 0)?).or_default().push(row);
    }
    Ok(map)
}

async fn read_relations(connection: &mut Connection, mut builder: Builder, taken: &LookAlikes) -> Result<Catalog> {
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
    for row in connection.query_rows(RELATIONS).await? {
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
            .map(|row| column(row, taken))
            .collect::<Result<Vec<Column>>>()?;
        let kind = relation_kind(letter(&row, 3)?)?;
        let (unique_keys, other_unique) = unique_indexes(&unique.remove(&oid).unwrap_or_default())?;
        // One table that is not as we left it must not take all others along.
        let distribution = distribution(&row, kind, &columns, &domains, &builder)
            .unwrap_or_else(|error| Distribution::Broken(error.message().into_owned()));
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
            view_definition: optional(&row, 5)?.map(|sql| taken.statement(sql.trim_end().trim_end_matches(';'))),
            is_barrier: flag(&row, 6)?,
            check_option: flag(&row, 16)?,
            other_unique,
            has_exclusion: flag(&row, 18)?,
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
            rules: rules.remove(&oid).unwrap_or_default().iter().map(|row| rule(row, taken)).collect::<Result<_>>()?,
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

fn column(row: &Row, taken: &LookAlikes) -> Result<Column> {
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
        default: optional(row, 7)?.map(|default| taken.expression(default)),
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

fn rule(row: &Row, taken: &LookAlikes) -> Result<Rule> {
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
    Ok(Rule { name: text(row, 1)?.to_owned(), event, state, definition: taken.statement(text(row, 4)?) })
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

/// First object id a user can own, for a look at OIDs that differ between nodes.
pub(crate) fn is_node_specific(oid: Oid) -> bool {
    oid >= FIRST_USER_OID
}

/// Do values of the type mean the same on every node in their binary form? Names of objects are numbers there, and some types
/// have no such form.
pub(crate) fn travels_in_binary(oid: Oid) -> bool {
    const ACLITEM: [Oid; 2] = [1033, 1034];
    // regproc, regprocedure to regtype, regconfig, regdictionary, regnamespace, regrole, regcollation, and their arrays.
    const OBJECTS: [Oid; 22] = [
        24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191, 1008, 2207, 2208, 2209, 2210, 2211, 3735, 3770,
        4090, 4097, 4192,
    ];
    !(is_node_specific(oid) || ACLITEM.contains(&oid) || OBJECTS.contains(&oid))
}

const VERSION: &str = "SELECT version, current_setting('server_version_num'), \
     EXISTS (SELECT FROM pg_trigger WHERE tginitdeferred), (SELECT layout FROM loxo.identity), \
     NOT has_database_privilege('public', current_database(), 'TEMP') FROM loxo.catalog_version";

const SCHEMAS: &str = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'";

const TYPES: &str = "SELECT t.oid, n.nspname, t.typname, t.typtype, \
     CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END, t.typcategory = 'A', t.typtypmod, \
     coalesce(pg_get_expr(t.typdefaultbin, 0), quote_literal(t.typdefault) || '::' || format_type(t.oid, NULL)), \
     (SELECT array_agg(coalesce(o.oprcode::oid, d.refobjid)) FROM pg_constraint c \
       JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid \
         AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384 \
       LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid WHERE c.contypid = t.oid), \
     EXISTS (SELECT FROM pg_cast c WHERE t.oid IN (c.castsource, c.casttarget) AND c.castfunc >= 16384) \
     FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
     WHERE t.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)'";

/// Names of PostgreSQL's own functions, operators and types that users have given to theirs.
const LOOK_ALIKES: &str = "SELECT 'f', proname FROM pg_proc WHERE pronamespace <> 'loxo'::regnamespace AND oid >= 16384 \
       INTERSECT SELECT 'f', proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace \
     UNION (SELECT 'o', oprname FROM pg_operator WHERE oid >= 16384 \
       INTERSECT SELECT 'o', oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace) \
     UNION (SELECT 't', typname FROM pg_type WHERE oid >= 16384 \
       INTERSECT SELECT 't', typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace)";

const DOMAIN_BASES: &str = "SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'";

const FUNCTIONS: &str = "SELECT p.oid, n.nspname, p.proname, l.lanname, p.provolatile, p.prokind, \
     CASE WHEN l.lanname = 'c' THEN p.probin WHEN p.prokind IN ('f', 'p') AND l.lanname <> 'internal' \
       THEN pg_get_functiondef(p.oid) END, \
     p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE'), \
     (SELECT array_agg(part) FROM pg_aggregate g, unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, \
       aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]) part WHERE g.aggfnoid = p.oid AND part >= 16384), \
     p.proparallel = 's', p.prorettype = 'trigger'::regtype, \
     EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c LIKE 'search\\_path=%'), \
     CASE WHEN p.prokind = 'a' THEN 0 ELSE a.most - greatest(p.pronargdefaults, (p.provariadic <> 0)::int) END, \
     CASE WHEN p.prokind <> 'a' AND p.provariadic = 0 THEN a.most END \
     FROM pg_proc p CROSS JOIN LATERAL (\
       SELECT CASE p.prokind WHEN 'p' THEN coalesce(cardinality(p.proallargtypes), p.pronargs) ELSE p.pronargs END) a(most) JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang \
     WHERE p.oid >= 16384 AND n.nspname <> 'loxo'";

/// What uses a function and is neither another function nor a table's, nor runs in DDL alone: a statement may call it without a
/// name that says so. Those in C are what types are made of; the parts of aggregates come with these.
const UNNAMED_FUNCTIONS: &str = "SELECT DISTINCT d.refobjid FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid \
     JOIN pg_language l ON l.oid = p.prolang \
     WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384 AND l.lanname NOT IN ('c', 'internal') \
     AND p.pronamespace <> 'loxo'::regnamespace \
     AND d.classid NOT IN ('pg_proc'::regclass, 'pg_trigger'::regclass, 'pg_attrdef'::regclass, 'pg_policy'::regclass, \
       'pg_rewrite'::regclass, 'pg_class'::regclass, 'pg_event_trigger'::regclass) \
     AND NOT (d.classid = 'pg_constraint'::regclass AND EXISTS ( \
       SELECT FROM pg_constraint c WHERE c.oid = d.objid AND c.conrelid <> 0))";

/// Operators whose function has a body that could read tables.
const OPERATORS: &str = "SELECT o.oprname, p.oid FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode \
     JOIN pg_language l ON l.oid = p.prolang WHERE o.oid >= 16384 AND l.lanname NOT IN ('c', 'internal')";

const SYSTEM_NAMES: &str = "SELECT c.relname FROM pg_class c JOIN pg_class s ON s.relname = c.relname \
     WHERE c.oid >= 16384 AND s.relnamespace = 'pg_catalog'::regnamespace AND c.relnamespace <> s.relnamespace";

/// See [`Builtins::from_lines`]. What is not IMMUTABLE in one variant is left out, and aggregates are.
const BUILTINS: &str = "SELECT string_agg(line, E'\n' ORDER BY line) FROM (\
     SELECT concat_ws(E'\t', 't', t.typname, t.oid, t.typcategory, CASE p.provolatile WHEN 'i' THEN 't' ELSE 'f' END, \
       t.oid = 'oid'::regtype OR p.provolatile <> 'i' AND EXISTS (SELECT FROM pg_cast c WHERE c.castsource = t.oid AND c.casttarget = 'oid'::regtype \
         AND c.castmethod = 'b')) COLLATE \"C\" AS line \
     FROM pg_type t JOIN pg_proc p ON p.oid = t.typinput WHERE t.oid < 16384 AND t.typnamespace = 'pg_catalog'::regnamespace \
       AND t.typtype = 'b' \
     UNION ALL SELECT concat_ws(E'\t', 'o', o.oprname, o.oprleft::oid, o.oprright::oid, o.oprresult::oid, \
       CASE p.provolatile WHEN 'i' THEN 't' ELSE 'f' END) \
     FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode WHERE o.oid < 16384 \
     UNION ALL SELECT concat_ws(E'\t', 'f', p.proname, p.oid, \
       concat(p.prokind, p.provolatile, p.proparallel, p.proretset, p.provariadic <> 0), p.prorettype::oid, p.proargtypes::text, \
       p.pronargdefaults, CASE WHEN a.aggfnoid IS NULL THEN '' ELSE concat_ws(' ', a.aggtransfn::oid, a.aggcombinefn::oid, \
         a.aggfinalfn::oid, a.aggtranstype::oid, (a.aggsortop <> 0)::int, (a.agginitval IS NULL)::int) END, \
       CASE l.lanname WHEN 'sql' THEN translate(coalesce(\
         'CREATE FUNCTION f() RETURNS void ' || pg_get_function_sqlbody(p.oid), p.prosrc), E'\t\n', '  ') ELSE '' END) \
     FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid \
     WHERE p.oid < 16384 AND p.pronamespace = 'pg_catalog'::regnamespace \
       AND NOT 'internal'::regtype = ANY (p.proargtypes) \
     UNION ALL SELECT concat_ws(E'\t', 'p', typname) FROM pg_type WHERE oid < 16384 AND typtype = 'p' \
     UNION ALL SELECT concat_ws(E'\t', 's', lower(name)) FROM pg_settings \
     WHERE context IN ('internal', 'postmaster', 'sighup')) AS x";

const OWN_OPERATORS: &str =
    "SELECT DISTINCT oprname FROM pg_operator WHERE oid >= 16384 AND oprleft < 16384 AND oprright < 16384";

const NONDETERMINISTIC_COLLATIONS: &str = "SELECT DISTINCT collname FROM pg_collation WHERE NOT collisdeterministic";

/// Relations of users: not ours, not PostgreSQL's own, not other sessions' temp tables.
const RELATIONS: &str = "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, \
     CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END, \
     c.relrowsecurity OR EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o \
       WHERE o.option_name = 'security_barrier' AND o.option_value::bool), \
     (SELECT array_agg(i.inhparent ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid), \
     c.relispartition, \
     c.relhassubclass AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid), \
     EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
       AND t.tgfoid NOT IN ('loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure)), \
     c.reltuples * CASE WHEN k.locator IN ('H', 'M', 'N') THEN (SELECT count(*) FROM loxo.node WHERE type = 'D') ELSE 1 END, \
     k.locator, k.key_columns, k.map_id, k.nodes, \
     coalesce(c.reloptions && ARRAY['check_option=local', 'check_option=cascaded'], false), coalesce(k.by_default, false), \
     EXISTS (SELECT FROM pg_constraint x WHERE x.conrelid = c.oid AND x.contype = 'x'), \
     EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attacl IS NOT NULL), \
     CASE WHEN c.relkind = 'v' AND NOT EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o \
       WHERE o.option_name = 'security_invoker' AND o.option_value::bool) THEN pg_get_userbyid(c.relowner) END, \
     EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal \
       AND t.tgfoid NOT IN ('loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure) AND (t.tgtype & 3 <> 3 OR NOT EXISTS ( \
         SELECT FROM pg_trigger p WHERE p.tgrelid = t.tgrelid AND p.tgfoid = 'loxo.capture()'::regprocedure \
         AND p.tgname IN (t.tgname, 'loxo:' || t.tgname)))) \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN loxo.class k ON k.relid = c.oid \
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c') \
     AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'loxo') AND n.nspname !~ '^pg_(toast|temp)'";

/// A column without a default has its type's, as in `build_column_default` (PostgreSQL's `rewriteHandler.c`).
const COLUMNS: &str = "SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod), \
     a.attnotnull, CASE WHEN d.adbin IS NOT NULL THEN pg_get_expr(d.adbin, d.adrelid) \
       ELSE coalesce(pg_get_expr(e.bin, 0), quote_literal(e.text) || '::' || format_type(a.atttypid, NULL)) END, \
     a.attgenerated, a.attidentity, \
     a.attidentity = '' AND (e.bin IS NULL OR NOT EXISTS (SELECT FROM regexp_matches(e.bin::text, 'funcid ([0-9]+)', 'g') m \
       JOIN pg_proc p ON p.oid = m[1]::oid WHERE p.provolatile = 'v') AND e.bin::text !~ 'NEXTVALUEEXPR'), \
     coalesce((SELECT collisdeterministic FROM pg_collation l WHERE l.oid = a.attcollation), true), \
     a.attcollation = 0 OR a.attcollation = (SELECT typcollation FROM pg_type t WHERE t.oid = a.atttypid), \
     a.attcollation = ANY (ARRAY(SELECT l.oid FROM pg_collation l JOIN pg_database b ON b.datname = current_database() \
       WHERE CASE WHEN l.collprovider = 'd' THEN b.datlocprovider ELSE l.collprovider END = 'b' \
       OR CASE WHEN l.collprovider = 'd' THEN b.datlocprovider ELSE l.collprovider END = 'c' \
       AND CASE WHEN l.collprovider = 'd' THEN b.datcollate ELSE l.collcollate END IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8'))) \
     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
     LEFT JOIN pg_type y ON y.oid = a.atttypid AND d.adbin IS NULL AND a.attgenerated = '' AND a.attidentity = '' \
     CROSS JOIN LATERAL (SELECT coalesce(d.adbin, y.typdefaultbin) AS bin, y.typdefault AS text) e \
     WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c') \
     AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'loxo') AND n.nspname !~ '^pg_(toast|temp)' \
     ORDER BY a.attrelid, a.attnum";

/// Columns count that the index keeps apart as their hash does: by plain equality, not by a collation or an operator class of
/// its own under which other values are equal. Last, whether that is all of the index.
const UNIQUE: &str = "SELECT i.indrelid, c.relname, k.columns, i.indisprimary, \
     i.indisvalid AND i.indpred IS NULL AND coalesce(cardinality(k.columns), 0) = i.indnkeyatts \
     FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid CROSS JOIN LATERAL ( \
       SELECT array_agg(i.indkey[p] ORDER BY p) AS columns FROM generate_series(0, i.indnkeyatts - 1) p \
       JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p] JOIN pg_opclass o ON o.oid = i.indclass[p] \
       WHERE (a.attcollation = i.indcollation[p] OR 2 = (SELECT count(*) FROM pg_collation l \
           WHERE l.oid IN (a.attcollation, i.indcollation[p]) AND l.collisdeterministic)) \
         AND (o.opcdefault OR EXISTS (SELECT FROM pg_amop e JOIN pg_amop f ON f.amopopr = e.amopopr AND f.amopstrategy = 3 \
           JOIN pg_opclass d ON d.opcfamily = f.amopfamily AND d.opcdefault AND d.opcmethod = o.opcmethod \
             AND d.opcintype = o.opcintype \
           WHERE e.amopfamily = o.opcfamily AND e.amopstrategy = 3 \
             AND e.amoplefttype = o.opcintype AND e.amoprighttype = o.opcintype))) k \
     WHERE i.indisunique AND i.indrelid >= 16384";

/// The triggers that the coordinator runs, and all of views.
const CAPTURED: &str = "SELECT t.tgrelid, t.tgname, t.tgtype, coalesce(t.tgoldtable, t.tgnewtable) IS NOT NULL, \
     c.tgenabled <> 'D', t.tgattr, t.tgfoid FROM pg_trigger t JOIN pg_trigger c ON c.tgrelid = t.tgrelid AND c.tgname = 'loxo:' || t.tgname \
     WHERE c.tgfoid = 'loxo.capture()'::regprocedure \
     UNION ALL SELECT t.tgrelid, t.tgname, t.tgtype, false, t.tgenabled <> 'D', t.tgattr, t.tgfoid FROM pg_trigger t \
     JOIN pg_class v ON v.oid = t.tgrelid WHERE v.relkind = 'v' AND NOT t.tgisinternal";

const RULES: &str = "SELECT r.ev_class, r.rulename, r.ev_type, r.ev_enabled, pg_get_ruledef(r.oid), c.relkind \
     FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE r.ev_type <> '1' AND c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_(toast|temp)' \
     ORDER BY r.ev_class, r.rulename";

/// User functions that a node calls by itself for the rows of a table: of `t`riggers, in `p`olicies, in other `e`xpressions;
/// what policies `r`ead; that there are `c`aptured triggers, others that may `m`ake other rows of those that come, and those that
/// tell of rows with another `k`ey.
/// A change of a table goes on to its children and along cascading foreign keys.
const CODE: &str = "WITH RECURSIVE used(classid, objid, function) AS (\
       SELECT classid, objid, refobjid FROM pg_depend WHERE refclassid = 'pg_proc'::regclass AND refobjid >= 16384 \
       UNION SELECT d.classid, d.objid, o.oprcode FROM pg_depend d JOIN pg_operator o ON o.oid = d.refobjid \
       WHERE d.refclassid = 'pg_operator'::regclass AND d.refobjid >= 16384 AND o.oprcode >= 16384), \
     of_type(type, function) AS (\
       SELECT c.contypid, u.function FROM used u JOIN pg_constraint c ON c.oid = u.objid \
       WHERE u.classid = 'pg_constraint'::regclass AND c.contypid <> 0 \
       UNION SELECT objid, function FROM used WHERE classid = 'pg_type'::regclass \
       UNION SELECT t.oid, o.function FROM of_type o JOIN pg_type t ON o.type IN (t.typbasetype, t.typelem)), \
     own(relid, kind, function) AS (\
       SELECT tgrelid, CASE tgfoid WHEN 'loxo.capture()'::regprocedure THEN 'c' WHEN 'loxo.tell_move()'::regprocedure THEN 'k' \
         ELSE 't' END, tgfoid FROM pg_trigger \
       WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgfoid >= 16384 AND tgfoid <> 'loxo.tell_row()'::regprocedure \
       UNION SELECT tgrelid, 'm', 0 FROM pg_trigger \
       WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 3 = 3 AND tgfoid <> 'loxo.capture()'::regprocedure \
       UNION SELECT t.tgrelid, 't', u.function FROM used u JOIN pg_trigger t ON t.oid = u.objid \
       WHERE u.classid = 'pg_trigger'::regclass \
       AND u.function NOT IN ('loxo.capture()'::regprocedure, 'loxo.tell_row()'::regprocedure, 'loxo.tell_move()'::regprocedure) \
       AND NOT t.tgisinternal AND t.tgenabled <> 'D' \
       UNION SELECT c.conrelid, 'e', u.function FROM used u JOIN pg_constraint c ON c.oid = u.objid \
       WHERE u.classid = 'pg_constraint'::regclass AND c.conrelid <> 0 \
       UNION SELECT d.adrelid, 'e', u.function FROM used u JOIN pg_attrdef d ON d.oid = u.objid \
       WHERE u.classid = 'pg_attrdef'::regclass \
       UNION SELECT coalesce(i.indrelid, u.objid), 'e', u.function FROM used u \
       LEFT JOIN pg_index i ON i.indexrelid = u.objid WHERE u.classid = 'pg_class'::regclass \
       UNION SELECT a.attrelid, 'e', o.function FROM of_type o JOIN pg_attribute a ON a.atttypid = o.type \
       UNION SELECT p.polrelid, 'p', u.function FROM used u JOIN pg_policy p ON p.oid = u.objid \
       JOIN pg_class c ON c.oid = p.polrelid WHERE u.classid = 'pg_policy'::regclass AND c.relrowsecurity \
       UNION SELECT p.polrelid, 'r', d.refobjid FROM pg_depend d JOIN pg_policy p ON p.oid = d.objid \
       JOIN pg_class c ON c.oid = p.polrelid WHERE d.classid = 'pg_policy'::regclass \
       AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> p.polrelid AND c.relrowsecurity), \
     next(relid, reached) AS (\
       SELECT inhparent, inhrelid FROM pg_inherits UNION SELECT confrelid, conrelid FROM pg_constraint \
       WHERE contype = 'f' AND (confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'))), \
     called(relid, kind, function) AS (\
       SELECT relid, kind, function FROM own \
       UNION SELECT n.relid, c.kind, c.function FROM called c JOIN next n ON n.reached = c.relid WHERE c.kind NOT IN ('p', 'r')) \
     SELECT relid, kind, function::oid FROM called";

const FOREIGN_KEYS: &str = "SELECT conrelid, conname, conkey, confrelid, confkey, confupdtype = 'c', \
     CASE WHEN confupdtype IN ('n', 'd') THEN conkey WHEN confdeltype IN ('n', 'd') THEN coalesce(confdelsetcols, conkey) END, \
     confdeltype IN ('c', 'n', 'd') OR confupdtype IN ('c', 'n', 'd'), confdeltype, confupdtype \
     FROM pg_constraint WHERE contype = 'f' AND conrelid >= 16384";
