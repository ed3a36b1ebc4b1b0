//! Functions of sessions for each other: advisory locks, notifications, cancel and terminate.
//!
//! Those that PostgreSQL declares as `void` give an empty text, which prints as nothing.
//!
//! Does not do: the locks and the notifications (`activity`).

use super::catalog;
use crate::activity::Client;
use crate::activity::advisory::{Key, Mode, Request, Until, Wait};
use crate::error::{Result, SqlError, code};
use crate::expr::function::{Eval, Registry};
use crate::expr::{Context, Db};
use crate::roles::role::SIGNAL_BACKEND;
use crate::types::{Array, Datum, ElementType, SqlType};

/// Adds the functions.
pub(super) fn register(registry: &mut Registry) {
    register_locks(registry);
    register_notifications(registry);
    register_signals(registry);
    use SqlType as T;
    let mut add = |name, args: &[SqlType], result, eval: Eval| {
        registry.add(name, args, result, eval).volatile = true;
    };
    let pids = SqlType::array_of(T::Int4).expect("numbers are elements");
    add("pg_blocking_pids", &[T::Int4], pids, |v, c| {
        let element = ElementType::of(T::Int4).expect("numbers are elements");
        let pids = blockers(c, pid(&v[0])).into_iter();
        Array::of(element, pids.map(|pid| Datum::Int4(pid as i32)).collect()).map(Datum::from)
    });
    let name = "pg_isolation_test_session_is_blocked";
    add(name, &[T::Int4, pids], T::Bool, |v, c| {
        let Datum::Array(among) = &v[1] else { unreachable!("the function takes an array") };
        let blockers = blockers(c, pid(&v[0]));
        Ok(Datum::Bool(among.values().iter().any(|one| blockers.contains(&pid(one)))))
    });
}

/// Functions that end what others do. Who may is a matter of roles, which catalogs know.
fn register_signals(registry: &mut Registry) {
    use SqlType as T;
    let mut add = |name, args: &[SqlType], eval: Eval| {
        catalog::reading(registry, name, args, T::Bool, eval).volatile = true;
    };
    add("pg_cancel_backend", &[T::Int4], |v, c| {
        let client = c.activity.client(pid(&v[0]));
        if let Some(client) = &client {
            check_may_end(client, "cancel", "query is being canceled", c)?;
            client.cancel();
        }
        Ok(Datum::Bool(client.is_some()))
    });
    add("pg_terminate_backend", &[T::Int4], |v, c| terminate(&v[0], 0, c));
    add("pg_terminate_backend", &[T::Int4, T::Int8], |v, c| {
        let timeout = v[1].as_int().unwrap_or(0);
        if timeout < 0 {
            return Err(SqlError::new("22003", "\"timeout\" must not be negative"));
        }
        terminate(&v[0], timeout, c)
    });
}

/// Fails unless the session's role may end what another session does.
fn check_may_end(client: &Client, verb: &str, what: &str, context: &Context) -> Result<()> {
    catalog::asked(context, |objects, _| {
        let own = objects.actor_named(&context.user);
        if own.is_superuser {
            return Ok(());
        }
        let other = objects.actor_named(&client.who.user);
        let denied = |message: String| SqlError::new(code::INSUFFICIENT_PRIVILEGE, message);
        if other.is_superuser {
            let noun = if verb == "cancel" { "query" } else { "process" };
            return Err(denied(format!("must be a superuser to {verb} superuser {noun}")));
        }
        if own.has_privileges_of(other.oid) || own.has_privileges_of(SIGNAL_BACKEND) {
            return Ok(());
        }
        Err(denied(format!(
            "must be a member of the role whose {what} or member of pg_signal_backend"
        )))
    })
}

