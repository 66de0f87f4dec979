//! What PostgreSQL says of a statement before it runs: its parameters and columns.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Catalog, NodeId, Oid, UserType};
use pgerror::Result;
use pgproto::backend::Field;
use planner::parse::Statement;
use planner::{Parameter, ParameterValue};

use crate::backend::call::{Call, is_node_specific};
use crate::backend::slot::Slot;
use crate::backend::type_ids::{NodeTypes, TypesOfNodes, USER_TYPES, may_name_types};
use crate::session::Session;

/// Parameter types and result columns of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Types of `$1`, `$2`, ….
    pub parameters: Vec<u32>,
    /// `None` for a statement that gives no rows.
    pub fields: Option<Vec<Field>>,
}

impl Session {
    /// Parses and describes a statement on the home node, where every table exists: PostgreSQL's own errors, types and names.
    pub async fn describe(&mut self, sql: &str, types: &[u32]) -> Result<Description> {
        self.describe_after(None, sql, types).await
    }

    /// Describes the query in CREATE TABLE AS. The client's own text is parsed before it: PostgreSQL reads the query in there, too,
    /// and says where in the text an error is. What others have made of the statement has no place in the client's.
    pub(crate) async fn describe_filler(&mut self, of: &Statement, query: &str, types: &[u32]) -> Result<Description> {
        let whole = of.is_as_sent().then_some(&*of.node_sql);
        self.describe_after(whole, query, types).await
    }

    async fn describe_after(&mut self, whole: Option<&str>, sql: &str, types: &[u32]) -> Result<Description> {
        let home = self.home;
        self.acquire_to_ask(home).await?;
        let leased = self.links.link(home)?;
        if let Some(whole) = whole {
            leased.start_parse(whole, types);
        }
        leased.start_describe(sql, types);
        leased.flush().await?;
        let result = leased.read_description().await;
        self.release();
        let (parameters, fields) = result?;
        Ok(Description { parameters, fields })
    }

    /// Where the types are known that values in the rows of a statement may name by ids, if those are described as `fields` and come
    /// in these formats (as in Bind).
    pub fn types_in(&self, fields: Option<&[Field]>, formats: &[i16]) -> Option<Arc<dyn TypesOfNodes>> {
        let is_binary =
            |at: usize| *formats.get(at).or(formats.first().filter(|_| formats.len() == 1)).unwrap_or(&0) == 1;
        let mut fields = fields.unwrap_or_default().iter().enumerate();
        fields.any(|(at, field)| is_binary(at) && may_name_types(field.type_oid)).then(|| self.context.clone() as _)
    }

    /// The type that a user's domain is over, or any other type itself.
    pub(crate) fn below_domains(&self, oid: Oid) -> Option<Oid> {
        let loaded = self.context.current_catalog()?;
        let mut oid = oid;
        while let Some(of) = loaded.catalog.user_type(oid) {
            oid = (of.kind == 'd').then_some(of.base)?;
        }
        Some(oid)
    }

    /// Result columns of a text on a node.
    pub async fn describe_on(&mut self, slot: impl Into<Slot>, sql: &str) -> Result<Option<Vec<Field>>> {
        let slot = slot.into();
        self.acquire_to_ask(slot).await?;
        let leased = self.links.link(slot)?;
        leased.start_describe(sql, &[]);
        leased.flush().await?;
        let (_, mut fields) = leased.read_description().await?;
        self.as_at_home(fields.as_deref_mut().unwrap_or_default(), slot.node()).await?;
        Ok(fields)
    }

    /// Asks what ids the other nodes have given to types that this transaction has made, which nobody else sees. The rows of tables are
    /// types too, but hardly ever a column's.
    pub(crate) async fn learn_own_types(&mut self, catalog: &Catalog) -> Result<()> {
        let Some(others) = self.context.current_catalog() else { return Ok(()) };
        let known: HashSet<Oid> = others.catalog.user_types().map(|of| of.oid).collect();
        let is_row = |of: &UserType| of.kind == 'c' && catalog.relation(&of.schema, &of.name).is_some();
        let is_new = |of: &UserType| !of.array && !known.contains(&of.oid) && !is_row(of);
        if self.block.as_ref().is_none_or(|block| block.is_own) || !catalog.user_types().any(is_new) {
            return Ok(());
        }
        let here = self.rows_on(self.home, USER_TYPES).await?;
        let home = self.home;
        for node in self.context.nodes().into_iter().filter(|node| *node != home) {
            let there = self.rows_on(node, USER_TYPES).await?;
            let types = Arc::new(NodeTypes::of_rows(there, here.clone()));
            self.block.iter_mut().for_each(|block| drop(block.own_types.insert(node, types.clone())));
        }
        Ok(())
    }

    /// Object ids of another node than the home node mean nothing to the client: types get the home node's ids, tables none.
    pub(crate) async fn as_at_home(&self, fields: &mut [Field], node: NodeId) -> Result<()> {
        if node == self.home {
            return Ok(());
        }
        for field in fields.iter_mut().filter(|field| is_node_specific(field.table_oid)) {
            (field.table_oid, field.column_number) = (0, 0);
        }
        if fields.iter().any(|field| is_node_specific(field.type_oid)) {
            let own = self.block.as_ref().and_then(|block| block.own_types.get(&node).cloned());
            let types = match own {
                Some(own) => own,
                None => self.context.types_on(node, self.schema_version).await?,
            };
            fields.iter_mut().for_each(|field| field.type_oid = types.at_home(field.type_oid));
        }
        Ok(())
    }
}

pub(crate) fn parameter_facts<'a>(call: &'a Call, known: Option<&Description>) -> Vec<Parameter<'a>> {
    let Some(parameters) = &call.parameters else { return Vec::new() };
    let count = parameters.values.len().max(parameters.types.len());
    (0..count)
        .map(|i| {
            let declared = parameters.types.get(i).copied().unwrap_or(0);
            let described = known.and_then(|description| description.parameters.get(i)).copied().unwrap_or(0);
            let binary = match parameters.formats.as_slice() {
                [] => false,
                [all] => *all == 1,
                each => each.get(i) == Some(&1),
            };
            let value = match parameters.values.get(i) {
                None => ParameterValue::Unknown,
                Some(None) => ParameterValue::Null,
                Some(Some(bytes)) if binary => ParameterValue::Binary(bytes),
                Some(Some(bytes)) => ParameterValue::Text(bytes),
            };
            Parameter { type_oid: if described != 0 { described } else { declared }, value }
        })
        .collect()
}
