//! What the functions, casts and clauses of a statement need: may it run anywhere, on the home node only, or not at all?
//!
//! Built-in functions are sorted by [`builtins`](crate::facts::builtins); those of the user by their bodies, which are parsed and searched. A body that
//! touches a partitioned table would see one node's rows only, so it is refused, unless
//! [`inline`](crate::rewrite::inline) can put it into the statement.

use std::collections::HashSet;

use catalog::{BuiltinFunction, Distribution, FIRST_USER_OID, Function, Meaning, NodeId, Oid, meaning};
use pg_query::protobuf::{self, ColumnRef, FuncCall, SelectStmt, SqlValueFunctionOp};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named, intersect};
use crate::facts::builtins::{Class, class_of};
use crate::facts::{AT_HOME_HINT, FRAME_OF_ROWS, Facts};
use crate::facts::{clock, code, numbers, setting_calls::constant_name, sized::sized_table, values_drawn::of_sequence};
use crate::parse::bodies::{ends_transactions, statements_of, types_named};
use crate::parse::{asks_cluster, shape::is_moment, system_view};
use crate::row_locks;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Searches a whole statement.
pub(crate) fn facts(ctx: &Context<'_>, statement: &impl Walk) -> Result<Facts> {
    Search::new(ctx).whole(|search| {
        search.tree(statement, true)?;
        search.code_of_tables(statement)?;
        search.unnamed()
    })
}

/// What the body of one user function does, as [`Facts`]; `refused` says why it is not safe.
pub(crate) fn function_facts(ctx: &Context<'_>, function: &Function) -> Result<Facts> {
    Search::new(ctx).whole(|search| search.with_defaults(function))
}

/// [`function_facts`] of a function that the home node runs by itself: it may change what is on that node alone.
pub(crate) fn function_facts_at_home(ctx: &Context<'_>, function: &Function) -> Result<Facts> {
    Search { at_home: true, ..Search::new(ctx) }.whole(|search| search.with_defaults(function))
}

/// Facts of a function body that is not in the catalog yet (`DO`, `CREATE FUNCTION`).
pub(crate) fn body_facts(ctx: &Context<'_>, language: &str, definition: &str) -> Result<Facts> {
    Search::new(ctx).whole(|search| search.body("this code block", language, definition))
}

/// Columns that every table has without naming them.
pub(crate) const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

struct Search<'a> {
    ctx: Context<'a>,
    facts: Facts,
    /// Functions, and whether they were called under a search path of another, or by SECURITY DEFINER.
    visited: HashSet<(u32, bool, bool)>,
    /// Where `tableoid` stands in a cast to regclass.
    named: Vec<*const protobuf::ColumnRef>,
    /// The body that is searched has a search path of its own, or is called by such a one.
    has_path: bool,
    /// Some body sets the search path for what comes after it.
    sets_path: bool,
    /// The body that is searched is SECURITY DEFINER, or is called by such a one.
    is_definer: bool,
    /// Functions whose defaults have been looked at.
    given: HashSet<Oid>,
    /// Some body may have set it before a name is looked for.
    any_path: bool,
    /// A body, and a table that it reads without a schema, which is another under another path.
    reads_by_path: Option<(String, String)>,
    /// A body is searched, not the statement itself.
    is_in_body: bool,
    /// The home node runs the body as it stands.
    at_home: bool,
}

impl<'a> Search<'a> {
    fn new(ctx: &Context<'a>) -> Self {
        Self {
            ctx: *ctx,
            facts: Facts::default(),
            visited: HashSet::new(),
            named: Vec::new(),
            has_path: false,
            sets_path: false,
            is_definer: false,
            any_path: false,
            given: HashSet::new(),
            reads_by_path: None,
            is_in_body: false,
            at_home: false,
        }
    }
}

