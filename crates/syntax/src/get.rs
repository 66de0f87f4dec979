//! What a node is, seen through the options and boxes that hold it.

use pg_query::protobuf::*;
use pg_query::{Node, NodeEnum};

/// A type of nodes.
pub trait Syntax: Sized {
    /// The node, if it is of this type.
    fn of(node: &NodeEnum) -> Option<&Self>;
    /// The node to be changed, if it is of this type.
    fn of_mut(node: &mut NodeEnum) -> Option<&mut Self>;
    /// The tree that it is.
    fn into_tree(self) -> NodeEnum;

    /// This node as a part of another tree.
    fn into_node(self) -> Node {
        Node { node: Some(self.into_tree()) }
    }

    /// This node boxed, as trees hold such parts.
    fn into_box(self) -> Option<Box<Node>> {
        Some(Box::new(self.into_node()))
    }
}

/// Something that may hold a node.
pub trait Get {
    /// The node, if it is of this type.
    fn get<T: Syntax>(&self) -> Option<&T>;
    /// The node to be changed, if it is of this type.
    fn get_mut<T: Syntax>(&mut self) -> Option<&mut T>;
}

impl Get for NodeEnum {
    fn get<T: Syntax>(&self) -> Option<&T> {
        T::of(self)
    }
    fn get_mut<T: Syntax>(&mut self) -> Option<&mut T> {
        T::of_mut(self)
    }
}

impl Get for Node {
    fn get<T: Syntax>(&self) -> Option<&T> {
        self.node.get()
    }
    fn get_mut<T: Syntax>(&mut self) -> Option<&mut T> {
        self.node.get_mut()
    }
}

impl<G: Get> Get for Box<G> {
    fn get<T: Syntax>(&self) -> Option<&T> {
        (**self).get()
    }
    fn get_mut<T: Syntax>(&mut self) -> Option<&mut T> {
        (**self).get_mut()
    }
}

impl<G: Get> Get for Option<G> {
    fn get<T: Syntax>(&self) -> Option<&T> {
        self.as_ref()?.get()
    }
    fn get_mut<T: Syntax>(&mut self) -> Option<&mut T> {
        self.as_mut()?.get_mut()
    }
}

macro_rules! kinds {
    ($($type:ident)*) => {
        $(impl Syntax for $type {
            fn of(node: &NodeEnum) -> Option<&Self> {
                if let NodeEnum::$type(node) = node { Some(node) } else { None }
            }
            fn of_mut(node: &mut NodeEnum) -> Option<&mut Self> {
                if let NodeEnum::$type(node) = node { Some(node) } else { None }
            }
            fn into_tree(self) -> NodeEnum {
                NodeEnum::$type(self.into())
            }
        })*
    };
}

kinds! {
    AConst AExpr AIndices AIndirection AlterTableCmd BoolExpr BooleanTest CaseExpr CaseWhen CoalesceExpr
    ColumnDef ColumnRef CommonTableExpr Constraint CopyStmt CreateFunctionStmt CreateStmt CreateTableAsStmt
    CreateTrigStmt DefElem DeleteStmt ExecuteStmt FuncCall FunctionParameter IndexElem IndexStmt InsertStmt
    JoinExpr List LockingClause MergeStmt MergeWhenClause MultiAssignRef NamedArgExpr NullTest ParamRef
    PartitionCmd PublicationObjSpec RangeFunction RangeSubselect RangeVar ResTarget RowExpr SelectStmt
    SetToDefault SortBy String SubLink TableLikeClause TypeCast TypeName UpdateStmt VacuumRelation WindowDef
}
