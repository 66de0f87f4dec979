//! Types that users have made, and which code goes with them.

use placement::KeyType;

use crate::{Catalog, Oid, Relation};

/// A user-defined type.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct UserType {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    /// `pg_type.typtype`: `b`ase, `c`omposite, `d`omain, `e`num, `r`ange, `m`ultirange.
    pub kind: char,
    /// Base type of a domain, element type of an array, else 0.
    pub base: Oid,
    /// `typtypmod`: what a domain says of its base type, -1 for nothing.
    pub base_modifier: i32,
    pub array: bool,
    /// User-defined functions that a domain's own constraints call.
    pub functions: Vec<Oid>,
    /// User-defined functions of casts from or to it, which statements may call without a word of it.
    pub casts: Vec<Oid>,
    /// Types of users' that a composite's attributes have, or a range is over.
    pub parts: Vec<Oid>,
    /// Its own constraints call other functions than IMMUTABLE ones of PostgreSQL's own.
    pub calls_more: bool,
    /// What a column of the type gets that has no default of its own.
    pub default: Option<String>,
}

impl Catalog {
    /// A user-defined type by object id on the catalog node.
    pub fn user_type(&self, oid: Oid) -> Option<&UserType> {
        self.types.get(&oid)
    }

    /// Is it a domain over a type of texts or bits with a length?
    pub fn has_length(&self, oid: Oid) -> bool {
        const OF_LENGTH: [Oid; 4] = [1042, 1043, 1560, 1562];
        self.user_type(oid)
            .filter(|of| of.kind == 'd')
            .is_some_and(|of| of.base_modifier >= 0 && OF_LENGTH.contains(&of.base) || self.has_length(of.base))
    }

    /// User-defined functions that a value of this type goes through when it is made: those of a domain's constraints, also of
    /// the domains that it, an array's elements, a range's bounds or a row's columns are based on.
    pub fn functions_of_type(&self, oid: Oid) -> Vec<Oid> {
        self.with_parts(oid).into_iter().flat_map(|of| of.functions.iter().copied()).collect()
    }

    /// User-defined types of this name, in any schema.
    pub fn types_named(&self, name: &str) -> impl Iterator<Item = &UserType> {
        self.types_by_name.get(name).into_iter().flatten().filter_map(|oid| self.user_type(*oid))
    }

    /// User-defined functions that may be called where a type of this name, in whichever schema `is_meant` says, is mentioned:
    /// with those of casts where nobody knows which are made.
    pub fn code_of_types(&self, name: &str, is_meant: impl Fn(&str) -> bool, has_casts: bool) -> Vec<Oid> {
        let all = self.types_named(name).filter(|of| is_meant(&of.schema)).flat_map(|of| self.with_parts(of.oid));
        let code = |of: &UserType| [of.functions.as_slice(), if has_casts { &of.casts } else { &[] }].concat();
        all.flat_map(code).collect()
    }

    /// User-defined functions of casts from or to the types of a table's columns, or what their values are made of.
    pub fn casts_of_columns(&self, relation: &Relation) -> Vec<Oid> {
        let types = relation.columns.iter().flat_map(|column| self.with_parts(column.type_oid));
        types.flat_map(|of| of.casts.iter().copied()).collect()
    }

    /// A type and all that its values are made of.
    fn with_parts(&self, oid: Oid) -> Vec<&UserType> {
        let mut found: Vec<&UserType> = self.user_type(oid).into_iter().collect();
        let mut at = 0;
        while let Some(user_type) = found.get(at) {
            let parts = user_type.parts.iter().chain([&user_type.base]).filter_map(|part| self.user_type(*part));
            let new: Vec<_> = parts.filter(|part| found.iter().all(|known| known.oid != part.oid)).collect();
            found.extend(new);
            at += 1;
        }
        found
    }

    /// Can no function of a user's be called by what statements do with values of this type, but where they name it? Of PostgreSQL's
    /// own types, enums, domains, and arrays of these.
    pub fn is_plain_type(&self, oid: Oid) -> bool {
        let mut next = self.user_type(oid);
        while let Some(user_type) = next {
            let is_plain = match user_type.kind {
                'e' | 'b' => user_type.casts.is_empty(),
                'd' => user_type.functions.is_empty(),
                _ => false,
            };
            if !is_plain {
                return false;
            }
            next = self.user_type(user_type.base);
        }
        true
    }

    /// All user-defined types.
    pub fn user_types(&self) -> impl Iterator<Item = &UserType> {
        self.types.values()
    }

    /// The type and modifier of the values that a column holds: of a domain those under it. Where there is a modifier,
    /// PostgreSQL may store another value than the one that is assigned.
    pub fn value_type(&self, type_oid: Oid, modifier: i32) -> (Oid, i32) {
        match self.types.get(&type_oid) {
            Some(of) if of.kind == 'd' => self.value_type(of.base, of.base_modifier),
            _ => (type_oid, modifier),
        }
    }

    /// The [`KeyType`] of a type if a column of it may be a distribution key; domains count as their base type.
    pub fn key_type(&self, type_oid: Oid) -> Option<KeyType> {
        match self.types.get(&type_oid) {
            Some(t) if t.kind == 'd' => self.key_type(t.base),
            Some(_) => None,
            None => KeyType::from_oid(type_oid),
        }
    }
}
