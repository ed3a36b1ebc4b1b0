//! An expression after PostgreSQL's analysis: every operand has a type, and every cast is there.
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

/// What a node is, named as in PostgreSQL's `primnodes.h` where that has a word.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A column as it is to be written.
    Column(String),
    /// The text of a value; `None` for null.
    Const(Option<String>),
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

    /// Does a column stand in it?
    pub(super) fn names_column(&self) -> bool {
        let mut found = matches!(self.kind, Kind::Column(_));
        self.kind.parts(&mut |part| found |= part.names_column());
        found
    }
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
