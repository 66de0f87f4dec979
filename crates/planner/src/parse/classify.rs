//! Raw statement → [`StatementKind`]. Every statement node of the grammar stands here; none falls through.

use pg_query::protobuf::{
    self, DeclareCursorStmt, ExplainStmt, FetchStmt, PrepareStmt, TransactionStmt, TransactionStmtKind,
    VariableSetKind, VariableSetStmt, a_const,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};
use plpgsql::tokens::{self as scan, Cursor, characters};

use super::*;
use crate::tree::{self, Get};

pub(super) fn classify(sql: &str, node: &NodeEnum) -> Result<StatementKind> {
    use StatementKind as Kind;
    Ok(match node {
        NodeEnum::SelectStmt(s) if s.into_clause.is_some() => Kind::CreateTableAs,
        NodeEnum::SelectStmt(_) => Kind::Select,
        NodeEnum::InsertStmt(_) => Kind::Insert,
        NodeEnum::UpdateStmt(_) => Kind::Update,
        NodeEnum::DeleteStmt(_) => Kind::Delete,
        NodeEnum::MergeStmt(_) => Kind::Merge,
        NodeEnum::CopyStmt(copy) => Kind::Copy(Box::new(copy::classify(sql, copy)?)),
        NodeEnum::ExplainStmt(explain) => Kind::Explain(Box::new(self::explain(sql, explain)?)),
        NodeEnum::TransactionStmt(t) => Kind::Transaction(transaction(t)?),
        NodeEnum::VariableSetStmt(set) => Kind::Set(variable(set)?),
        NodeEnum::VariableShowStmt(show) => Kind::Show(show.name.to_lowercase()),
        NodeEnum::ConstraintsSetStmt(_) => Kind::Constraints,
        NodeEnum::DiscardStmt(discard) => Kind::Discard(match discard.target() {
            protobuf::DiscardMode::DiscardAll => Discard::All,
            protobuf::DiscardMode::DiscardPlans => Discard::Plans,
            protobuf::DiscardMode::DiscardSequences => Discard::Sequences,
            protobuf::DiscardMode::DiscardTemp => Discard::Temp,
            _ => return Err(refused("this form of DISCARD")),
        }),
        NodeEnum::PrepareStmt(p) => prepare(sql, p)?,
        NodeEnum::ExecuteStmt(e) => Kind::Execute {
            name: e.name.clone(),
            arguments: e.params.iter().map(tree::deparse_expression).collect::<Result<_>>()?,
        },
        NodeEnum::DeallocateStmt(d) => Kind::Deallocate((!d.isall && !d.name.is_empty()).then(|| d.name.clone())),
        NodeEnum::DeclareCursorStmt(d) => Kind::DeclareCursor(Box::new(declare(sql, d)?)),
        NodeEnum::FetchStmt(f) => Kind::Fetch(fetch(f)?),
        NodeEnum::ClosePortalStmt(c) => Kind::CloseCursor((!c.portalname.is_empty()).then(|| c.portalname.clone())),
        NodeEnum::ListenStmt(l) => Kind::Listen(l.conditionname.clone()),
        NodeEnum::NotifyStmt(n) => Kind::Notify { channel: n.conditionname.clone(), payload: n.payload.clone() },
        NodeEnum::UnlistenStmt(u) => Kind::Unlisten((!u.conditionname.is_empty()).then(|| u.conditionname.clone())),
        NodeEnum::LockStmt(_) => Kind::Lock,
        NodeEnum::TruncateStmt(_) => Kind::Truncate,
        NodeEnum::VacuumStmt(_) => Kind::Vacuum,
        NodeEnum::ClusterStmt(_) | NodeEnum::ReindexStmt(_) | NodeEnum::CheckPointStmt(_) => Kind::Maintenance,
        NodeEnum::CreateStmt(_) | NodeEnum::CreateForeignTableStmt(_) => Kind::CreateTable,
        NodeEnum::CreateTableAsStmt(_) => Kind::CreateTableAs,
        NodeEnum::RefreshMatViewStmt(_) => Kind::RefreshMaterializedView,
        NodeEnum::AlterTableStmt(_) => Kind::AlterTable,
        NodeEnum::IndexStmt(_) => Kind::CreateIndex,
        NodeEnum::DropStmt(_) => Kind::Drop,
        NodeEnum::RenameStmt(_) => Kind::Rename,
        NodeEnum::DoStmt(_) => Kind::Do,
        NodeEnum::CallStmt(_) => Kind::Call,
        other if is_ddl(other) => Kind::Ddl,
        other => return Err(refused(&tree::kind_name(other))),
    })
}

