//! What a function promises about its results.
//!
//! Does not do: finding out what a function does (`expr::immutable`).

/// How often a function has to be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Volatility {
    Immutable,
    Stable,
    #[default]
    Volatile,
}

impl Volatility {
    const ALL: [Volatility; 3] = [Volatility::Immutable, Volatility::Stable, Volatility::Volatile];

    /// As SQL spells it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Volatility::Immutable => "IMMUTABLE",
            Volatility::Stable => "STABLE",
            Volatility::Volatile => "VOLATILE",
        }
    }

    /// The one of this name.
    pub(crate) fn parse(text: &str) -> Option<Volatility> {
        Volatility::ALL.into_iter().find(|one| one.name() == text)
    }
}
