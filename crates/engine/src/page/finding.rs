//! Damage of a page, in the words of the code that reads it, and findings of `verify`.
//!
//! Invariants: bad bytes are a [`Damage`] or a [`PageFinding`], never a panic.
//! Does not do: check pages; each module checks its own.

/// What is wrong with bytes of a page.
pub type Damage = &'static str;

/// A value read from a page, or what is wrong there.
pub type Checked<T> = std::result::Result<T, Damage>;

/// One finding of `verify` about a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFinding {
    /// The page's block.
    pub block: u32,
    /// Name of the check (`B1`, `H4`).
    pub check: &'static str,
    /// What it means.
    pub what: String,
}

impl PageFinding {
    /// A finding on the page at `block`.
    pub fn new(block: u32, check: &'static str, what: impl Into<String>) -> Self {
        PageFinding { block, check, what: what.into() }
    }
}
