//! Names → relations, and small questions that every planning step asks.

use std::cell::Cell;
use std::sync::Arc;

use catalog::{
    BuiltinFunction, BuiltinType, Catalog, Distribution, Function, Meaning, NodeId, Oid, Relation, RelationKind,
};
use pg_query::Node;
use pg_query::protobuf::{FuncCall, RangeVar, TypeName};
use pgerror::{PgError, Result, SqlState};

use crate::parse::{Analysis, Statement, Uses};
use crate::plan::{Plan, Redistribute};
use crate::session::SessionFacts;
use crate::tree::{self, Ask, Ref, Walk};

/// Tables that have to give way to a statement, as [`Plan::AutoReplicate`] has them. No part of a plan can be taken for them.
pub(crate) type AutoReplicate = Cell<Option<Vec<Redistribute>>>;

/// The planner as its parts call it: a statement is made of statements, and a view is looked at like one. Parts know of what is
/// above them by this only.
pub(crate) trait Planner: Sync {
    /// Plans a statement; it may turn out that tables have to give way to it.
    fn plan(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan>;
    /// Plans a statement as it stands: no table gives way to it but to that which it is a part of.
    fn plan_as_it_stands(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan>;
    /// Plans a statement inside of another: what is run ahead of a statement is run ahead of the other.
    fn plan_part(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan>;
    /// The plan of a statement with calls that the coordinator makes; `None` if it has none.
    fn plan_in_steps(&self, ctx: &Context<'_>, statement: &Statement) -> Option<Plan>;
    /// Plans a statement that all bodies and views have been put into.
    fn plan_inlined(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan>;
    /// The view as a table: no node shows a row that another one shows, or all show the same.
    fn view_as_table(&self, ctx: &Context<'_>, view: &Relation) -> Option<Arc<Relation>>;
    /// Does a temporary view show rows of tables that other nodes have too, or call functions that may read such tables?
    fn view_needs_others(&self, ctx: &Context<'_>, view: &Relation) -> Result<bool>;
}

/// What planning one statement looks at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub planner: &'a dyn Planner,
    pub catalog: &'a Catalog,
    pub session: &'a SessionFacts<'a>,
    /// What PostgreSQL has found out about the statement; without it names are looked up by the session's search path.
    pub analysis: Option<&'a Analysis>,
    /// Tables that exchanges of the plan being made will have filled.
    pub exchanged: &'a [Arc<Relation>],
    /// The statement is a part of one that changes tables: all that it reads is copied first, also what the home node has,
    /// into tables whose names begin so.
    pub copies: Option<&'a str>,
    /// Replicated tables that are changed on their first copy alone: all of their rows are taken to be there. None: it is to be
    /// found out whether there are any ([`first_copy`](crate::first_copy)).
    pub on_first: Option<&'a [Oid]>,
    /// Where it is noted which tables are to lose their key before the statement is planned again; `None`: none may.
    pub auto_replicates: Option<&'a AutoReplicate>,
    /// All that is planned are parts of a statement whose rows do not depend on the order in which nodes find them.
    pub is_orderless: bool,
}

/// Where a name in FROM or after INSERT INTO leads.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// A table whose rows are partitioned or replicated by us.
    Distributed(Arc<Relation>),
    /// A view of the user's.
    View(Arc<Relation>),
    /// Only the home node has it: system catalogs, temp tables, sequences, what we do not know.
    Home(Option<Arc<Relation>>),
}

impl Named {
    /// The table or view, if it is known.
    pub fn relation(&self) -> Option<&Arc<Relation>> {
        match self {
            Named::Distributed(relation) | Named::View(relation) => Some(relation),
            Named::Home(relation) => relation.as_ref(),
        }
    }
}

impl<'a> Context<'a> {
    /// The context of a whole statement.
    pub fn new(
        planner: &'a dyn Planner,
        catalog: &'a Catalog,
        session: &'a SessionFacts<'a>,
        analysis: Option<&'a Analysis>,
    ) -> Self {
        Context {
            planner,
            catalog,
            session,
            analysis,
            exchanged: &[],
            copies: None,
            on_first: None,
            auto_replicates: None,
            is_orderless: false,
        }
    }

    /// For a plan of its own of the same statement.
    pub fn afresh(&self) -> Self {
        Context { exchanged: &[], copies: None, on_first: None, auto_replicates: None, ..*self }
    }

    /// For the body of a function, which PostgreSQL's analysis of the statement does not look into.
    pub fn of_body(&self) -> Self {
        Context { analysis: None, ..*self }
    }

    /// The functions of the user's that a call may mean; none if it is one of PostgreSQL's own. More than one only where
    /// overloads take as many arguments.
    pub fn user_functions(&self, call: &FuncCall) -> Vec<&'a Function> {
        let named = self.named_functions(&call.funcname);
        match named.len() {
            0 | 1 => named,
            _ => named.into_iter().filter(|function| function.takes(call.args.len())).collect(),
        }
    }

    /// Functions of the session in `pg_temp` that a call may mean.
    pub fn temporary_functions(&self, call: &FuncCall) -> Vec<&'a Function> {
        let (schema, name) = tree::qualified(&call.funcname);
        let is_meant = |function: &&Function| {
            schema.is_some_and(tree::is_temporary_schema) && function.name == name && function.takes(call.args.len())
        };
        self.session.temp_functions.iter().filter(is_meant).collect()
    }

    /// [`Context::user_functions`] without regard to arguments.
    pub fn named_functions(&self, names: &[Node]) -> Vec<&'a Function> {
        let (schema, name) = tree::qualified(names);
        let is_meant = |function: &&Function| match schema {
            Some(schema) => function.schema == schema,
            None => self.analysis.is_none(),
        };
        let named: Vec<&Function> = self.catalog.functions(name).iter().filter(is_meant).collect();
        self.used(named, |function, uses| {
            uses.functions.contains(&function.oid) || self.is_of_a_default(uses, function.oid)
        })
    }

    /// Is it one of PostgreSQL's own functions that such a name means?
    pub fn is_builtin(&self, names: &[Node]) -> bool {
        self.named_functions(names).is_empty()
    }

    /// Does the name say that it is one of PostgreSQL's own, or leave it open?
    pub fn is_of_postgresql(&self, names: &[Node]) -> bool {
        tree::qualified(names).0.is_none_or(|schema| schema == "pg_catalog")
    }

    /// PostgreSQL's own functions that a call may mean; none if it is one of the user's.
    pub fn builtin_functions(&self, call: &FuncCall) -> Vec<&'a BuiltinFunction> {
        if !self.is_of_postgresql(&call.funcname) {
            return Vec::new();
        }
        let (_, name) = tree::qualified(&call.funcname);
        let all = self.catalog.builtins().functions(name);
        let count = call.args.len() + if call.agg_within_group { call.agg_order.len() } else { 0 };
        let mut named: Vec<&BuiltinFunction> = all.iter().filter(|function| function.takes(count)).collect();
        if named.is_empty() || call.func_variadic {
            named = all.iter().collect();
        }
        self.used(named, |function, uses| uses.called.as_ref().is_some_and(|called| called.contains(&function.oid)))
    }

    /// Those that the statement uses; all if that is not known of any.
    fn used<F>(&self, named: Vec<&'a F>, is_used: impl Fn(&F, &Uses) -> bool) -> Vec<&'a F> {
        let Some(uses) = self.uses_of_all() else { return named };
        let used: Vec<&F> = named.iter().copied().filter(|function| is_used(function, uses)).collect();
        if used.is_empty() { named } else { used }
    }

    /// Does a call surely mean one of PostgreSQL's own functions with this meaning?
    pub fn calls(&self, call: &FuncCall, meaning: Meaning) -> bool {
        let functions = self.builtin_functions(call);
        let is_meant = |function: &&BuiltinFunction| function.meaning == Some(meaning);
        self.is_builtin(&call.funcname) && !functions.is_empty() && functions.iter().all(is_meant)
    }

    /// Is it a pseudo-type that a type's name means, as `anyelement` and `record`?
    pub fn is_pseudo_type(&self, of: &TypeName) -> bool {
        let (schema, name) = tree::qualified(&of.names);
        schema.is_none_or(|schema| schema == "pg_catalog") && self.catalog.builtins().is_pseudo_type(name)
    }

    /// The type of PostgreSQL's own that a name means, if it surely means one, and no array.
    pub fn builtin_type(&self, of: &TypeName) -> Option<BuiltinType> {
        let (schema, name) = tree::qualified(&of.names);
        let is_own = match schema {
            Some(schema) => schema == "pg_catalog",
            None => self.analysis.is_some() || !self.catalog.user_types().any(|known| known.name == name),
        };
        (is_own && !of.setof && of.array_bounds.is_empty()).then(|| self.catalog.builtins().type_named(name)).flatten()
    }

    /// May a default that is put into the statement call the function?
    fn is_of_a_default(&self, uses: &Uses, function: Oid) -> bool {
        let tables = uses.relations.iter().filter_map(|oid| self.catalog.relation_by_oid(*oid));
        let mut codes = tables.filter_map(|table| table.code.as_deref());
        codes.any(|code| code.expressions.contains(&function))
    }

    /// What the statement uses, if nothing comes into it that PostgreSQL has not analysed with it: what views are made of.
    fn uses_of_all(&self) -> Option<&'a Uses> {
        let uses = self.analysis?.uses();
        let is_table =
            |oid: &Oid| self.catalog.relation_by_oid(*oid).is_some_and(|relation| relation.kind != RelationKind::View);
        uses.relations.iter().all(is_table).then_some(uses)
    }

    /// May a bare operator be another than PostgreSQL's own?
    pub fn has_user_operator(&self, name: &str) -> bool {
        self.analysis.is_none() && self.catalog.has_user_operator(name)
    }

    /// May the statement use a user's operator of this name, also where none is written (`USING`)?
    pub fn may_use_user_operator(&self, name: &str) -> bool {
        let look_alikes = self.catalog.look_alikes();
        // Nobody knows what temporary views read.
        let in_views = |uses: &Uses| {
            self.session.temp_views.iter().any(|view| uses.relations.contains(&view.oid))
                || uses.relations.iter().any(|view| look_alikes.views.contains(view))
        };
        let in_statement = |uses: &Uses| !uses.operators.is_empty() || in_views(uses);
        look_alikes.operators.contains(name) && self.analysis.is_none_or(|analysis| in_statement(analysis.uses()))
    }

    /// Name of a gathered table.
    pub fn input_table(&self, what: impl std::fmt::Display) -> String {
        format!("{}{what}", self.copies.unwrap_or("loxo_"))
    }

    /// Resolves a name as PostgreSQL's search path does. The statement was accepted by PostgreSQL, so a name we do not
    /// know is something that only the home node has.
    pub fn resolve(&self, name: &RangeVar) -> Result<Named> {
        let named = self.resolve_name(name)?;
        match &named {
            Named::View(view) if name.relpersistence == tree::AS_TABLE => {
                Ok(self.planner.view_as_table(self, view).map_or(named, Named::Distributed))
            }
            _ => Ok(named),
        }
    }

    /// Does a name of a table or view in a tree lead to such a thing?
    pub fn names(&self, tree: &impl Walk, is_such: impl Fn(&Named) -> bool) -> Result<bool> {
        tree.try_any(|node| {
            if let Ref::RangeVar(name) = node { self.resolve(name).map(|named| is_such(&named)) } else { Ok(false) }
        })
    }

    /// The distributed table that a name means.
    pub fn distributed(&self, name: &RangeVar) -> Result<Option<Arc<Relation>>> {
        Ok(if let Named::Distributed(table) = self.resolve(name)? { Some(table) } else { None })
    }

    /// Those that a tree names.
    pub fn tables(&self, tree: &impl Walk) -> Result<Vec<Arc<Relation>>> {
        tree.tables()?.into_iter().filter_map(|name| self.distributed(name).transpose()).collect()
    }

    fn resolve_name(&self, name: &RangeVar) -> Result<Named> {
        let schema = name.schemaname.as_str();
        if name.relname == "pg_prepared_statements" && matches!(schema, "" | "pg_catalog") {
            return Err(PgError::unsupported("the view pg_prepared_statements")
                .hint("Prepared statements are the coordinator's; a datanode does not know the session's names."));
        }
        if let Some(table) = self.exchanged.iter().find(|table| table.name == name.relname && table.schema == schema) {
            return self.named(table);
        }
        // What is temporary bears its bare name in a definition, too.
        if name.relpersistence == tree::WITH_ITEM && !self.session.temp_relations.contains(&name.relname) {
            return Ok(Named::Home(None));
        }
        if schema.is_empty() {
            // What PostgreSQL leaves bare is temporary, or of pg_catalog.
            if self.analysis.is_some() || self.session.temp_relations.contains(&name.relname) {
                return self.temporary(&name.relname);
            }
            let found = self.session.search_path.iter().find_map(|schema| self.catalog.relation(schema, &name.relname));
            // Where pg_catalog stands in the search path we do not know.
            if found.is_some() && self.catalog.is_system_name(&name.relname) {
                return Err(PgError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("the unqualified name \"{}\" may mean a system catalog", name.relname),
                )
                .hint("Put the schema before the table's name."));
            }
            return found.map_or(Ok(Named::Home(None)), |relation| self.named(relation));
        }
        if schema == "pg_temp" {
            return self.temporary(&name.relname);
        }
        self.catalog.relation(schema, &name.relname).map_or(Ok(Named::Home(None)), |relation| self.named(relation))
    }

