//! SET in its forms, and names of settings.
//!
//! Does not do: what a setting is, and whether a value is one of it (`settings`).

use sqlparser::tokenizer::Token;

use super::Utility;
use crate::error::Result;
use crate::parse::cursor::Cursor;
use crate::parse::modes::modes;

/// The name of a setting, some of which are several words.
pub(super) fn name(cursor: &mut Cursor) -> Result<String> {
    if cursor.is("session") && cursor.is_at(1, "authorization") {
        cursor.expect("session")?;
        cursor.expect("authorization")?;
        return Ok("session_authorization".to_owned());
    }
    if cursor.take("time") {
        cursor.expect("zone")?;
        return Ok("timezone".to_owned());
    }
    if cursor.is("transaction") && cursor.is_at(1, "isolation") {
        cursor.take("transaction");
        cursor.take("isolation");
        cursor.expect("level")?;
        return Ok("transaction_isolation".to_owned());
    }
    Ok(cursor.qualified()?.join("."))
}

/// SET, behind its first word.
pub(super) fn set(cursor: &mut Cursor) -> Result<Utility> {
    if cursor.is("session") && cursor.is_at(1, "characteristics") {
        for word in ["session", "characteristics", "as", "transaction"] {
            cursor.expect(word)?;
        }
        return Ok(Utility::SetTransaction { modes: modes(cursor)?, session: true });
    }
    if cursor.is("constraints") && !cursor.is_at(1, "to") {
        return set_constraints(cursor);
    }
    let local = cursor.take("local");
    let session = !local && cursor.take("session");
    if let Some(as_role) = set_role(cursor, session, local)? {
        return Ok(as_role);
    }
    if cursor.take("transaction") {
        return Ok(Utility::SetTransaction { modes: modes(cursor)?, session: false });
    }
    if cursor.take("names") {
        let value = cursor.value().map(|value| vec![value]);
        return Ok(Utility::Set { name: "client_encoding".to_owned(), value, local });
    }
    if cursor.take("schema") {
        let value = cursor.string().ok_or_else(|| cursor.unexpected())?;
        return Ok(Utility::Set {
            name: "search_path".to_owned(),
            value: Some(vec![value]),
            local,
        });
    }
    let zone = cursor.is("time");
    let name = name(cursor)?;
    if !zone && !cursor.take_token(&Token::Eq) {
        cursor.expect("to")?;
    }
    if cursor.take("default") || (zone && cursor.take("local")) {
        return Ok(Utility::Set { name, value: None, local });
    }
    if zone && cursor.take("interval") {
        let value = Some(vec![zone_of_interval(cursor)?]);
        return Ok(Utility::Set { name, value, local });
    }
    let mut values = Vec::new();
    loop {
        let value = match name.as_str() {
            // Names, which are in lower case without quotes.
            "search_path" => cursor.string().or_else(|| cursor.name().ok()),
            _ => cursor.value(),
        };
        values.push(value.ok_or_else(|| cursor.unexpected())?);
        if !cursor.take_token(&Token::Comma) {
            return Ok(Utility::Set { name, value: Some(values), local });
        }
    }
}

/// SET ROLE or SET SESSION AUTHORIZATION, in its form without an equals sign.
fn set_role(cursor: &mut Cursor, session: bool, local: bool) -> Result<Option<Utility>> {
    let is_assigned = |ahead: usize| cursor.is_at(ahead, "to") || cursor.is_at(ahead, "=");
    let name = if cursor.is("role") && !is_assigned(1) {
        "role"
    } else if session && cursor.is("authorization") {
        "session_authorization"
    } else {
        return Ok(None);
    };
    cursor.name()?;
    let value = match cursor.take("default") {
        true => None,
        false => Some(vec![cursor.string().map_or_else(|| cursor.name(), Ok)?]),
    };
    Ok(Some(Utility::Set { name: name.to_owned(), value, local }))
}

fn set_constraints(cursor: &mut Cursor) -> Result<Utility> {
    cursor.expect("constraints")?;
    let names = match cursor.take("all") {
        true => None,
        false => {
            let mut names = vec![cursor.qualified()?];
            while cursor.take_token(&Token::Comma) {
                names.push(cursor.qualified()?);
            }
            Some(names)
        }
    };
    let deferred = cursor.take("deferred");
    if !deferred {
        cursor.expect("immediate")?;
    }
    Ok(Utility::SetConstraints { names, deferred })
}

/// The offset of SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE, as the setting reads it.
fn zone_of_interval(cursor: &mut Cursor) -> Result<String> {
    let offset = cursor.string().ok_or_else(|| cursor.unexpected())?;
    if cursor.take("hour") && cursor.take("to") {
        cursor.expect("minute")?;
    }
    Ok(format!("interval '{offset}'"))
}
