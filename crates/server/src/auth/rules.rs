//! Who may connect from where, and how they prove who they are: rules in the form of PostgreSQL's
//! `pg_hba.conf`.
//!
//! Invariants: the first rule that fits decides, and where none does nobody gets in. A file with a
//! line that is not understood is refused as a whole.
//! Does not do: rules for the Unix socket, which only its owner can open; names of machines, which
//! would have to be looked up; methods other than `trust`, `reject` and `scram-sha-256`.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use crate::config_error::ConfigError;

/// How a client proves who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    /// Not at all.
    Trust,
    /// It does not get in.
    Reject,
    /// By SCRAM-SHA-256.
    Password,
}

/// Which connections a rule is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Any,
    Encrypted,
    Plain,
}

/// Whom a rule is for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    All,
    /// The database that is called as the user.
    SameUser,
    /// Members of a role.
    Members(String),
    Named(String),
}

/// Addresses that have the first bits of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    bits: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    transport: Transport,
    databases: Vec<Name>,
    users: Vec<Name>,
    /// `None`: all addresses.
    network: Option<Network>,
    method: Method,
}

/// Who may connect from where. See `docs/operations.md`.
///
/// ```
/// let text = "hostssl all ann 10.0.0.0/8 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
/// assert!(rightlink_server::Rules::parse(text).is_ok());
/// assert_eq!(rightlink_server::Rules::parse("host all all all md5").unwrap_err().line, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// A line of a file of rules that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRules {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for InvalidRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for InvalidRules {}

/// A client that wants to connect.
pub(crate) struct Client<'c> {
    pub(crate) address: IpAddr,
    pub(crate) is_encrypted: bool,
    pub(crate) database: &'c str,
    pub(crate) user: &'c str,
    /// Is the user a member of this role?
    pub(crate) is_member: &'c dyn Fn(&str) -> bool,
}

impl Rules {
    /// Reads lines of `TYPE DATABASE USER ADDRESS METHOD`. The type is `host`, `hostssl` or
    /// `hostnossl`. Databases and users are lists with commas, or `all`; `sameuser` is the database
    /// that is called as the user, `+name` a member of a role. The address is `all`, or one with
    /// the number of its bits behind a slash or a mask in the next column. `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is something else.
    pub fn parse(text: &str) -> Result<Rules, InvalidRules> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let invalid = |what: String| InvalidRules { line: at + 1, what };
            let words = words(line).map_err(invalid)?;
            if !words.is_empty() {
                let rule = rule(&words);
                rules.push(rule.map_err(|what| InvalidRules { line: at + 1, what })?);
            }
        }
        Ok(Rules(rules))
    }

    /// Reads a file of rules, as [`Rules::parse`] does.
    ///
    /// # Errors
    /// A file that cannot be read or that holds another line.
    pub fn read(path: &Path) -> Result<Rules, ConfigError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| ConfigError::Io(name.clone(), error))?;
        Rules::parse(&text).map_err(|error| ConfigError::Data(format!("{name}: {error}")))
    }

    /// How the client has to prove who it is; `None`: there is no rule for it.
    pub(crate) fn method(&self, client: &Client<'_>) -> Option<Method> {
        self.0.iter().find(|rule| rule.fits(client)).map(|rule| rule.method)
    }

    /// Lets no rule a client in from another machine without a password?
    pub(crate) fn asks_strangers(&self) -> bool {
        let is_near = |network: &Network| network.address.is_loopback();
        let trusts = |rule: &Rule| {
            rule.method == Method::Trust && !rule.network.as_ref().is_some_and(is_near)
        };
        !self.0.iter().any(trusts)
    }
}

impl Rule {
    fn fits(&self, client: &Client<'_>) -> bool {
        let transport = match self.transport {
            Transport::Any => true,
            Transport::Encrypted => client.is_encrypted,
            Transport::Plain => !client.is_encrypted,
        };
        let database = |name: &Name| match name {
            Name::All => true,
            Name::SameUser => client.database == client.user,
            Name::Members(role) => (client.is_member)(role) && client.database == role,
            Name::Named(name) => name == client.database,
        };
        let user = |name: &Name| match name {
            Name::All => true,
            Name::SameUser => false,
            Name::Members(role) => (client.is_member)(role),
            Name::Named(name) => name == client.user,
        };
        transport
            && self.network.is_none_or(|network| network.has(client.address))
            && self.databases.iter().any(database)
            && self.users.iter().any(user)
    }
}

