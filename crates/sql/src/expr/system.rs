//! Functions about the server and about values as such.
//!
//! Does not do: privileges (`privileges`).

use crate::error::{Result, SqlError};
use crate::expr::Context;
use crate::expr::function::Registry;
use crate::settings::{VERSION, check_settable};
use crate::types::{Datum, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    registry.add("version", &[], T::Text, |_, _| {
        let own = env!("CARGO_PKG_VERSION");
        Ok(Datum::Text(format!("PostgreSQL {VERSION} (Rightlink {own})")))
    });
    for name in ["current_user", "user", "current_role"] {
        registry.add(name, &[], T::Name, |_, c| Ok(Datum::Text(c.user.to_string())));
    }
    registry.add("session_user", &[], T::Name, |_, c| {
        Ok(Datum::Text(c.session_user.as_ref().unwrap_or(&c.user).to_string()))
    });
    for name in ["current_database", "current_catalog"] {
        registry.add(name, &[], T::Name, |_, c| Ok(Datum::Text(c.database.to_string())));
    }
    let type_of = registry.add("pg_typeof", &[T::Unknown], T::Text, |v, _| {
        // The binder puts the type's name in; only null gets here without one.
        Ok(Datum::Text(v[0].type_of().unwrap_or(T::Unknown).name().to_owned()))
    });
    type_of.strict = false;
    registry.add("gen_random_uuid", &[], T::Uuid, |_, context| Ok(random_uuid(context))).volatile =
        true;
    for (name, nulls) in [("num_nulls", true), ("num_nonnulls", false)] {
        let eval = if nulls {
            |v: &[Datum], _: &Context| count(v, true)
        } else {
            |v: &[Datum], _: &Context| count(v, false)
        };
        let function = registry.add(name, &[T::Unknown], T::Int4, eval);
        function.variadic = true;
        function.strict = false;
    }
    register_session(registry);
    registry.add("pg_sleep", &[T::Float8], T::Void, |v, context| sleep(&v[0], context)).volatile =
        true;
}

/// Functions about the session that calls them.
fn register_session(registry: &mut Registry) {
    use SqlType as T;
    let pid = registry.add("pg_backend_pid", &[], T::Int4, |_, c| Ok(Datum::Int4(c.pid as i32)));
    pid.volatile = true;
    registry
        .add("current_setting", &[T::Text], T::Text, |v, c| setting(&v[0], c).map(Datum::Text))
        .volatile = true;
    let lenient =
        registry.add("current_setting", &[T::Text, T::Bool], T::Text, |v, c| {
            match setting(&v[0], c) {
                Err(_) if v[1] == Datum::Bool(true) => Ok(Datum::Null),
                other => other.map(Datum::Text),
            }
        });
    lenient.volatile = true;
    let set = registry.add("set_config", &[T::Text, T::Text, T::Bool], T::Text, |v, c| {
        let Datum::Text(name) = &v[0] else {
            return Err(SqlError::new("22004", "SET requires parameter name"));
        };
        let value = match &v[1] {
            Datum::Text(value) => Some(std::slice::from_ref(value)),
            _ => None,
        };
        let local = v[2] == Datum::Bool(true);
        check_settable(name)?;
        c.settings.set(name, value, local)?;
        c.settings.show(name).map(Datum::Text)
    });
    // No value sets what RESET would.
    set.strict = false;
    set.volatile = true;
}

fn setting(name: &Datum, context: &Context) -> Result<String> {
    let Datum::Text(name) = name else { return Ok(String::new()) };
    context.settings.show_in(context.modes, name)
}

/// Sleeps in pieces, so that it can be interrupted. PostgreSQL gives void, which prints as nothing.
fn sleep(seconds: &Datum, context: &Context) -> Result<Datum> {
    let mut left = seconds.as_float().unwrap_or(0.0).clamp(0.0, 1e9);
    while left > 0.0 {
        context.check()?;
        let piece = left.min(0.02);
        rightlink_env::thread::sleep(std::time::Duration::from_secs_f64(piece));
        left -= piece;
    }
    context.check()?;
    Ok(Datum::Text(String::new()))
}

fn count(values: &[Datum], nulls: bool) -> Result<Datum> {
    Ok(Datum::Int4(values.iter().filter(|value| value.is_null() == nulls).count() as i32))
}

/// Version 4, variant 1.
fn random_uuid(context: &Context) -> Datum {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&context.next_random().to_be_bytes());
    out[8..].copy_from_slice(&context.next_random().to_be_bytes());
    out[6] = out[6] & 0x0f | 0x40;
    out[8] = out[8] & 0x3f | 0x80;
    Datum::Uuid(out)
}
