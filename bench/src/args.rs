//! The words of the command line after the experiment's name.
//!
//! Invariants: every word is understood or refused. Does not do: whether a knob exists (`knobs`).

use std::path::PathBuf;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// About a minute on two cores.
    Quick,
    /// About 45 minutes.
    Default,
    /// Everything, however long it takes.
    All,
}

impl Size {
    /// How long it will take, for the first line of a run.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Size::Quick => "quick: about a minute on two cores",
            Size::Default => "default: about 45 minutes on two cores (--quick takes a minute)",
            Size::All => "all: hours",
        }
    }
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) size: Size,
    pub(crate) json: Option<PathBuf>,
    pub(crate) dir: PathBuf,
    /// Knobs given on the command line and their values.
    pub(crate) knobs: Vec<(String, Vec<String>)>,
}

impl Args {
    /// Reads the words after the experiment's name.
    pub(crate) fn parse(words: &[String]) -> Result<Args, String> {
        let mut args =
            Args { size: Size::Default, json: None, dir: std::env::temp_dir(), knobs: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let flag = word.strip_prefix("--").ok_or_else(|| format!("what is `{word}`?"))?;
            match flag {
                "quick" => args.size = Size::Quick,
                "all" => args.size = Size::All,
                _ => {
                    let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
                    args.set(flag, value);
                }
            }
        }
        Ok(args)
    }

    fn set(&mut self, flag: &str, value: &str) {
        match flag {
            "json" => self.json = Some(value.into()),
            "dir" => self.dir = value.into(),
            knob => {
                self.knobs.push((knob.to_string(), values(value)));
            }
        }
    }
}

/// The values of a list. One that is made of `key=value` parts itself, such as a device, begins
/// with its first key.
fn values(list: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for part in list.split(',') {
        match values.last_mut() {
            Some(last) if last.contains('=') && !part.starts_with("latency=") => {
                last.push(',');
                last.push_str(part);
            }
            _ => values.push(part.to_string()),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn flags_and_knobs_are_told_apart() {
        let args = Args::parse(&words("--quick --indexes 0,5 --json out")).unwrap();
        assert_eq!(args.size, Size::Quick);
        assert_eq!(args.json, Some("out".into()));
        assert_eq!(args.knobs, [("indexes".to_string(), words("0 5"))]);
    }

    #[test]
    fn unknown_words_and_missing_values_are_refused() {
        assert!(Args::parse(&words("quick")).is_err());
        assert!(Args::parse(&words("--json")).is_err());
    }

    #[test]
    fn a_device_is_one_value() {
        let device = "latency=500us,depth=64";
        let list = format!("native,{device},latency=1ms,depth=2");
        assert_eq!(values(&list), ["native", device, "latency=1ms,depth=2"]);
        assert_eq!(values("1,5"), ["1", "5"]);
    }
}