impl Network {
    fn has(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.leading_zeros() >= self.bits.min(32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.leading_zeros() >= self.bits.min(128)
            }
            _ => false,
        }
    }
}

/// The words of a line. Quotes keep blanks and keywords; a comma with blanks behind it goes on.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let (mut chars, mut joins) = (line.chars().peekable(), false);
    while let Some(c) = chars.next() {
        match c {
            '#' => break,
            c if c.is_whitespace() => continue,
            ',' => {
                let last = words.last_mut().ok_or("a line cannot begin with a comma")?;
                last.push(',');
                joins = true;
                continue;
            }
            _ => {}
        }
        let mut word = String::new();
        if c == '"' {
            // What stands in quotes is a name, whatever it says.
            word.push('"');
            loop {
                match chars.next() {
                    Some('"') => break,
                    Some(c) => word.push(c),
                    None => return Err("a quote is not closed".to_owned()),
                }
            }
        } else {
            word.push(c);
            while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != ',' && *c != '#') {
                word.push(c);
            }
        }
        match words.last_mut().filter(|_| joins) {
            Some(last) => last.push_str(&word),
            None => words.push(word),
        }
        joins = false;
    }
    Ok(words)
}

fn rule(words: &[String]) -> Result<Rule, String> {
    let transport = match words[0].as_str() {
        "host" => Transport::Any,
        "hostssl" => Transport::Encrypted,
        "hostnossl" => Transport::Plain,
        "local" => return Err("local: the Unix socket is its owner's, who needs no rule".into()),
        other => return Err(format!("{other}: the type is host, hostssl or hostnossl")),
    };
    let (databases, users, address, rest) = match &words[1..] {
        [databases, users, address, rest @ ..] => (databases, users, address, rest),
        _ => return Err("a rule has a database, a user, an address and a method".to_owned()),
    };
    let (network, rest) = match (address.as_str(), rest) {
        ("all", rest) => (None, rest),
        (address, rest) if address.contains('/') => (Some(network(address)?), rest),
        (address, [mask, rest @ ..]) if mask.parse::<IpAddr>().is_ok() => {
            (Some(masked(address, mask)?), rest)
        }
        (address, _) => return Err(format!("{address}: an address has a slash and its bits")),
    };
    let method = match rest {
        [] => return Err("the method is missing".to_owned()),
        [method] => match method.as_str() {
            "trust" => Method::Trust,
            "reject" => Method::Reject,
            "scram-sha-256" => Method::Password,
            other => {
                let known = "the methods are trust, reject and scram-sha-256";
                return Err(format!("{other}: {known}"));
            }
        },
        [_, option, ..] => return Err(format!("{option}: there are no options of methods")),
    };
    let (databases, users) = (names(databases)?, names(users)?);
    Ok(Rule { transport, databases, users, network, method })
}

fn names(list: &str) -> Result<Vec<Name>, String> {
    let name = |word: &str| match word {
        "" => Err("a name is missing beside a comma".to_owned()),
        "all" => Ok(Name::All),
        "sameuser" => Ok(Name::SameUser),
        "samerole" | "samegroup" | "replication" => Err(format!("{word} is not supported")),
        word => Ok(match (word.strip_prefix('+'), word.strip_prefix('"')) {
            (Some(role), _) => Name::Members(role.to_owned()),
            (None, Some(quoted)) => Name::Named(quoted.to_owned()),
            (None, None) => Name::Named(word.to_owned()),
        }),
    };
    list.split(',').map(name).collect()
}

fn network(text: &str) -> Result<Network, String> {
    let invalid = || format!("{text} is no address with its bits");
    let (address, bits) = text.split_once('/').ok_or_else(invalid)?;
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(invalid)?;
    Ok(Network { address, bits })
}

