//! The types that DDL names or changes.

use pg_query::protobuf::{CreateStmt, List, ObjectType, ObjectWithArgs, PartitionBoundSpec, TypeName};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::get::Get;
use super::walk::{Ref, Walk};

/// Options that are types. The grammar has bare words in others as types, too.
const OF_A_TYPE: [&str; 8] = ["stype", "mstype", "basetype", "leftarg", "rightarg", "subtype", "element", "like"];

/// The types that DDL names.
pub fn types_in(node: &NodeEnum) -> Result<Vec<TypeName>> {
    let mut types = Types::default();
    types.of(node)?;
    Ok(types.found)
}

#[derive(Default)]
struct Types {
    found: Vec<TypeName>,
}

impl Types {
    fn nodes<'n>(&mut self, nodes: impl IntoIterator<Item = &'n Node>) -> Result<()> {
        nodes.into_iter().filter_map(|node| node.node.as_ref()).try_for_each(|node| self.of(node))
    }

    fn part(&mut self, node: Option<&Node>) -> Result<()> {
        self.nodes(node)
    }

    fn arguments(&mut self, function: Option<&ObjectWithArgs>) -> Result<()> {
        function.map_or(Ok(()), |function| self.nodes(&function.objargs))
    }

    fn bound(&mut self, bound: Option<&PartitionBoundSpec>) -> Result<()> {
        let Some(bound) = bound else { return Ok(()) };
        self.nodes(bound.listdatums.iter().chain(&bound.lowerdatums).chain(&bound.upperdatums))
    }

    /// What the walk knows is left to it; the rest of these has no types but where they are looked for.
    fn of(&mut self, node: &NodeEnum) -> Result<()> {
        match node {
            NodeEnum::List(list) => self.nodes(&list.items),
            NodeEnum::DefElem(option) => match option.arg.as_deref().and_then(|arg| arg.get::<TypeName>()) {
                Some(_) if !OF_A_TYPE.contains(&option.defname.as_str()) => Ok(()),
                _ => self.part(option.arg.as_deref()),
            },
            NodeEnum::ColumnDef(column) => {
                self.found.extend(column.type_name.clone());
                self.nodes(column.raw_default.as_deref().into_iter().chain(&column.constraints))
            }
            NodeEnum::Constraint(constraint) => {
                let expressions = [constraint.raw_expr.as_deref(), constraint.where_clause.as_deref()];
                self.nodes(expressions.into_iter().flatten().chain(&constraint.exclusions))
            }
            NodeEnum::CreateStmt(create) => self.table(create),
            NodeEnum::CreateForeignTableStmt(create) => create.base_stmt.as_ref().map_or(Ok(()), |of| self.table(of)),
            NodeEnum::PartitionElem(key) => self.part(key.expr.as_deref()),
            NodeEnum::PartitionCmd(command) => self.bound(command.bound.as_ref()),
            NodeEnum::AlterTableStmt(alter) => self.nodes(&alter.cmds),
            NodeEnum::AlterTableCmd(command) => self.part(command.def.as_deref()),
            NodeEnum::CreateDomainStmt(domain) => {
                self.found.extend(domain.type_name.clone());
                self.nodes(&domain.constraints)
            }
            NodeEnum::AlterDomainStmt(domain) => self.part(domain.def.as_deref()),
            NodeEnum::CompositeTypeStmt(composite) => self.nodes(&composite.coldeflist),
            NodeEnum::CreateRangeStmt(range) => self.nodes(&range.params),
            NodeEnum::IndexStmt(index) => self.nodes(index.index_params.iter().chain(index.where_clause.as_deref())),
            NodeEnum::CreateStatsStmt(statistics) => self.nodes(&statistics.exprs),
            NodeEnum::StatsElem(element) => self.part(element.expr.as_deref()),
            NodeEnum::ViewStmt(view) => self.part(view.query.as_deref()),
            NodeEnum::CreateTrigStmt(trigger) => self.part(trigger.when_clause.as_deref()),
            NodeEnum::RuleStmt(rule) => self.nodes(rule.where_clause.as_deref().into_iter().chain(&rule.actions)),
            NodeEnum::CreatePolicyStmt(policy) => {
                self.nodes(policy.qual.as_deref().into_iter().chain(policy.with_check.as_deref()))
            }
            NodeEnum::AlterPolicyStmt(policy) => {
                self.nodes(policy.qual.as_deref().into_iter().chain(policy.with_check.as_deref()))
            }
            NodeEnum::CreateFunctionStmt(function) => {
                self.found.extend(function.return_type.clone());
                let rest = function.options.iter().chain(function.sql_body.as_deref());
                self.nodes(function.parameters.iter().chain(rest))
            }
            NodeEnum::FunctionParameter(parameter) => {
                self.found.extend(parameter.arg_type.clone());
                self.part(parameter.defexpr.as_deref())
            }
            NodeEnum::ReturnStmt(result) => self.part(result.returnval.as_deref()),
            NodeEnum::DefineStmt(define) => self.nodes(define.args.iter().chain(&define.definition)),
            NodeEnum::CreateCastStmt(cast) => {
                self.found.extend(cast.sourcetype.iter().chain(&cast.targettype).cloned());
                self.arguments(cast.func.as_ref())
            }
            NodeEnum::CreateTransformStmt(transform) => {
                self.found.extend(transform.type_name.clone());
                self.arguments(transform.fromsql.as_ref())?;
                self.arguments(transform.tosql.as_ref())
            }
            NodeEnum::CreateOpClassStmt(class) => {
                self.found.extend(class.datatype.clone());
                self.nodes(&class.items)
            }
            NodeEnum::AlterOpFamilyStmt(family) => self.nodes(&family.items),
            NodeEnum::CreateOpClassItem(item) => {
                self.found.extend(item.storedtype.clone());
                self.arguments(item.name.as_ref())?;
                self.nodes(&item.class_args)
            }
            NodeEnum::ObjectWithArgs(function) => self.arguments(Some(function)),
            NodeEnum::AlterFunctionStmt(alter) => self.arguments(alter.func.as_ref()),
            NodeEnum::AlterOperatorStmt(alter) => self.arguments(alter.opername.as_ref()),
            NodeEnum::DropStmt(drop) => self.nodes(&drop.objects),
            NodeEnum::GrantStmt(grant) => self.nodes(&grant.objects),
            NodeEnum::CommentStmt(comment) => self.part(comment.object.as_deref()),
            NodeEnum::SecLabelStmt(label) => self.part(label.object.as_deref()),
            NodeEnum::RenameStmt(rename) => self.part(rename.object.as_deref()),
            NodeEnum::AlterOwnerStmt(alter) => self.part(alter.object.as_deref()),
            NodeEnum::AlterObjectSchemaStmt(alter) => self.part(alter.object.as_deref()),
            NodeEnum::AlterObjectDependsStmt(alter) => self.part(alter.object.as_deref()),
            node if Ref::of(node).is_some() => node.walk(&mut |part| {
                if let Ref::TypeName(of) = part {
                    self.found.push(of.clone());
                }
                Ok(true)
            }),
            _ => Ok(()),
        }
    }

    fn table(&mut self, create: &CreateStmt) -> Result<()> {
        self.found.extend(create.of_typename.clone());
        self.bound(create.partbound.as_ref())?;
        let key = create.partspec.iter().flat_map(|key| &key.part_params);
        self.nodes(create.table_elts.iter().chain(&create.constraints).chain(key))
    }
}