    /// A type in `pg_temp`, which the home node alone has, in words.
    ///
    /// # Errors
    /// 0A000 if PostgreSQL, which has read the statement, may have left out the schema of one that a bare name does not mean. A
    /// statement without any type but PostgreSQL's own means none of them.
    pub fn temporary_type(&self, of: &TypeName) -> Result<Option<String>> {
        let (schema, name) = tree::qualified(&of.names);
        let known = || self.session.temp_types.iter().find(|known| known.name == name);
        let is_temporary = match schema {
            Some(schema) => tree::is_temporary_schema(schema),
            None => match known() {
                Some(known)
                    if known.is_hidden && self.analysis.is_some_and(|analysis| !analysis.uses().types.is_empty()) =>
                {
                    return Err(PgError::unsupported(format!(
                        "the temporary type \"{name}\", which another of its name may hide,"
                    ))
                    .hint("Leave pg_temp out of search_path, or give it another name."));
                }
                known => known.is_some_and(|known| !known.is_hidden),
            },
        };
        Ok(is_temporary.then(|| format!("the temporary type \"{name}\"")))
    }

    /// A view of PostgreSQL's in which each datanode has rows of its own?
    pub fn is_counted_view(&self, name: &RangeVar) -> bool {
        let is_users = |name: &String| self.catalog.is_system_name(name) || self.session.temp_relations.contains(name);
        let is_bare = || name.schemaname.is_empty() && !is_users(&name.relname);
        (name.schemaname == "pg_catalog" || is_bare()) && self.catalog.builtins().is_counted_view(&name.relname)
    }

