//! ADD COLUMN with a default that must be evaluated in one place for the rows that are there: a sequence, or what gives another
//! value each time in a replicated table.
//!
//! ```text
//!  the column, bare ─ UPDATE of all rows, as any other ─ its default, NOT NULL and constraints
//! ```

use catalog::{Relation, RuleEvent, quote_identifier, quote_literal};
use pg_query::protobuf::{
    AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, DropBehavior, ObjectType,
    RangeVar,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::plan::{DdlPlan, Fill};
use crate::tree::{self, Get, Syntax};

/// Where the rows' values come from.
pub(super) enum Source<'c> {
    /// `serial` and its kin: the integer type.
    Serial(&'static str),
    /// GENERATED … AS IDENTITY.
    Identity(&'c Constraint),
    /// DEFAULT.
    Default(&'c Node),
}

/// The type behind `serial` and its kin.
pub(super) fn serial_type(column: &ColumnDef) -> Option<&'static str> {
    Some(match tree::last_name(&column.type_name.as_ref()?.names)? {
        "serial" | "serial4" => "integer",
        "bigserial" | "serial8" => "bigint",
        "smallserial" | "serial2" => "smallint",
        _ => return None,
    })
}

/// Makes the plan one of several steps.
pub(super) fn fill(
    ctx: &Context<'_>,
    relation: &Relation,
    column: &ColumnDef,
    source: &Source<'_>,
    plan: &mut DdlPlan,
) -> Result<()> {
    let refuse = |why: &str| {
        Err(PgError::unsupported(format!("ADD COLUMN \"{}\" with values for the rows that are there", column.colname))
            .detail(why)
            .hint("Add the column without a default, SET DEFAULT, then UPDATE the rows."))
    };
    let is_ruled = relation.rules.iter().any(|rule| rule.event == RuleEvent::Update);
    if is_ruled || relation.is_barrier || relation.has_children {
        return refuse("The table has UPDATE rules, row level security or children, and its rows have to be updated.");
    }
    let table = relation.qualified_name();
    let name = quote_identifier(&column.colname);
    let alter = |commands| alter_table(tree::table(&relation.schema, &relation.name, None), commands);
    let (bare, value, mut later) = match source {
        Source::Serial(integer) => {
            let Some(sequence) = sequence_name(ctx, relation, &column.colname) else {
                return refuse("Its sequence would get a name that is too long.");
            };
            let sequence = format!("{}.{}", quote_identifier(&relation.schema), quote_identifier(&sequence));
            let value = format!("pg_catalog.nextval({}::pg_catalog.regclass)", quote_literal(&sequence));
            let bare = format!(
                "ALTER TABLE {table} ADD COLUMN {name} {integer} NOT NULL DEFAULT 0; \
                 CREATE SEQUENCE {sequence} AS {integer} OWNED BY {table}.{name}; \
                 ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {value}"
            );
            (bare, value, Vec::new())
        }
        Source::Identity(identity) => {
            let always = identity.generated_when == "a";
            let by_default = Constraint { generated_when: "d".to_owned(), ..(*identity).clone() };
            let of = AlterTableCmd {
                name: column.colname.clone(),
                def: by_default.into_box(),
                ..command(AlterTableType::AtAddIdentity)
            };
            let bare = format!(
                "ALTER TABLE {table} ADD COLUMN {name} {} NOT NULL DEFAULT 0; \
                 ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT; {}",
                type_of(column)?,
                alter(vec![of])?
            );
            let always = always.then(|| format!("ALTER TABLE {table} ALTER COLUMN {name} SET GENERATED ALWAYS"));
            (bare, crate::dml::next_identity(&table, &column.colname), always.into_iter().collect())
        }
        Source::Default(default) => {
            let value = tree::deparse_expression(default)?;
            let bare = format!("ALTER TABLE {table} ADD COLUMN {name} {}", type_of(column)?);
            let set = format!("ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {value}");
            (bare, value, vec![set])
        }
    };
    for constraint in column.constraints.iter().filter_map(|node| node.get::<Constraint>()) {
        match constraint.contype() {
            ConstrType::ConstrDefault | ConstrType::ConstrIdentity | ConstrType::ConstrNull => {}
            ConstrType::ConstrNotnull => later.push(format!("ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL")),
            ConstrType::ConstrUnique
            | ConstrType::ConstrPrimary
            | ConstrType::ConstrCheck
            | ConstrType::ConstrForeign => {
                let constraint = of_table(constraint, &column.colname);
                let add = AlterTableCmd { def: Some(Box::new(constraint)), ..command(AlterTableType::AtAddConstraint) };
                later.push(alter(vec![add])?);
            }
            _ => return refuse("It has a constraint of another kind than UNIQUE, CHECK, REFERENCES and NOT NULL."),
        }
    }
    plan.node_sql = bare;
    plan.follow_up = Some(format!("UPDATE {table} SET {name} = {value}"));
    plan.fill = Fill::Column { finish: later.join("; "), table };
    Ok(())
}

/// PostgreSQL's choice, `table_column_seq`; `None` where it would cut the name.
fn sequence_name(ctx: &Context<'_>, relation: &Relation, column: &str) -> Option<String> {
    const NAME_BYTES_MAX: usize = 63;
    let taken = |name: &String| ctx.catalog.relation(&relation.schema, name).is_some();
    let numbered = (0..).map(|number: usize| {
        let number = if number == 0 { String::new() } else { number.to_string() };
        format!("{}_{column}_seq{number}", relation.name)
    });
    numbered.into_iter().find(|name| !taken(name)).filter(|name| name.len() <= NAME_BYTES_MAX)
}

/// Type and collation as written.
fn type_of(column: &ColumnDef) -> Result<String> {
    let bare = ColumnDef { constraints: Vec::new(), ..column.clone() };
    let add = AlterTableCmd { def: bare.into_box(), ..command(AlterTableType::AtAddColumn) };
    let text = alter_table(tree::table("", "t", None), vec![add])?;
    let start = format!("ALTER TABLE t ADD COLUMN {} ", quote_identifier(&column.colname));
    let of = text.strip_prefix(start.as_str()).map(str::to_owned);
    of.ok_or_else(|| PgError::internal("a column definition that cannot be read back"))
}

/// A column's constraint as one of the table.
fn of_table(constraint: &Constraint, column: &str) -> Node {
    let mut constraint = constraint.clone();
    constraint.initially_valid = true;
    match constraint.contype() {
        ConstrType::ConstrUnique | ConstrType::ConstrPrimary => constraint.keys = vec![tree::string(column)],
        ConstrType::ConstrForeign => constraint.fk_attrs = vec![tree::string(column)],
        _ => {}
    }
    constraint.into_node()
}

fn command(kind: AlterTableType) -> AlterTableCmd {
    AlterTableCmd { subtype: kind as i32, behavior: DropBehavior::DropRestrict as i32, ..AlterTableCmd::default() }
}

fn alter_table(table: RangeVar, commands: Vec<AlterTableCmd>) -> Result<String> {
    tree::deparse(&NodeEnum::AlterTableStmt(AlterTableStmt {
        relation: Some(table),
        cmds: commands.into_iter().map(|command| command.into_node()).collect(),
        objtype: ObjectType::ObjectTable as i32,
        missing_ok: false,
    }))
}
