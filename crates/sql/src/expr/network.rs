//! Operators and functions over addresses, as PostgreSQL's `network.c` has them.
//!
//! Those that PostgreSQL has over `inet` alone take a `cidr` too, which becomes one by itself.
//!
//! Does not do: comparisons (`operators`), addresses of clients (`system`).

use crate::error::{Result, SqlError, code};
use crate::expr::function::Registry;
use crate::expr::operators::{mismatch, out_of_range};
use crate::types::{Datum, Network, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    relations(registry);
    arithmetic(registry);
    parts(registry);
    masks(registry);
}

fn address(values: &[Datum], at: usize) -> Network {
    values[at].as_network().unwrap_or_else(|| mismatch(values))
}

fn both(values: &[Datum]) -> (Network, Network) {
    (address(values, 0), address(values, 1))
}

fn invalid(message: String) -> SqlError {
    SqlError::new(code::INVALID_PARAMETER, message)
}

/// Which of two networks holds the other.
fn relations(registry: &mut Registry) {
    let mut add = |name, eval| {
        registry.add(name, &[SqlType::Inet; 2], SqlType::Bool, eval);
    };
    add("<<", |v, _| related(v, |a, b| a.bits() > b.bits()));
    add("<<=", |v, _| related(v, |a, b| a.bits() >= b.bits()));
    add(">>", |v, _| related(v, |a, b| a.bits() < b.bits()));
    add(">>=", |v, _| related(v, |a, b| a.bits() <= b.bits()));
    add("&&", |v, _| related(v, |_, _| true));
    add("inet_same_family", |v, _| {
        let (a, b) = both(v);
        Ok(Datum::Bool(a.is_v6() == b.is_v6()))
    });
}

/// Is one of two networks part of the other, and do their masks meet a condition?
fn related(values: &[Datum], masks: fn(Network, Network) -> bool) -> Result<Datum> {
    let (a, b) = both(values);
    Ok(Datum::Bool(masks(a, b) && a.agrees(b, a.bits().min(b.bits()))))
}

fn arithmetic(registry: &mut Registry) {
    use SqlType as T;
    registry.add("~", &[T::Inet], T::Inet, |v, _| {
        let one = address(v, 0);
        Ok(of_address(one, !one.address() & one.whole_mask()))
    });
    registry.add("&", &[T::Inet, T::Inet], T::Inet, |v, _| combined(v, "AND", |a, b| a & b));
    registry.add("|", &[T::Inet, T::Inet], T::Inet, |v, _| combined(v, "OR", |a, b| a | b));
    registry.add("+", &[T::Inet, T::Int8], T::Inet, |v, _| moved(address(v, 0), whole(v, 1)));
    registry.add("+", &[T::Int8, T::Inet], T::Inet, |v, _| moved(address(v, 1), whole(v, 0)));
    registry.add("-", &[T::Inet, T::Int8], T::Inet, |v, _| moved(address(v, 0), -whole(v, 1)));
    registry.add("-", &[T::Inet, T::Inet], T::Int8, |v, _| distance(v));
}

fn whole(values: &[Datum], at: usize) -> i128 {
    values[at].as_int().map_or_else(|| mismatch(values), i128::from)
}

/// Another address under the same mask.
fn of_address(one: Network, address: u128) -> Datum {
    Datum::Inet(Network::new(one.is_v6(), one.bits(), address))
}

fn combined(values: &[Datum], name: &str, op: fn(u128, u128) -> u128) -> Result<Datum> {
    let (a, b) = both(values);
    if a.is_v6() != b.is_v6() {
        return Err(invalid(format!("cannot {name} inet values of different sizes")));
    }
    let bits = a.bits().max(b.bits());
    Ok(Datum::Inet(Network::new(a.is_v6(), bits, op(a.address(), b.address()))))
}

/// Bits behind the address in its number.
fn unused(one: Network) -> u32 {
    128 - u32::from(one.max_bits())
}