    /// Does the name mean something in `pg_temp`?
    pub fn is_temporary(&self, name: &RangeVar) -> bool {
        match name.schemaname.as_str() {
            "" => self.analysis.is_some() || self.session.temp_relations.contains(&name.relname),
            schema => tree::is_temporary_schema(schema),
        }
    }

    /// Something of the session's own. A view of what other nodes have too is one like any other.
    fn temporary(&self, name: &str) -> Result<Named> {
        match self.session.temp_views.iter().find(|view| view.name == name) {
            Some(view) if self.planner.view_needs_others(self, view)? => Ok(Named::View(view.clone())),
            _ => Ok(Named::Home(None)),
        }
    }

    /// A table as the statement is to take it: see [`Context::on_first`].
    pub fn as_taken(&self, relation: &Arc<Relation>) -> Arc<Relation> {
        match &relation.distribution {
            Distribution::Replicated { nodes }
                if self.on_first.is_some_and(|tables| tables.contains(&relation.oid)) =>
            {
                let nodes = self.primary_first(nodes.clone()).into_iter().take(1).collect();
                Arc::new(Relation { distribution: Distribution::Replicated { nodes }, ..relation.as_ref().clone() })
            }
            _ => relation.clone(),
        }
    }

    fn named(&self, relation: &Arc<Relation>) -> Result<Named> {
        let relation = &self.as_taken(relation);
        Ok(match &relation.distribution {
            Distribution::Hash { .. }
            | Distribution::Modulo { .. }
            | Distribution::RoundRobin { .. }
            | Distribution::Replicated { .. } => Named::Distributed(relation.clone()),
            Distribution::View => Named::View(relation.clone()),
            Distribution::CatalogNode | Distribution::Temporary => Named::Home(Some(relation.clone())),
            Distribution::Broken(why) => {
                let message = format!("table \"{}\" cannot be used", relation.name);
                return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .detail(why.clone())
                    .hint("It was changed on a datanode, not through a coordinator: DROP TABLE removes it."));
            }
        })
    }

    /// A table and all below it: partitions, children, and theirs.
    pub fn family(&self, table: &Arc<Relation>) -> Vec<Arc<Relation>> {
        let mut family = vec![table.clone()];
        let mut at = 0;
        while let Some(parent) = family.get(at).cloned() {
            let is_new = |table: &&Arc<Relation>| family.iter().all(|known| known.oid != table.oid);
            let is_child = |table: &&Arc<Relation>| parent.has_children && table.parents.contains(&parent.oid);
            let children: Vec<_> = self.catalog.relations().filter(is_child).filter(is_new).cloned().collect();
            family.extend(children);
            at += 1;
        }
        family
    }

    /// The session's home node.
    pub fn home(&self) -> NodeId {
        self.session.home
    }

    /// Nodes with the home node first, if it is one of them.
    pub fn home_first(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        if let Some(at) = nodes.iter().position(|n| *n == self.home()) {
            nodes[..=at].rotate_right(1);
        }
        nodes
    }

    /// Nodes with the primary datanode first, if it is one of them: everyone locks replicated rows in the same order.
    pub fn primary_first(&self, mut nodes: Vec<NodeId>) -> Vec<NodeId> {
        let primary = self.catalog.primary();
        if let Some(at) = nodes.iter().position(|n| *n == primary) {
            nodes[..=at].rotate_right(1);
        }
        nodes
    }
}

/// The common nodes of two lists, in the order of the first.
pub(crate) fn intersect(a: &[NodeId], b: &[NodeId]) -> Vec<NodeId> {
    a.iter().copied().filter(|n| b.contains(n)).collect()
}