fn register_locks(registry: &mut Registry) {
    use SqlType as T;
    let waiting: [(&'static str, Eval); 4] = [
        ("pg_advisory_lock", |v, c| lock(v, c, Mode::Exclusive, Until::Session)),
        ("pg_advisory_lock_shared", |v, c| lock(v, c, Mode::Share, Until::Session)),
        ("pg_advisory_xact_lock", |v, c| lock(v, c, Mode::Exclusive, Until::Transaction)),
        ("pg_advisory_xact_lock_shared", |v, c| lock(v, c, Mode::Share, Until::Transaction)),
    ];
    let tells: [(&'static str, Eval); 6] = [
        ("pg_try_advisory_lock", |v, c| try_lock(v, c, Mode::Exclusive, Until::Session)),
        ("pg_try_advisory_lock_shared", |v, c| try_lock(v, c, Mode::Share, Until::Session)),
        ("pg_try_advisory_xact_lock", |v, c| try_lock(v, c, Mode::Exclusive, Until::Transaction)),
        ("pg_try_advisory_xact_lock_shared", |v, c| {
            try_lock(v, c, Mode::Share, Until::Transaction)
        }),
        ("pg_advisory_unlock", |v, c| Ok(unlock(v, c, Mode::Exclusive))),
        ("pg_advisory_unlock_shared", |v, c| Ok(unlock(v, c, Mode::Share))),
    ];
    for args in [&[T::Int8][..], &[T::Int4, T::Int4]] {
        for (name, eval) in waiting {
            registry.add(name, args, T::Void, eval).volatile = true;
        }
        for (name, eval) in tells {
            registry.add(name, args, T::Bool, eval).volatile = true;
        }
    }
    let unlock_all = registry.add("pg_advisory_unlock_all", &[], T::Void, |_, c| {
        c.activity.unlock_all_advisory(c.pid);
        Ok(void())
    });
    unlock_all.volatile = true;
}

fn register_notifications(registry: &mut Registry) {
    use SqlType as T;
    let notify = registry.add("pg_notify", &[T::Text, T::Text], T::Void, |v, c| {
        let text = |value: &Datum| match value {
            Datum::Text(text) => text.clone(),
            _ => String::new(),
        };
        c.activity.notify(c.pid, &text(&v[0]), &text(&v[1]))?;
        Ok(void())
    });
    // A null is an empty text.
    (notify.strict, notify.volatile) = (false, true);
    let usage = registry.add("pg_notification_queue_usage", &[], T::Float8, |_, c| {
        Ok(Datum::Float8(c.activity.notification_usage()))
    });
    usage.volatile = true;
}

fn void() -> Datum {
    Datum::Text(String::new())
}

fn pid(value: &Datum) -> u32 {
    value.as_int().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
}

fn key(values: &[Datum]) -> Key {
    match values {
        [Datum::Int4(one), Datum::Int4(two)] => Key::Two(*one, *two),
        values => Key::One(values[0].as_int().expect("the function takes numbers")),
    }
}

/// Waits for a lock.
fn lock(values: &[Datum], context: &Context, mode: Mode, until: Until) -> Result<Datum> {
    let Some(Db(db)) = &context.db else { return Ok(void()) };
    let request = Request { pid: context.pid, key: key(values), mode, until };
    let lock_timeout = context.settings.often().lock_timeout;
    let wait = Wait { db, interrupts: context, lock_timeout };
    context.activity.lock_advisory(&request, Some(&wait)).map(|_| void())
}

/// Takes a lock, if nobody has it. Gives whether that was so.
fn try_lock(values: &[Datum], context: &Context, mode: Mode, until: Until) -> Result<Datum> {
    let request = Request { pid: context.pid, key: key(values), mode, until };
    context.activity.lock_advisory(&request, None).map(Datum::Bool)
}

fn unlock(values: &[Datum], context: &Context, mode: Mode) -> Datum {
    Datum::Bool(context.activity.unlock_advisory(context.pid, key(values), mode))
}

/// The sessions that session `pid` waits for.
fn blockers(context: &Context, pid: u32) -> Vec<u32> {
    context.db.as_ref().map_or(Vec::new(), |Db(db)| context.activity.blockers(pid, db))
}

/// Ends a session and waits for so many milliseconds until it is gone. Gives whether it is, where
/// it was waited for.
fn terminate(number: &Datum, timeout: i64, context: &Context) -> Result<Datum> {
    let number = pid(number);
    let Some(client) = context.activity.client(number) else { return Ok(Datum::Bool(false)) };
    check_may_end(&client, "terminate", "process is being terminated", context)?;
    client.terminate();
    let Some(db) = context.db.as_ref().filter(|_| timeout > 0) else {
        return Ok(Datum::Bool(true));
    };
    let until = db.now().saturating_add(timeout.saturating_mul(1_000));
    while context.activity.client(number).is_some() {
        context.check()?;
        if db.now() > until {
            return Ok(Datum::Bool(false));
        }
        rightlink_env::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(Datum::Bool(true))
}