/// The types that a statement changes, where it says so by a list of names.
pub fn types_altered(node: &NodeEnum) -> Vec<&[Node]> {
    match node {
        NodeEnum::AlterEnumStmt(alter) => vec![&alter.type_name],
        NodeEnum::AlterDomainStmt(alter) => vec![&alter.type_name],
        NodeEnum::AlterTypeStmt(alter) => vec![&alter.type_name],
        NodeEnum::RenameStmt(rename) => named(rename.rename_type(), rename.object.as_deref()),
        NodeEnum::AlterOwnerStmt(alter) => named(alter.object_type(), alter.object.as_deref()),
        NodeEnum::AlterObjectSchemaStmt(alter) => named(alter.object_type(), alter.object.as_deref()),
        NodeEnum::GrantStmt(grant) => named(grant.objtype(), &grant.objects),
        _ => Vec::new(),
    }
}

fn named<'n>(kind: ObjectType, objects: impl IntoIterator<Item = &'n Node>) -> Vec<&'n [Node]> {
    use ObjectType::{ObjectDomain, ObjectDomconstraint, ObjectType as ObjectOfType};
    if ![ObjectDomain, ObjectDomconstraint, ObjectOfType].contains(&kind) {
        return Vec::new();
    }
    objects.into_iter().filter_map(|object| object.get::<List>().map(|names| names.items.as_slice())).collect()
}
