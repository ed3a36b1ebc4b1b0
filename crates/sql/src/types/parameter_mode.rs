//! Modes of the parameters of functions: the way that a value goes.
//!
//! Does not do: parameters themselves (`user_types::functions`).

/// Does a parameter take a value, give one, or both?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ParameterMode {
    #[default]
    In,
    Out,
    InOut,
    /// Takes all arguments that are left, as an array.
    Variadic,
    /// A column of RETURNS TABLE.
    Table,
}

impl ParameterMode {
    const ALL: [ParameterMode; 5] = [
        ParameterMode::In,
        ParameterMode::Out,
        ParameterMode::InOut,
        ParameterMode::Variadic,
        ParameterMode::Table,
    ];

    /// The letter that `pg_proc` and notes have for it.
    pub(crate) const fn letter(self) -> char {
        match self {
            ParameterMode::In => 'i',
            ParameterMode::Out => 'o',
            ParameterMode::InOut => 'b',
            ParameterMode::Variadic => 'v',
            ParameterMode::Table => 't',
        }
    }

    /// The one with this letter.
    pub(crate) fn of_letter(letter: char) -> Option<ParameterMode> {
        ParameterMode::ALL.into_iter().find(|one| one.letter() == letter)
    }

    /// The word in front of the parameter.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            ParameterMode::In | ParameterMode::Table => "",
            ParameterMode::Out => "OUT ",
            ParameterMode::InOut => "INOUT ",
            ParameterMode::Variadic => "VARIADIC ",
        }
    }

    /// Does a call give it a value?
    pub(crate) const fn is_input(self) -> bool {
        matches!(self, ParameterMode::In | ParameterMode::InOut | ParameterMode::Variadic)
    }

    /// Is it a column of the result?
    pub(crate) const fn is_output(self) -> bool {
        matches!(self, ParameterMode::Out | ParameterMode::InOut | ParameterMode::Table)
    }
}