fn moved(one: Network, by: i128) -> Result<Datum> {
    let number = (one.address() >> unused(one)).checked_add_signed(by);
    let most = one.whole_mask() >> unused(one);
    match number.filter(|number| *number <= most) {
        Some(number) => Ok(of_address(one, number << unused(one))),
        None => Err(out_of_range("result is out of range")),
    }
}

fn distance(values: &[Datum]) -> Result<Datum> {
    let (a, b) = both(values);
    if a.is_v6() != b.is_v6() {
        return Err(invalid("cannot subtract inet values of different sizes".to_owned()));
    }
    let [x, y] = [a, b].map(|one| one.address() >> unused(one));
    let apart = i128::try_from(x.abs_diff(y)).ok().map(|apart| if x < y { -apart } else { apart });
    let apart = apart.and_then(|apart| i64::try_from(apart).ok());
    apart.map(Datum::Int8).ok_or_else(|| out_of_range("result is out of range"))
}

fn parts(registry: &mut Registry) {
    use SqlType as T;
    registry.add("host", &[T::Inet], T::Text, |v, _| Ok(Datum::Text(address(v, 0).host())));
    registry.add("text", &[T::Inet], T::Text, |v, _| Ok(Datum::Text(address(v, 0).to_text(true))));
    registry
        .add("abbrev", &[T::Inet], T::Text, |v, _| Ok(Datum::Text(address(v, 0).to_text(false))));
    registry
        .add("abbrev", &[T::Cidr], T::Text, |v, _| Ok(Datum::Text(address(v, 0).abbreviated())));
    registry.add("family", &[T::Inet], T::Int4, |v, _| {
        Ok(Datum::Int4(if address(v, 0).is_v6() { 6 } else { 4 }))
    });
    registry.add("masklen", &[T::Inet], T::Int4, |v, _| {
        Ok(Datum::Int4(i32::from(address(v, 0).bits())))
    });
    registry.add("netmask", &[T::Inet], T::Inet, |v, _| {
        let one = address(v, 0);
        Ok(of_address(one.masked(one.max_bits()), one.mask()))
    });
    registry.add("hostmask", &[T::Inet], T::Inet, |v, _| {
        let one = address(v, 0);
        Ok(of_address(one.masked(one.max_bits()), one.whole_mask() & !one.mask()))
    });
    registry.add("broadcast", &[T::Inet], T::Inet, |v, _| {
        let one = address(v, 0);
        Ok(of_address(one, one.address() | one.whole_mask() & !one.mask()))
    });
    for name in ["network", "cidr"] {
        registry.add(name, &[T::Inet], T::Cidr, |v, _| Ok(Datum::Cidr(address(v, 0).network())));
    }
}

fn masks(registry: &mut Registry) {
    use SqlType as T;
    registry.add("set_masklen", &[T::Inet, T::Int4], T::Inet, |v, _| {
        Ok(Datum::Inet(address(v, 0).masked(mask_length(v)?)))
    });
    registry.add("set_masklen", &[T::Cidr, T::Int4], T::Cidr, |v, _| {
        Ok(Datum::Cidr(address(v, 0).masked(mask_length(v)?).network()))
    });
    registry.add("inet_merge", &[T::Inet, T::Inet], T::Cidr, |v, _| {
        let (a, b) = both(v);
        if a.is_v6() != b.is_v6() {
            let message = "cannot merge addresses from different families";
            return Err(invalid(message.to_owned()));
        }
        let same = (a.address() ^ b.address()).leading_zeros() as u8;
        let bits = same.min(a.bits()).min(b.bits());
        Ok(Datum::Cidr(a.masked(bits).network()))
    });
}

/// The length of a mask that is asked for; -1 means all of the address.
fn mask_length(values: &[Datum]) -> Result<u8> {
    let most = address(values, 0).max_bits();
    match values[1].as_int() {
        Some(-1) => Ok(most),
        Some(bits) if (0..=i64::from(most)).contains(&bits) => Ok(bits as u8),
        Some(bits) => Err(invalid(format!("invalid mask length: {bits}"))),
        None => mismatch(values),
    }
}