/// The rest of PostgreSQL's DDL; `ddl` says for each what becomes of it.
fn is_ddl(node: &NodeEnum) -> bool {
    matches!(
        node,
        NodeEnum::AlterCollationStmt(_)
            | NodeEnum::AlterDatabaseRefreshCollStmt(_)
            | NodeEnum::AlterDatabaseSetStmt(_)
            | NodeEnum::AlterDatabaseStmt(_)
            | NodeEnum::AlterDefaultPrivilegesStmt(_)
            | NodeEnum::AlterDomainStmt(_)
            | NodeEnum::AlterEnumStmt(_)
            | NodeEnum::AlterEventTrigStmt(_)
            | NodeEnum::AlterExtensionContentsStmt(_)
            | NodeEnum::AlterExtensionStmt(_)
            | NodeEnum::AlterFdwStmt(_)
            | NodeEnum::AlterForeignServerStmt(_)
            | NodeEnum::AlterFunctionStmt(_)
            | NodeEnum::AlterObjectDependsStmt(_)
            | NodeEnum::AlterObjectSchemaStmt(_)
            | NodeEnum::AlterOpFamilyStmt(_)
            | NodeEnum::AlterOperatorStmt(_)
            | NodeEnum::AlterOwnerStmt(_)
            | NodeEnum::AlterPolicyStmt(_)
            | NodeEnum::AlterPublicationStmt(_)
            | NodeEnum::AlterRoleSetStmt(_)
            | NodeEnum::AlterRoleStmt(_)
            | NodeEnum::AlterSeqStmt(_)
            | NodeEnum::AlterStatsStmt(_)
            | NodeEnum::AlterSubscriptionStmt(_)
            | NodeEnum::AlterSystemStmt(_)
            | NodeEnum::AlterTableMoveAllStmt(_)
            | NodeEnum::AlterTableSpaceOptionsStmt(_)
            | NodeEnum::AlterTsconfigurationStmt(_)
            | NodeEnum::AlterTsdictionaryStmt(_)
            | NodeEnum::AlterTypeStmt(_)
            | NodeEnum::AlterUserMappingStmt(_)
            | NodeEnum::CommentStmt(_)
            | NodeEnum::CompositeTypeStmt(_)
            | NodeEnum::CreateAmStmt(_)
            | NodeEnum::CreateCastStmt(_)
            | NodeEnum::CreateConversionStmt(_)
            | NodeEnum::CreateDomainStmt(_)
            | NodeEnum::CreateEnumStmt(_)
            | NodeEnum::CreateEventTrigStmt(_)
            | NodeEnum::CreateExtensionStmt(_)
            | NodeEnum::CreateFdwStmt(_)
            | NodeEnum::CreateForeignServerStmt(_)
            | NodeEnum::CreateFunctionStmt(_)
            | NodeEnum::CreateOpClassStmt(_)
            | NodeEnum::CreateOpFamilyStmt(_)
            | NodeEnum::CreatePlangStmt(_)
            | NodeEnum::CreatePolicyStmt(_)
            | NodeEnum::CreatePublicationStmt(_)
            | NodeEnum::CreateRangeStmt(_)
            | NodeEnum::CreateRoleStmt(_)
            | NodeEnum::CreateSchemaStmt(_)
            | NodeEnum::CreateSeqStmt(_)
            | NodeEnum::CreateStatsStmt(_)
            | NodeEnum::CreateSubscriptionStmt(_)
            | NodeEnum::CreateTableSpaceStmt(_)
            | NodeEnum::CreateTransformStmt(_)
            | NodeEnum::CreateTrigStmt(_)
            | NodeEnum::CreateUserMappingStmt(_)
            | NodeEnum::CreatedbStmt(_)
            | NodeEnum::DefineStmt(_)
            | NodeEnum::DropOwnedStmt(_)
            | NodeEnum::DropRoleStmt(_)
            | NodeEnum::DropSubscriptionStmt(_)
            | NodeEnum::DropTableSpaceStmt(_)
            | NodeEnum::DropUserMappingStmt(_)
            | NodeEnum::DropdbStmt(_)
            | NodeEnum::GrantRoleStmt(_)
            | NodeEnum::GrantStmt(_)
            | NodeEnum::ImportForeignSchemaStmt(_)
            | NodeEnum::LoadStmt(_)
            | NodeEnum::ReassignOwnedStmt(_)
            | NodeEnum::ReplicaIdentityStmt(_)
            | NodeEnum::RuleStmt(_)
            | NodeEnum::SecLabelStmt(_)
            | NodeEnum::ViewStmt(_)
    )
}

fn refused(what: &str) -> PgError {
    PgError::unsupported(what).hint("Send it to a datanode with EXECUTE DIRECT if you know what you do.")
}

