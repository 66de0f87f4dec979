//! Puts a [`Catalog`] together from rows read off the datanodes, or from literals in a test.

use std::sync::Arc;

use placement::BucketMap;

use crate::{Catalog, Function, Group, LookAlikes, MapId, Node, Oid, Relation, UserType};

/// Collects the parts; [`Builder::build`] freezes them.
#[derive(Default)]
pub struct Builder {
    catalog: Catalog,
}

impl Builder {
    /// An empty catalog of this version over nodes of at least `server_version` (`server_version_num`).
    pub fn new(version: u64, server_version: u32) -> Self {
        Self { catalog: Catalog { version, schema_version: version, server_version, ..Catalog::default() } }
    }

    /// See [`Catalog::schema_version`].
    pub fn schema_version(&mut self, version: u64) -> &mut Self {
        self.catalog.schema_version = version;
        self
    }

    /// See [`Catalog::withholds_temp`].
    pub fn withholds_temp(&mut self, withholds: bool) -> &mut Self {
        self.catalog.withholds_temp = withholds;
        self
    }

    /// See [`Catalog::rows_move`].
    pub fn rows_move(&mut self, rows_move: bool) -> &mut Self {
        self.catalog.rows_move = rows_move;
        self
    }

    /// See [`Catalog::defers_constraints`].
    pub fn defers_constraints(&mut self, defers: bool) -> &mut Self {
        self.catalog.defers_constraints = defers;
        self
    }

    /// Adds a datanode; ids must come in order from 0.
    pub fn node(&mut self, node: Node) -> &mut Self {
        debug_assert!(self.catalog.nodes.last().is_none_or(|last| last.id < node.id));
        self.catalog.nodes.push(node);
        self
    }

    /// Adds a coordinator (shown in `pgxc_node`).
    pub fn coordinator(&mut self, node: Node) -> &mut Self {
        self.catalog.coordinators.push(node);
        self
    }

    /// Adds a gtm; ids must come in order.
    pub fn gtm(&mut self, node: Node) -> &mut Self {
        self.catalog.gtms.push(node);
        self
    }

    /// Adds a node group.
    pub fn group(&mut self, group: Group) -> &mut Self {
        self.catalog.groups.push(group);
        self
    }

    /// Adds a bucket map; relations refer to it by the `Arc` that [`Builder::get_map`] gives.
    pub fn map(&mut self, id: MapId, map: BucketMap) -> &mut Self {
        self.catalog.maps.insert(id, Arc::new(map));
        self
    }

    /// See [`Catalog::placed_alike`].
    pub fn map_written(&mut self, id: MapId, by: u32) -> &mut Self {
        self.catalog.maps_written.insert(id, by);
        self
    }

    /// See [`Catalog::placed_alike`].
    pub fn scattered_by(&mut self, relation: Oid, by: u32) -> &mut Self {
        self.catalog.scattered_by.insert(relation, by);
        self
    }

    /// A bucket map added before.
    pub fn get_map(&self, id: MapId) -> Option<Arc<BucketMap>> {
        self.catalog.maps.get(&id).cloned()
    }

    /// Makes a schema known even if it holds no relation.
    pub fn schema(&mut self, name: &str) -> &mut Self {
        self.catalog.by_name.entry(name.to_owned()).or_default();
        self
    }

    /// Adds a relation.
    pub fn relation(&mut self, relation: Relation) -> &mut Self {
        self.catalog.has_foreign_keys |= !relation.foreign_keys.is_empty();
        self.catalog.captures |= relation.code.as_ref().is_some_and(|code| code.captures || code.moves);
        self.catalog.has_rules |= !relation.rules.is_empty();
        self.catalog.by_name.entry(relation.schema.clone()).or_default().insert(relation.name.clone(), relation.oid);
        self.catalog.relations.insert(relation.oid, Arc::new(relation));
        self
    }

    /// Notes with whose rights a view is read.
    pub fn view_owner(&mut self, view: Oid, owner: String) -> &mut Self {
        self.catalog.view_owners.insert(view, owner);
        self
    }

    /// Notes that somebody has been granted rights on some columns of the relation.
    pub fn column_grants(&mut self, relation: Oid) -> &mut Self {
        self.catalog.column_grants.insert(relation);
        self
    }

    /// Adds a user-defined function.
    pub fn function(&mut self, function: Function) -> &mut Self {
        self.catalog.functions.entry(function.name.clone()).or_default().push(function);
        self
    }

    /// Adds a user-defined type.
    pub fn user_type(&mut self, user_type: UserType) -> &mut Self {
        self.catalog.types_by_name.entry(user_type.name.clone()).or_default().push(user_type.oid);
        self.catalog.types.insert(user_type.oid, user_type);
        self
    }

    /// Adds a user-defined operator: its name, its schema and its function.
    pub fn operator(&mut self, name: &str, schema: &str, function: crate::Oid) -> &mut Self {
        self.catalog.operators.entry(name.to_owned()).or_default().push((schema.to_owned(), function));
        self
    }

    /// See [`Catalog::unnamed_functions`].
    pub fn unnamed_function(&mut self, oid: crate::Oid) -> &mut Self {
        self.catalog.unnamed_functions.insert(oid);
        self
    }

    /// Adds the name of a collation that may call different bytes equal.
    pub fn nondeterministic_collation(&mut self, name: &str) -> &mut Self {
        self.catalog.nondeterministic_collations.insert(name.to_owned());
        self
    }

    /// See [`Catalog::builtins`].
    pub fn builtins(&mut self, builtins: std::sync::Arc<crate::Builtins>) -> &mut Self {
        self.catalog.builtins = builtins;
        self
    }

    /// An operator of a user's that takes PostgreSQL's own types.
    pub fn own_operator(&mut self, name: &str) -> &mut Self {
        self.catalog.own_operators.insert(name.to_owned());
        self
    }

    /// All names that both an object of PostgreSQL's and one of a user's have.
    pub fn look_alikes(&mut self, look_alikes: LookAlikes) -> &mut Self {
        self.catalog.look_alikes = look_alikes;
        self
    }

    /// Adds the name of a user's relation that a system catalog bears too.
    pub fn system_name(&mut self, name: &str) -> &mut Self {
        self.catalog.system_names.insert(name.to_owned());
        self
    }

    /// The finished snapshot.
    pub fn build(self) -> Catalog {
        self.catalog
    }
}
