//! Expressions and queries after PostgreSQL's analysis: every operand has a type, and every cast is
//! there.
//!
//! Invariants: no tree is deeper than [`MAX_DEPTH`], so printing and dropping one recurse safely.
//! Does not do: making trees (`analyse`), printing them (`print`).

/// How deep a tree is at most. Deeper expressions are shown as they are kept.
const MAX_DEPTH: usize = 256;

/// A type by the number that catalogs have for it, and its modifier, -1 for none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TypeRef {
    pub(super) oid: u32,
    pub(super) modifier: i32,
}

impl TypeRef {
    pub(super) fn plain(oid: u32) -> TypeRef {
        TypeRef { oid, modifier: -1 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) ty: TypeRef,
    depth: usize,
}

/// The kind of a node, named as in PostgreSQL's `primnodes.h` where that has a word.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Column(ColumnName),
    /// The text of a value; `None` for null.
    Const(Option<String>),
    /// The name as it is printed.
    Call(String, Vec<Node>),
    /// A call with a syntax of its own.
    Syntax(Syntax, Vec<Node>),
    /// COALESCE, GREATEST, LEAST, NULLIF, ROW.
    Keyword(&'static str, Vec<Node>),
    /// CURRENT_DATE and its kind.
    Word(String),
    Cast(Cast, Box<Node>),
    /// One operand or two.
    Operator(String, Vec<Node>),
    /// `= ANY (array)`, or ALL.
    AnyOf(AnyOf, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// IS NULL or IS NOT NULL.
    NullTest(&'static str, Box<Node>),
    /// IS TRUE and its kind.
    BooleanTest(&'static str, Box<Node>),
    Distinct(Box<Node>, Box<Node>),
    Case(Box<Case>),
    Array(Vec<Node>),
    Collate(Box<Node>, String),
    /// An element, or a slice with its bounds.
    Subscript(Box<Node>, Vec<Subscript>),
    Aggregate(Box<Aggregate>),
    Window(Box<Window>),
    Subquery(Box<Subquery>),
}

/// A call over the rows of a window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) call: Aggregate,
    pub(super) partition: Vec<Node>,
    pub(super) order: Vec<SortKey>,
}

/// An aggregate.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub(super) name: String,
    /// Is a star all that it has?
    pub(super) is_of_rows: bool,
    pub(super) is_distinct: bool,
    pub(super) args: Vec<Node>,
    pub(super) order: Vec<SortKey>,
    pub(super) filter: Option<Node>,
}

/// A query in an expression.
#[derive(Clone, Debug)]
pub(super) struct Subquery {
    pub(super) query: Query,
    pub(super) test: Test,
}

/// The question that an expression has for a query.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// Its one value.
    Value,
    /// Its values as an array.
    Array,
    Exists,
    /// Does an operator hold between a value and its rows?
    Rows {
        left: Node,
        operator: String,
        all: bool,
    },
}

/// A column as it is to be written, and its name alone.
#[derive(Clone, Debug)]
pub(super) struct ColumnName {
    pub(super) text: String,
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Syntax {
    AtTimeZone,
    Extract,
    Overlay,
    Position,
    Substring,
    /// With the side.
    Trim(&'static str),
}

/// How a cast came to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cast {
    pub(super) is_implicit: bool,
    /// Does a function make it? Otherwise a value is another type's as it is, or by its text.
    pub(super) by_function: bool,
}

#[derive(Clone, Debug)]
pub(super) struct AnyOf {
    pub(super) operator: String,
    pub(super) all: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) operand: Option<Node>,
    pub(super) arms: Vec<(Node, Node)>,
    pub(super) rest: Node,
}

#[derive(Clone, Debug)]
pub(super) enum Subscript {
    Element(Node),
    Slice(Option<Node>, Option<Node>),
}

impl Node {
    /// A node above these; `None` if the tree would be too deep.
    pub(super) fn new(kind: Kind, ty: TypeRef) -> Option<Node> {
        let mut depth = 0;
        kind.parts(&mut |part| depth = depth.max(part.depth));
        (depth < MAX_DEPTH).then_some(Node { kind, ty, depth: depth + 1 })
    }

    /// The text of a literal that has no type yet.
    pub(super) fn unknown(text: Option<String>) -> Option<Node> {
        Node::new(Kind::Const(text), TypeRef::plain(super::choose::UNKNOWN))
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.ty.oid == super::choose::UNKNOWN
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Const(None))
    }

    /// Adds the columns that stand in it, each once.
    pub(super) fn add_columns(&self, found: &mut Vec<String>) {
        if let Kind::Column(column) = &self.kind
            && !found.contains(&column.name)
        {
            found.push(column.name.clone());
        }
        self.kind.parts(&mut |part| part.add_columns(found));
    }