fn masked(address: &str, mask: &str) -> Result<Network, String> {
    let invalid = || format!("{address} {mask} is no address with its mask");
    let parse = |text: &str| text.parse::<IpAddr>().map_err(|_| invalid());
    let (address, mask) = (parse(address)?, parse(mask)?);
    let (ones, zeros) = match mask {
        IpAddr::V4(mask) => {
            let bits = u32::from(mask);
            (bits.leading_ones(), bits.trailing_zeros())
        }
        IpAddr::V6(mask) => {
            let bits = u128::from(mask);
            (bits.leading_ones(), bits.trailing_zeros())
        }
    };
    let all = if mask.is_ipv4() { 32 } else { 128 };
    let is_mask = ones + zeros.min(all) >= all && address.is_ipv4() == mask.is_ipv4();
    if is_mask { Ok(Network { address, bits: ones }) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(
        rules: &Rules,
        address: &str,
        names: [&str; 2],
        is_encrypted: bool,
    ) -> Option<Method> {
        let [database, user] = names;
        let address = address.parse().unwrap();
        let is_member = |role: &str| role == "staff" && user == "ann";
        rules.method(&Client { address, is_encrypted, database, user, is_member: &is_member })
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = "# a comment\n\
                    host all eve all reject\n\
                    hostnossl all all 10.0.0.0/8 reject # plain\n\
                    host shop, \"all\" +staff 10.1.0.0 255.255.0.0 trust\n\
                    host sameuser all ::1/128 trust\n\n\
                    host all all 10.0.0.0/8 scram-sha-256\n";
        let rules = Rules::parse(text).unwrap();
        let of = |address, names, encrypted| method(&rules, address, names, encrypted);
        assert_eq!(of("10.1.2.3", ["shop", "eve"], true), Some(Method::Reject));
        assert_eq!(of("10.1.2.3", ["shop", "ann"], false), Some(Method::Reject));
        assert_eq!(of("10.1.2.3", ["shop", "ann"], true), Some(Method::Trust));
        assert_eq!(of("::ffff:10.1.2.3", ["all", "ann"], true), Some(Method::Trust));
        assert_eq!(of("10.1.2.3", ["other", "ann"], true), Some(Method::Password));
        assert_eq!(of("10.2.2.3", ["shop", "ann"], true), Some(Method::Password));
        assert_eq!(of("::1", ["bob", "bob"], true), Some(Method::Trust));
        assert_eq!(of("::1", ["shop", "bob"], true), None);
        assert_eq!(of("192.168.0.1", ["shop", "ann"], true), None);
        assert_eq!(
            Rules::default().method(&Client {
                address: "::1".parse().unwrap(),
                is_encrypted: true,
                database: "a",
                user: "b",
                is_member: &|_| true,
            }),
            None
        );
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (line, what) in [
            ("local all all trust", "local: the Unix socket"),
            ("hosts all all all trust", "hosts: the type"),
            ("host all all all", "the method is missing"),
            ("host all all", "a rule has"),
            ("host all all all ldap", "ldap: the methods"),
            ("host all all all scram-sha-256 clientcert=1", "clientcert=1: there are no options"),
            ("host all all 10.0.0.1 trust", "10.0.0.1: an address"),
            ("host all all 10.0.0.0/33 trust", "10.0.0.0/33 is no address"),
            ("host all all 10.0.0.0 255.0.255.0 trust", "10.0.0.0 255.0.255.0 is no address"),
            ("host all all db.example.com trust", "db.example.com: an address"),
            ("host samerole all all trust", "samerole is not supported"),
            ("host a,,b all all trust", "a name is missing"),
            ("host \"a all all trust", "a quote is not closed"),
        ] {
            let error = Rules::parse(&format!("\n{line}")).unwrap_err();
            assert_eq!(error.line, 2, "{line}");
            assert!(error.what.contains(what), "{line}: {}", error.what);
        }
    }

    #[test]
    fn strangers_are_asked_unless_a_rule_trusts_them() {
        let asks = |text: &str| Rules::parse(text).unwrap().asks_strangers();
        assert!(asks("host all all 127.0.0.1/32 trust\nhost all all all scram-sha-256"));
        assert!(!asks("host all all 10.0.0.0/8 trust"));
        assert!(!asks("host all all all trust"));
    }
}