fn transaction(t: &TransactionStmt) -> Result<Transaction> {
    let name = t.savepoint_name.clone();
    let gid = t.gid.clone();
    Ok(match t.kind() {
        TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => {
            Transaction::Begin(modes(&t.options)?)
        }
        TransactionStmtKind::TransStmtCommit => Transaction::Commit { chain: t.chain },
        TransactionStmtKind::TransStmtRollback => Transaction::Rollback { chain: t.chain },
        TransactionStmtKind::TransStmtSavepoint => Transaction::Savepoint(name),
        TransactionStmtKind::TransStmtRelease => Transaction::Release(name),
        TransactionStmtKind::TransStmtRollbackTo => Transaction::RollbackTo(name),
        TransactionStmtKind::TransStmtPrepare => Transaction::Prepare(gid),
        TransactionStmtKind::TransStmtCommitPrepared => Transaction::CommitPrepared(gid),
        TransactionStmtKind::TransStmtRollbackPrepared => Transaction::RollbackPrepared(gid),
        TransactionStmtKind::Undefined => return Err(refused("this transaction statement")),
    })
}

fn modes(options: &[Node]) -> Result<TransactionModes> {
    let mut modes = TransactionModes::default();
    for option in tree::options(options) {
        let value = value_text(option.arg.as_deref());
        let on = value.as_deref() == Some("1") || value.as_deref() == Some("true");
        match option.defname.as_str() {
            "transaction_isolation" => modes.isolation = value,
            "transaction_read_only" => modes.read_only = Some(on),
            "transaction_deferrable" => modes.deferrable = Some(on),
            other => return Err(refused(&format!("transaction mode {other}"))),
        }
    }
    Ok(modes)
}

fn variable(set: &VariableSetStmt) -> Result<SetStatement> {
    let name = set.name.to_lowercase();
    let values = || set.args.iter().map(argument).collect::<Result<Vec<String>>>();
    Ok(match set.kind() {
        VariableSetKind::VarSetValue => SetStatement::Value { name, values: values()?, local: set.is_local },
        VariableSetKind::VarSetDefault => SetStatement::Default { name, local: set.is_local },
        VariableSetKind::VarReset => SetStatement::Reset(name),
        VariableSetKind::VarResetAll => SetStatement::ResetAll,
        VariableSetKind::VarSetMulti => match set.name.as_str() {
            "TRANSACTION" => SetStatement::Transaction(modes(&set.args)?),
            "SESSION CHARACTERISTICS" => SetStatement::SessionCharacteristics(modes(&set.args)?),
            "TRANSACTION SNAPSHOT" => SetStatement::Snapshot(values()?.pop().unwrap_or_default()),
            other => return Err(refused(&format!("SET {other}"))),
        },
        VariableSetKind::VarSetCurrent | VariableSetKind::Undefined => return Err(refused("SET … FROM CURRENT")),
    })
}

/// A SET argument as text; `INTERVAL '1' HOUR` and the like stay SQL.
fn argument(node: &Node) -> Result<String> {
    value_text(Some(node)).map_or_else(|| tree::deparse_expression(node), Ok)
}

/// A constant or name as text.
pub(super) fn value_text(node: Option<&Node>) -> Option<String> {
    match node?.node.as_ref()? {
        NodeEnum::String(s) => Some(s.sval.clone()),
        NodeEnum::Integer(i) => Some(i.ival.to_string()),
        NodeEnum::Float(f) => Some(f.fval.clone()),
        NodeEnum::Boolean(b) => Some(b.boolval.to_string()),
        NodeEnum::AConst(c) => match c.val.as_ref()? {
            a_const::Val::Ival(i) => Some(i.ival.to_string()),
            a_const::Val::Fval(f) => Some(f.fval.clone()),
            a_const::Val::Boolval(b) => Some(b.boolval.to_string()),
            a_const::Val::Sval(s) => Some(s.sval.clone()),
            a_const::Val::Bsval(b) => Some(b.bsval.clone()),
        },
        NodeEnum::TypeName(t) => tree::last_name(&t.names).map(str::to_owned),
        _ => None,
    }
}

/// A statement inside another, with its exact text from `start` on.
pub(super) fn inner(sql: &str, range: std::ops::Range<usize>, node: Option<&Node>) -> Result<Statement> {
    let tree = node.and_then(|n| n.node.clone()).ok_or_else(|| PgError::internal("a statement without a body"))?;
    let mut statement = build(sql[range.clone()].trim_end(), tree)?;
    statement.offset = characters(sql, range.start);
    Ok(statement)
}