impl Search<'_> {
    /// All that is found. Where a body sets the search path, bare names may mean what is in any schema.
    fn whole(mut self, mut search: impl FnMut(&mut Self) -> Result<()>) -> Result<Facts> {
        search(&mut self)?;
        if self.sets_path {
            self = Search { any_path: true, at_home: self.at_home, sets_path: true, ..Search::new(&self.ctx) };
            search(&mut self)?;
        }
        if let Some((what, table)) = self.reads_by_path.take().filter(|_| self.sets_path) {
            self.refuse_path(&what, &table);
        }
        Ok(self.facts)
    }

    fn tree(&mut self, statement: &impl Walk, top: bool) -> Result<()> {
        let mut at_top = top;
        statement.walk(&mut |node| {
            self.node(node, std::mem::take(&mut at_top))?;
            Ok(true)
        })?;
        if self.facts.locking {
            self.facts.locked_copies.extend(row_locks::copies(&self.ctx, statement)?);
        }
        match self.ctx.analysis {
            Some(_) => Ok(()),
            None => self.attributes(statement),
        }
    }

    /// `x.f` may be `f(x)` where PostgreSQL has not written a call.
    fn attributes(&mut self, statement: &impl Walk) -> Result<()> {
        let names = statement.collect(|node| match node {
            Ref::ColumnRef(column) => column.fields.get(1..),
            Ref::AIndirection(part) => Some(part.indirection.as_slice()),
            _ => None,
        })?;
        let catalog = self.ctx.catalog;
        let functions = names.into_iter().flatten().filter_map(tree::text_of).flat_map(|name| catalog.functions(name));
        functions.filter(|function| function.takes(1)).try_for_each(|function| self.user_function(function))
    }

    /// Functions that the statement uses without naming them, by casts and domains.
    fn unnamed(&mut self) -> Result<()> {
        let Some(analysis) = self.ctx.analysis else { return Ok(()) };
        let used: Vec<u32> = analysis.uses().functions.iter().copied().collect();
        let mut temporary = self.ctx.session.temp_functions.iter().filter(|function| used.contains(&function.oid));
        temporary.try_for_each(|function| self.temporary_function(function))?;
        let mut used = self.ctx.catalog.functions_by_oid(&used).filter(|function| analysis.calls_unnamed(function));
        used.try_for_each(|function| self.user_function(function))?;
        let of_types = analysis.uses().types.iter().flat_map(|of| self.ctx.catalog.functions_of_type(*of));
        self.user_functions(&of_types.collect::<Vec<_>>())
    }

    /// What the nodes call by themselves when they read and change the statement's tables.
    fn code_of_tables(&mut self, statement: &impl Walk) -> Result<()> {
        statement.walk(&mut |node| {
            self.ctx.session.stop.check()?;
            let found = match node {
                Ref::RangeVar(name) => code::check_named(&self.ctx, name, code::check_read),
                _ => tree::changed(node).map_or(Ok(()), |name| {
                    let is_delete = matches!(node, Ref::DeleteStmt(_));
                    let check = if is_delete { code::check_delete } else { code::check_change };
                    code::check_named(&self.ctx, name, check).and_then(|()| code::check_temporary(&self.ctx, name))
                }),
            };
            if let Err(error) = found {
                self.facts.refused.get_or_insert(error);
            }
            Ok(true)
        })
    }

    fn node(&mut self, node: Ref<'_>, top: bool) -> Result<()> {
        self.ctx.session.stop.check()?;
        if tree::compares_unwritten(&node) && self.ctx.analysis.is_none_or(|of| !of.uses().operators.is_empty()) {
            let all = self.ctx.catalog.operator_functions("=").iter();
            let meant = all.filter(|(schema, _)| self.ctx.analysis.is_some() || self.may_mean(&[], schema));
            self.user_functions(&meant.map(|(_, function)| *function).collect::<Vec<_>>())?;
        }
        match node {
            Ref::FuncCall(call) => return self.call(call),
            Ref::SelectStmt(select) => {
                if !tree::is_unlimited(select) {
                    self.facts.order_sensitive = Some("LIMIT".to_owned());
                }
                if tree::has_distinct_on(select) {
                    self.facts.order_sensitive = Some("DISTINCT ON".to_owned());
                }
            }
            Ref::InsertStmt(_) | Ref::UpdateStmt(_) | Ref::DeleteStmt(_) | Ref::MergeStmt(_) if !top => {
                self.facts.modifying_cte = true;
            }
            Ref::JsonArrayAgg(_) => self.facts.order_sensitive = Some("JSON_ARRAYAGG".to_owned()),
            Ref::JsonObjectAgg(_) => self.facts.order_sensitive = Some("JSON_OBJECTAGG".to_owned()),
            Ref::WindowDef(window) if window.frame_options & FRAME_OF_ROWS != 0 => {
                self.facts.order_sensitive = Some("a window frame of ROWS".to_owned());
            }
            Ref::LockingClause(_) => self.facts.locking = true,
            Ref::RangeTableSample(_) => self.facts.sample = true,
            Ref::CurrentOfExpr(_) => self.facts.current_of = true,
            // In the statement's own text another name stands in its place: it comes out of a function's body.
            Ref::RangeVar(name) if system_view(name).is_one_nodes() => self.refuse(
                format!("a function that reads \"{}\",", name.relname),
                "It would see one datanode's part: read it in the statement itself, or in a DO block.",
            ),
            Ref::RangeVar(name) if self.ctx.is_counted_view(name) => self.refuse(
                format!("\"{}\", of which each datanode has its own rows,", name.relname),
                &format!("loxo_node_{} shows those of each datanode.", name.relname),
            ),
            Ref::ColumnRef(column) => {
                if let Some(name) = tree::last_name(&column.fields).filter(|name| SYSTEM_COLUMNS.contains(name)) {
                    if name != "tableoid" || self.facts.system_column.is_none() {
                        self.facts.system_column = Some(name.to_owned());
                    }
                    let is_named = self.named.contains(&std::ptr::from_ref(column));
                    self.facts.names_table |= name == "tableoid" && is_named;
                    self.facts.bare_tableoid |= name == "tableoid" && !is_named;
                }
            }
            Ref::SqlvalueFunction(f) if clock::cast_of(f.op).is_some() => {
                let is_date = f.op == SqlValueFunctionOp::SvfopCurrentDate as i32;
                self.clock("the current date or time".to_owned(), self.is_in_body && !is_date);
            }
            Ref::TypeCast(cast) => self.cast(cast),
            Ref::TypeName(of) => {
                self.facts.home = self.ctx.temporary_type(of)?.or(self.facts.home.take());
                self.code_of_type(of)?;
            }
            Ref::AConst(constant) => self.constant(constant),
            Ref::AExpr(e) => self.operator(&e.name)?,
            Ref::SubLink(link) => self.operator(&link.oper_name)?,
            Ref::SortBy(sort) => self.operator(&sort.use_op)?,
            _ => {}
        }
        Ok(())
    }

    /// `'t'::regclass` is an object id of one node.
    fn cast(&mut self, cast: &protobuf::TypeCast) {
        let Some(name) = tree::type_of(cast) else { return };
        if let Some(column) = cast.arg.get::<ColumnRef>()
            && tree::is_table_name(cast)
        {
            self.named.push(std::ptr::from_ref(column));
        } else if self.ctx.catalog.builtins().type_named(name).is_some_and(|of| of.is_object_id && !of.reads_alike) {
            self.facts.home = Some(format!("a cast to {name}"));
        }
    }

    fn constant(&mut self, constant: &protobuf::AConst) {
        if let Some(text) = tree::quoted(constant).filter(|text| is_moment(text)) {
            self.clock(format!("'{}'", text.trim().to_ascii_lowercase()), self.is_in_body);
        }
    }

    /// What is called by values of a type that a body or a view names: PostgreSQL's analysis of the statement does not tell.
    fn code_of_type(&mut self, of: &protobuf::TypeName) -> Result<()> {
        let is_analysed = self.ctx.analysis.is_some();
        let is_meant = |schema: &str| match is_analysed {
            true => tree::qualified(&of.names).0 == Some(schema),
            false => self.may_mean(&of.names, schema),
        };
        let name = tree::qualified(&of.names).1;
        if !is_analysed && self.ctx.is_pseudo_type(of) && !["void", "trigger"].contains(&name) {
            // What comes is of any type.
            let casts: Vec<Oid> = self.ctx.catalog.user_types().flat_map(|of| of.casts.iter().copied()).collect();
            return self.user_functions(&casts);
        }
        let functions = self.ctx.catalog.code_of_types(name, is_meant, !is_analysed);
        self.user_functions(&functions)
    }

    /// Which operator of that name it is depends on types: all of them must be harmless that it may be.
    fn operator(&mut self, names: &[Node]) -> Result<()> {
        if self.ctx.analysis.is_some() && names.len() == 1 {
            return Ok(());
        }
        let all = self.ctx.catalog.operator_functions(tree::qualified(names).1);
        let meant = all.iter().filter(|(schema, _)| self.may_mean(names, schema)).map(|(_, function)| *function);
        self.user_functions(&meant.collect::<Vec<_>>())
    }

    /// May it be a name of what is in this schema? In a body a bare one is looked for in the session's search path.
    fn may_mean(&self, names: &[Node], schema: &str) -> bool {
        let path = self.ctx.session.search_path;
        match tree::qualified(names).0 {
            Some(named) => named == schema,
            None => {
                self.any_path
                    || self.has_path
                    || self.is_definer
                    || path.is_empty()
                    || path.iter().any(|one| one == schema)
            }
        }
    }

    fn user_functions(&mut self, oids: &[u32]) -> Result<()> {
        if oids.is_empty() {
            return Ok(());
        }
        oids.iter().filter(|oid| **oid < FIRST_USER_OID).try_for_each(|oid| self.unnamed_builtin(*oid))?;
        self.ctx.catalog.functions_by_oid(oids).try_for_each(|function| self.with_defaults(function))
    }

    /// A function of PostgreSQL's that a user's operator or aggregate calls: what it asks for elsewhere is asked for by its name.
    fn unnamed_builtin(&mut self, oid: Oid) -> Result<()> {
        let builtins = self.ctx.catalog.builtins();
        let known = builtins.function_of(oid).map(|(name, function)| (name, class_of(builtins, function)));
        let what = match known {
            Some((_, Class::Anywhere)) => return Ok(()),
            Some((name, Class::Body(body))) => return self.body_of_builtin(name, body),
            Some((name, _)) => format!("function {name}()"),
            None => format!("PostgreSQL's function {oid}"),
        };
        self.refuse(format!("{what} as an operator or a part of an aggregate"), "Call it by its name.");
        Ok(())
    }

    fn body_of_builtin(&mut self, name: &str, body: &str) -> Result<()> {
        let inside = self.ctx.of_body();
        let outside = std::mem::replace(&mut self.ctx, inside);
        let searched = self.body(&format!("function {name}()"), "sql", body);
        self.ctx = outside;
        searched
    }

    fn call(&mut self, call: &FuncCall) -> Result<()> {
        let Some(name) = tree::last_name(&call.funcname) else { return Ok(()) };
        if asks_cluster(call).is_some() {
            self.facts.home = Some(format!("{name}()"));
            return Ok(());
        }
        if call.funcname.len() > 1 && tree::text_of(&call.funcname[0]).is_some_and(tree::is_temporary_schema) {
            self.facts.home = Some(format!("the temporary function {name}()"));
            self.facts.volatile.get_or_insert_with(|| format!("{name}()"));
            let mut named = self.ctx.session.temp_functions.iter().filter(|function| function.name == name);
            return named.try_for_each(|function| self.temporary_function(function));
        }
        if let Some(what) = of_sequence(call) {
            self.facts.home = Some(format!("{what}()"));
            self.facts.writes |= what == "nextval";
            return Ok(());
        }
        let mut meant = self.ctx.user_functions(call);
        meant.retain(|function| self.ctx.analysis.is_some() || self.may_mean(&call.funcname, &function.schema));
        for function in &meant {
            self.user_functions(&function.parts)?;
            self.user_function(function)?;
            if function.arguments.1.is_none_or(|most| call.args.len() < most) {
                self.defaults(function)?;
            }
        }
        // Without PostgreSQL's word for it, it may be one of its own all the same.
        if meant.is_empty() || self.ctx.analysis.is_none() {
            let functions = self.ctx.builtin_functions(call);
            if meant.is_empty() && functions.is_empty() && self.ctx.is_of_postgresql(&call.funcname) {
                // It is nobody's that is known.
                self.facts.home = Some(format!("{name}()"));
                self.facts.volatile = Some(format!("{name}()"));
            }
            functions.into_iter().try_for_each(|function| self.builtin(name, call, function))?;
        }
        Ok(())
    }

    /// Where nobody knows what it is given.
    fn with_defaults(&mut self, function: &Function) -> Result<()> {
        self.user_function(function)?;
        self.defaults(function)
    }

    /// What stands for arguments that are not given: PostgreSQL puts it in when it plans.
    fn defaults(&mut self, function: &Function) -> Result<()> {
        if !self.given.insert(function.oid) {
            return Ok(());
        }
        let outside = (self.ctx, self.is_in_body);
        (self.ctx, self.is_in_body) = (self.ctx.of_body(), true);
        let defaults = tree::parameter_defaults(&function.definition);
        let searched = defaults.iter().try_for_each(|default| self.tree(default, false));
        (self.ctx, self.is_in_body) = outside;
        searched
    }

    /// What a function in `pg_temp` calls runs where it is.
    fn temporary_function(&mut self, function: &Function) -> Result<()> {
        let outside = std::mem::replace(&mut self.at_home, true);
        let ctx = self.ctx;
        function
            .parts
            .iter()
            .filter(|part| **part < FIRST_USER_OID)
            .try_for_each(|part| self.unnamed_builtin(*part))?;
        let parts = function.parts.iter().filter_map(|part| code::known_function(&ctx, *part));
        let mut all = parts.chain([function]);
        let searched = all.try_for_each(|function| self.user_function(function));
        self.at_home = outside;
        searched
    }

    fn builtin(&mut self, name: &str, call: &FuncCall, function: &BuiltinFunction) -> Result<()> {
        if !self.visited.insert((function.oid, self.has_path, self.is_definer)) && function.body.is_some() {
            return Ok(());
        }
        let set = (self.is_in_body && function.meaning == Some(Meaning::SetConfig)).then(|| constant_name(call));
        self.sets_path |= set.as_ref().is_some_and(|name| name.as_deref() == Some("search_path"));
        if set == Some(None) {
            self.facts.writes = true;
            // No node can say afterwards which setting it was.
            self.refuse(
                "set_config() of a computed name in a function".to_owned(),
                "Call the function once, by itself or in FROM, or write the setting's name as a constant.",
            );
        }
        if self.facts.order_sensitive.is_none() && numbers::adds_in_any_order(&self.ctx, call) {
            self.facts.order_sensitive = Some(format!("{name}() of floating point"));
        }
        let builtins = self.ctx.catalog.builtins();
        if function.meaning == Some(Meaning::Setting)
            && constant_name(call).is_some_and(|setting| builtins.is_of_server(&setting))
        {
            self.facts.home = Some(format!("{name}() of a setting of the server"));
        }
        match class_of(builtins, function) {
            Class::Anywhere => {}
            Class::Home => self.facts.home = Some(format!("{name}()")),
            Class::HomeWrite => {
                self.facts.home = Some(format!("{name}()"));
                self.facts.writes = true;
            }
            Class::Volatile => self.facts.volatile = Some(format!("{name}()")),
            Class::Clock => self.clock(format!("{name}()"), self.is_in_body),
            Class::VolatileClock => {
                self.facts.volatile = Some(format!("{name}()"));
                self.facts.clock = Some(format!("{name}()"));
            }
            Class::OrderSensitive if call.over.is_some() || !tree::sorts_arguments(call) => {
                self.facts.order_sensitive = Some(format!("{name}()"));
            }
            Class::OrderSensitive => {}
            Class::Size => {
                self.facts.home = Some(format!("{name}()"));
                if let Some(table) = sized_table(&self.ctx, call.args.first()) {
                    self.facts.sizes = true;
                    self.refuse(
                        format!("{name}() of table \"{}\" in this statement", table.name),
                        "It would tell the size on one node only: ask for it in a SELECT that reads no tables of the user's.",
                    );
                }
            }
            Class::Refused(hint) => self.refuse(format!("function {name}()"), hint),
            Class::Body(body) => return self.body_of_builtin(name, body),
        }
        Ok(())
    }

    fn clock(&mut self, what: String, moves: bool) {
        if moves {
            self.facts.moving = Some(what.clone());
        }
        self.facts.clock = Some(what);
    }

    fn refuse(&mut self, what: String, hint: &str) {
        if self.facts.refused.is_none() {
            let hint = if self.at_home { AT_HOME_HINT } else { hint };
            self.facts.refused = Some(PgError::unsupported(what).hint(hint));
        }
    }

    fn user_function(&mut self, function: &Function) -> Result<()> {
        let (has_path, is_definer) = (self.has_path || function.sets_path, self.is_definer || function.is_definer);
        if !self.visited.insert((function.oid, has_path, is_definer)) {
            return Ok(());
        }
        // VOLATILE is what every function is by default: a body that we can read says more.
        if function.volatility == 'v' && !["sql", "plpgsql"].contains(&function.language.as_str()) {
            self.facts.volatile.get_or_insert_with(|| format!("{}()", function.name));
        }
        match function.language.as_str() {
            // C functions come from extensions, internal ones are PostgreSQL's own.
            "c" | "internal" => {
                if let Some(hint) = meaning::refused_library(function) {
                    self.refuse(format!("function {}()", function.name), hint);
                }
                Ok(())
            }
            language => {
                let outside = (self.has_path, self.is_definer, self.ctx);
                (self.has_path, self.is_definer, self.ctx) = (has_path, is_definer, self.ctx.of_body());
                let searched = self.body(&format!("function {}()", function.name), language, &function.definition);
                (self.has_path, self.is_definer, self.ctx) = outside;
                searched
            }
        }
    }

    fn body(&mut self, what: &str, language: &str, definition: &str) -> Result<()> {
        let Some(texts) = statements_of(language, definition) else {
            if language == "plpgsql" && ends_transactions(definition) {
                self.refuse(format!("COMMIT or ROLLBACK inside {what}"), "Send them as statements of their own.");
                return Ok(());
            }
            let why = "Its body may read or write tables that no single node has: call it once, by itself or in FROM, or write it in SQL or PL/pgSQL without EXECUTE.";
            self.refuse(what.to_owned(), why);
            return Ok(());
        };
        let outside = std::mem::replace(&mut self.is_in_body, true);
        types_named(language, definition).iter().try_for_each(|of| self.code_of_type(of))?;
        let searched = texts.iter().try_for_each(|statement| self.body_statement(what, statement));
        self.is_in_body = outside;
        searched
    }

    fn body_statement(&mut self, what: &str, statement: &NodeEnum) -> Result<()> {
        let hint = "Put the function's query into the statement, or call it once, by itself or in FROM.";
        let is_query = statement.get::<SelectStmt>().is_some_and(|select| select.into_clause.is_none());
        let read = is_query && !code::changes_rows(statement)?;
        let is_allowed = read || self.at_home && self.stays_home(statement)?;
        if !is_allowed {
            self.refuse(
                what.to_owned(),
                "It changes rows: call it once, by itself or in FROM, or write a loop in a DO block.",
            );
            return Ok(());
        }
        let ctes = statement.with_names()?;
        for name in statement.tables()? {
            let may_be_cte = name.schemaname.is_empty() && ctes.contains(&name.relname);
            let is_known = self.ctx.catalog.relations().any(|relation| relation.name == name.relname);
            if !may_be_cte || is_known {
                self.reads(what, name);
            }
            let is_by_path = name.schemaname.is_empty() && !may_be_cte && is_known;
            if is_by_path && !code::is_everywhere(self.ctx.catalog, name) {
                let is_another_for_owner =
                    self.is_definer && self.ctx.catalog.relations_named(&name.relname).count() > 1;
                if self.has_path || is_another_for_owner {
                    self.refuse_path(what, &name.relname);
                    continue;
                }
                self.reads_by_path.get_or_insert_with(|| (what.to_owned(), name.relname.clone()));
            }
            let casts: Vec<Oid> = self
                .ctx
                .catalog
                .relations_named(&name.relname)
                .flat_map(|of| self.ctx.catalog.casts_of_columns(of))
                .collect();
            self.user_functions(&casts)?;
            let session = self.ctx.session;
            let is_path_unknown = session.search_path.is_empty() && session.temp_relations.is_empty();
            match self.ctx.resolve(name)? {
                Named::Home(_) if may_be_cte => {}
                // Judged without a session: see `code`.
                Named::Home(None) if is_path_unknown && code::is_everywhere(self.ctx.catalog, name) => {}
                Named::Distributed(relation) => match &relation.distribution {
                    Distribution::Replicated { nodes } => self.restrict(nodes),
                    _ => self.refuse(format!("{what}, which reads table \"{}\",", relation.name), hint),
                },
                Named::View(view) => self.refuse(format!("{what}, which reads view \"{}\",", view.name), hint),
                Named::Home(_) => self.facts.home = Some(format!("{what}, which reads \"{}\"", name.relname)),
            }
        }
        self.tree(statement, true)
    }

    /// Does a statement change rows of temporary tables only? What these call counts with the rest.
    fn stays_home(&mut self, statement: &NodeEnum) -> Result<bool> {
        let mut targets = Vec::new();
        statement.each(|node| targets.extend(tree::changed(node).cloned()))?;
        let ctx = self.ctx;
        for target in &targets {
            let called = code::called_on_change(&ctx, target)?;
            let mut called = called.into_iter().filter_map(|oid| code::known_function(&ctx, oid));
            called.try_for_each(|function| self.user_function(function))?;
        }
        Ok(tree::is_about_rows(statement)
            && !targets.is_empty()
            && targets.iter().all(|target| self.ctx.is_temporary(target)))
    }

    fn refuse_path(&mut self, what: &str, table: &str) {
        self.refuse(
            format!("{what}, which has a search path of its own and reads \"{table}\","),
            "Put the schema before the names of tables in it.",
        );
    }

    fn reads(&mut self, what: &str, name: &protobuf::RangeVar) {
        let read = || format!("{what} reads \"{}\"", name.relname);
        self.facts.reads.get_or_insert_with(read);
        if !code::is_everywhere(self.ctx.catalog, name) {
            self.facts.reads_part.get_or_insert_with(read);
        }
    }

    fn restrict(&mut self, nodes: &[NodeId]) {
        let common = match &self.facts.function_nodes {
            Some(known) => intersect(known, nodes),
            None => nodes.to_vec(),
        };
        self.facts.function_nodes = Some(common);
    }
}
