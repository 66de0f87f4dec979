//! Arguments for parameters of domains, as PostgreSQL prints them.
//!
//! What it does to such an argument by itself is printed as a cast, like one that the user wrote. A cast cuts what is too long for the
//! domain, while an argument that is too long is an error. Which of them a statement has, the analysed tree says.

use catalog::Catalog;
use pg_query::Node;
use pg_query::protobuf::{FuncCall, TypeCast};
use pgerror::{PgError, Result};

use crate::tree::{self, Get, Walk};

/// Which coercions to domains an analysed tree has.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainCasts {
    are_written: bool,
    are_implied: bool,
}

impl DomainCasts {
    /// `CoerceToDomain` with its `CoercionForm` (primnodes.h), as `pg_node_tree` is printed.
    pub fn of(tree: &str) -> Self {
        let has = |form: &str| tree.contains(form);
        Self { are_written: has(" :coercionformat 1 "), are_implied: has(" :coercionformat 2 ") }
    }
}

/// Leaves it to PostgreSQL to coerce arguments for parameters of domains with a length. Overloads are told apart by what is printed.
pub(super) fn uncast_arguments(whole: &mut Node, catalog: &Catalog, casts: &DomainCasts) -> Result<bool> {
    let mut is_found = false;
    if !casts.are_implied || !catalog.user_types().any(|of| catalog.has_length(of.oid)) {
        return Ok(false);
    }
    whole.rewrite(&mut |node: &mut Node| {
        let Some(call) = node.get_mut::<FuncCall>() else { return Ok(true) };
        let name = tree::last_name(&call.funcname).unwrap_or_default();
        let ([function], []) = (catalog.functions(name), catalog.builtins().functions(name)) else { return Ok(true) };
        let types = tree::signature_types(&function.definition);
        let is_parameter = |name: &str| types.iter().any(|of| tree::last_name(&of.names) == Some(name));
        for value in call.args.iter_mut().filter_map(tree::argument_mut) {
            let Some(cast) = value.get_mut::<TypeCast>() else { continue };
            let of = cast.type_name.as_ref().filter(|of| of.array_bounds.is_empty());
            let name = of.and_then(|of| tree::last_name(&of.names)).filter(|name| is_parameter(name));
            if name.is_some_and(|name| catalog.types_named(name).any(|of| catalog.has_length(of.oid)))
                && let Some(inner) = cast.arg.take()
            {
                (*value, is_found) = (*inner, true);
            }
        }
        Ok(true)
    })?;
    match is_found && casts.are_written {
        true => Err(PgError::unsupported(
            "an argument for a parameter of a domain with a length, beside a cast to a domain,",
        )
        .hint("Cast in a sub-select of FROM, or declare the parameter as the type that the domain is over.")),
        false => Ok(is_found),
    }
}