/// Postgres-XL's options that show or hide the nodes are left out: a plan over several nodes always says which they are.
fn explain(sql: &str, explain: &ExplainStmt) -> Result<ExplainStatement> {
    let tokens = scan::tokens(sql).ok_or_else(|| PgError::internal("EXPLAIN cannot be scanned"))?;
    let mut cursor = Cursor::new(sql, &tokens);
    cursor.expect("explain")?;
    if !explain.options.is_empty() && cursor.peek().is_some_and(|t| t.is_char('(')) {
        skip_parentheses(&mut cursor)?;
    } else {
        while cursor.accept("analyze") || cursor.accept("analyse") || cursor.accept("verbose") {}
    }
    let start = cursor.peek().map(|t| t.start).ok_or_else(|| cursor.error())?;
    let options: Vec<(String, Option<String>)> = tree::options(&explain.options)
        .map(|d| (d.defname.to_lowercase(), value_text(d.arg.as_deref())))
        .filter(|(name, _)| !["nodes", "num_nodes"].contains(&name.as_str()))
        .collect();
    let analyze =
        options.iter().rev().find(|(name, _)| name == "analyze" || name == "analyse").is_some_and(|(_, value)| {
            !matches!(value.as_deref().map(str::to_lowercase).as_deref(), Some("false" | "off" | "0"))
        });
    Ok(ExplainStatement { options, analyze, inner: inner(sql, start..sql.len(), explain.query.as_deref())? })
}

/// Moves past a parenthesised group.
pub(super) fn skip_parentheses(cursor: &mut Cursor<'_, '_>) -> Result<()> {
    cursor.expect_char('(')?;
    let mut depth = 1;
    while depth > 0 {
        let token = cursor.peek().ok_or_else(|| cursor.error())?;
        depth += i32::from(token.is_char('(')) - i32::from(token.is_char(')'));
        cursor.at += 1;
    }
    Ok(())
}

fn prepare(sql: &str, prepare: &PrepareStmt) -> Result<StatementKind> {
    let tokens = scan::tokens(sql).ok_or_else(|| PgError::internal("PREPARE cannot be scanned"))?;
    let mut cursor = Cursor::new(sql, &tokens);
    cursor.expect("prepare")?;
    cursor.at += 1;
    if cursor.peek().is_some_and(|t| t.is_char('(')) {
        skip_parentheses(&mut cursor)?;
    }
    cursor.expect("as")?;
    let start = cursor.peek().map(|t| t.start).ok_or_else(|| cursor.error())?;
    let of_type = |of: &Node| tree::deparse_type(of.get().ok_or_else(|| refused("this type"))?);
    let types = prepare.argtypes.iter().map(of_type).collect::<Result<_>>()?;
    let inner = Box::new(inner(sql, start..sql.len(), prepare.query.as_deref())?);
    Ok(StatementKind::Prepare { name: prepare.name.clone(), types, inner })
}

fn declare(sql: &str, declare: &DeclareCursorStmt) -> Result<DeclareCursor> {
    const BINARY: i32 = 1;
    const SCROLL: i32 = 2;
    const NO_SCROLL: i32 = 4;
    const HOLD: i32 = 32;
    let tokens = scan::tokens(sql).ok_or_else(|| PgError::internal("DECLARE cannot be scanned"))?;
    let mut cursor = Cursor::new(sql, &tokens);
    cursor.expect("declare")?;
    cursor.at += 1;
    while !cursor.accept("for") {
        cursor.peek().ok_or_else(|| cursor.error())?;
        cursor.at += 1;
    }
    let start = cursor.peek().map(|t| t.start).ok_or_else(|| cursor.error())?;
    Ok(DeclareCursor {
        name: declare.portalname.clone(),
        binary: declare.options & BINARY != 0,
        scroll: match declare.options & (SCROLL | NO_SCROLL) {
            SCROLL => Some(true),
            NO_SCROLL => Some(false),
            _ => None,
        },
        hold: declare.options & HOLD != 0,
        inner: inner(sql, start..sql.len(), declare.query.as_deref())?,
    })
}

fn fetch(fetch: &FetchStmt) -> Result<Fetch> {
    let direction = match fetch.direction() {
        protobuf::FetchDirection::FetchForward => FetchDirection::Forward,
        protobuf::FetchDirection::FetchBackward => FetchDirection::Backward,
        protobuf::FetchDirection::FetchAbsolute => FetchDirection::Absolute,
        protobuf::FetchDirection::FetchRelative => FetchDirection::Relative,
        protobuf::FetchDirection::Undefined => return Err(refused("this form of FETCH")),
    };
    Ok(Fetch { cursor: fetch.portalname.clone(), is_move: fetch.ismove, direction, count: fetch.how_many })
}