    /// Does a column stand in it?
    pub(super) fn names_column(&self) -> bool {
        let mut found = matches!(self.kind, Kind::Column(_) | Kind::Subquery(_));
        self.kind.parts(&mut |part| found |= part.names_column());
        found
    }
}

/// The values that keys of an order are of.
fn values_of(keys: &[SortKey]) -> impl Iterator<Item = &Node> {
    keys.iter().filter_map(|key| match &key.by {
        SortBy::Value(value) => Some(value),
        SortBy::Column(_) => None,
    })
}

impl Kind {
    /// Calls `visit` for each node right below.
    fn parts(&self, visit: &mut dyn FnMut(&Node)) {
        match self {
            Kind::Column(_) | Kind::Const(_) | Kind::Word(_) => {}
            Kind::Call(_, list)
            | Kind::Syntax(_, list)
            | Kind::Keyword(_, list)
            | Kind::Operator(_, list)
            | Kind::And(list)
            | Kind::Or(list)
            | Kind::Array(list) => list.iter().for_each(visit),
            Kind::Cast(_, inner)
            | Kind::Not(inner)
            | Kind::NullTest(_, inner)
            | Kind::BooleanTest(_, inner)
            | Kind::Collate(inner, _) => visit(inner),
            Kind::AnyOf(_, a, b) | Kind::Distinct(a, b) => {
                visit(a);
                visit(b);
            }
            Kind::Case(case) => {
                case.operand.iter().for_each(&mut *visit);
                for (when, then) in &case.arms {
                    visit(when);
                    visit(then);
                }
                visit(&case.rest);
            }
            Kind::Aggregate(one) => {
                one.args.iter().chain(&one.filter).for_each(&mut *visit);
                values_of(&one.order).for_each(&mut *visit);
            }
            Kind::Window(one) => {
                one.call.args.iter().chain(&one.call.filter).for_each(&mut *visit);
                one.partition.iter().chain(values_of(&one.order)).for_each(&mut *visit);
            }
            // The depth of queries has a bound of its own.
            Kind::Subquery(one) => {
                if let Test::Rows { left, .. } = &one.test {
                    visit(left);
                }
            }
            Kind::Subscript(inner, subscripts) => {
                visit(inner);
                for subscript in subscripts {
                    match subscript {
                        Subscript::Element(at) => visit(at),
                        Subscript::Slice(from, to) => from.iter().chain(to).for_each(&mut *visit),
                    }
                }
            }
        }
    }
}

/// A query with its types settled.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) is_recursive: bool,
    pub(super) with: Vec<Cte>,
    pub(super) body: Body,
    pub(super) order: Vec<SortKey>,
    pub(super) offset: Option<Node>,
    pub(super) limit: Option<Node>,
    pub(super) columns: Vec<Column>,
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) ty: TypeRef,
}

#[derive(Clone, Debug)]
pub(super) struct Cte {
    pub(super) name: String,
    /// MATERIALIZED, or NOT MATERIALIZED, with a blank behind.
    pub(super) how: &'static str,
    pub(super) query: Query,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Select(Box<Select>),
    Query(Box<Query>),
    Operation(Box<Operation>),
}

/// UNION and its kind.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) word: &'static str,
    pub(super) all: bool,
    pub(super) left: Body,
    pub(super) right: Body,
}

#[derive(Clone, Debug)]
pub(super) struct Select {
    /// The expressions of DISTINCT ON; none for DISTINCT.
    pub(super) distinct: Option<Vec<Node>>,
    pub(super) targets: Vec<Target>,
    pub(super) from: Vec<From>,
    pub(super) condition: Option<Node>,
    pub(super) group: Vec<Node>,
    pub(super) having: Option<Node>,
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) value: Node,
    pub(super) name: String,
    /// Is it a literal that has no type by itself?
    pub(super) is_open: bool,
    /// The name that it has by itself, if it is a column.
    pub(super) own: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum From {
    /// A relation with its alias.
    Relation(String),
    Query(Box<Query>, String),
    Join(Box<Join>),
}

#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) word: &'static str,
    pub(super) left: From,
    pub(super) right: From,
    pub(super) on: Option<Node>,
    pub(super) using: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct SortKey {
    pub(super) by: SortBy,
    /// DESC and NULLS, with blanks in front.
    pub(super) order: String,
}

#[derive(Clone, Debug)]
pub(super) enum SortBy {
    Value(Node),
    /// The number of a column of UNION.
    Column(usize),
}
