//! Functions that read catalogs: names and numbers of objects, definitions, sizes, comments,
//! privileges.
//!
//! Invariants: they look at what the statement's transaction saw when it began, and at nothing
//! else. A number that no object has gives null, as in PostgreSQL.
//! Does not do: privileges (`privileges`).

use std::sync::Arc;

use crate::catalog::{self, Address, Asking, How, Objects, no_object};
use crate::encoding::Encoding;
use crate::error::{Result, SqlError, code};
use crate::expr::Context;
use crate::expr::function::{Eval, Registry, SetFunction};
use crate::expr::operators::mismatch;
use crate::types::declared::format_type;
use crate::types::{Datum, ElementType, RegKind, Registered, SqlType};

/// The types of numbers of objects that are shown by name.
const KINDS: [RegKind; 7] = [
    RegKind::Class,
    RegKind::Type,
    RegKind::Proc,
    RegKind::Procedure,
    RegKind::Namespace,
    RegKind::Role,
    RegKind::Operator,
];

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    names(registry);
    definitions(registry);
    sizes(registry);
    visibility(registry);
    server(registry);
}

/// Adds a function that reads catalogs.
pub(super) fn reading<'r>(
    registry: &'r mut Registry,
    name: &'static str,
    args: &[SqlType],
    result: SqlType,
    eval: Eval,
) -> &'r mut crate::expr::function::Function {
    let function = registry.add(name, args, result, eval);
    function.reads_catalog = true;
    function
}

fn text(value: Option<impl Into<String>>) -> Result<Datum> {
    Ok(value.map_or(Datum::Null, |text| Datum::Text(text.into())))
}

pub(super) fn oid(value: &Datum) -> u32 {
    match value {
        Datum::Oid(oid) => *oid,
        Datum::Reg(one) => one.oid,
        _ => 0,
    }
}

/// Works with what the statement knows of catalogs.
pub(super) fn asked<T>(
    context: &Context,
    work: impl FnOnce(&Objects, Asking<'_>) -> Result<T>,
) -> Result<T> {
    let objects: Arc<Objects> = context.exec_state.objects()?;
    let path = context.settings.path();
    work(&objects, Asking { path: &path, user: &context.user, database: &context.database })
}

fn names(registry: &mut Registry) {
    use SqlType as T;
    for kind in KINDS {
        let ty = T::Reg(kind);
        // A pointer to a function knows the type by where it is.
        let Named { of_text, of_number, of_texts, of_numbers, to } = match kind {
            RegKind::Class => named::<0>(),
            RegKind::Type => named::<1>(),
            RegKind::Proc => named::<2>(),
            RegKind::Procedure => named::<3>(),
            RegKind::Namespace => named::<4>(),
            RegKind::Role => named::<5>(),
            RegKind::Operator => named::<6>(),
        };
        reading(registry, kind.name(), &[T::Text], ty, of_text);
        reading(registry, kind.name(), &[T::Oid], ty, of_number);
        if let (Some(numbers), Some(all)) = (T::array_of(T::Oid), T::array_of(ty)) {
            reading(registry, kind.name(), &[numbers], all, of_numbers);
            reading(registry, kind.name(), &[T::texts()], all, of_texts);
        }
        let name = match kind {
            RegKind::Class => "to_regclass",
            RegKind::Type => "to_regtype",
            RegKind::Proc => "to_regproc",
            RegKind::Procedure => "to_regprocedure",
            RegKind::Namespace => "to_regnamespace",
            RegKind::Role => "to_regrole",
            RegKind::Operator => "to_regoperator",
        };
        reading(registry, name, &[T::Text], ty, to);
    }
    reading(registry, "pg_get_userbyid", &[T::Oid], T::Name, |v, context| {
        let oid = oid(&v[0]);
        asked(context, |objects, asking| {
            let name = objects.role_name(oid, asking);
            Ok(Datum::Text(name.unwrap_or_else(|| format!("unknown (OID={oid})"))))
        })
    });
    let format = reading(registry, "format_type", &[T::Oid, T::Int4], T::Text, |v, context| {
        let shown =
            asked(context, |objects, asking| Ok(objects.shown_type(oid(&v[0]), asking.path)));
        shown?.map_or_else(|| type_text(v), |shown| Ok(Datum::Text(shown)))
    });
    format.strict = false;
    reading(registry, "oidvectortypes", &[T::OidVector], T::Text, |v, context| {
        let Datum::Vector(types) = &v[0] else { return mismatch(v) };
        let shown = |ty: &Datum| {
            let known =
                asked(context, |objects, asking| Ok(objects.shown_type(oid(ty), asking.path)));
            Ok(known?.or_else(|| format_type(oid(ty), None)).unwrap_or_else(|| "???".to_owned()))
        };
        let names = types.values().iter().map(shown).collect::<Result<Vec<String>>>()?;
        Ok(Datum::Text(names.join(", ")))
    });
}

/// Functions that make a value of a type of objects.
struct Named {
    of_text: Eval,
    of_number: Eval,
    /// Of arrays of both.
    of_texts: Eval,
    of_numbers: Eval,
    /// Of a text that may name nothing.
    to: Eval,
}

fn named<const KIND: usize>() -> Named {
    let of_text: Eval = |v, context| {
        let Datum::Text(text) = &v[0] else { return mismatch(v) };
        match lookup(KINDS[KIND], text, context)? {
            Datum::Null => Err(no_object(KINDS[KIND], text)),
            found => Ok(found),
        }
    };
    let of_number: Eval = |v, context| {
        let (kind, oid) = (KINDS[KIND], oid(&v[0]));
        asked(context, |objects, asking| {
            Ok(Registered::datum(kind, oid, objects.shown(kind, oid, asking)))
        })
    };
    let of_texts: Eval = |v, context| each(KINDS[KIND], named::<KIND>().of_text, v, context);
    let of_numbers: Eval = |v, context| each(KINDS[KIND], named::<KIND>().of_number, v, context);
    let to: Eval = |v, context| match &v[0] {
        Datum::Text(text) => match lookup(KINDS[KIND], text, context) {
            Err(error) if error.sqlstate == code::INVALID_NAME => Err(error),
            found => Ok(found.unwrap_or_default()),
        },
        _ => mismatch(v),
    };
    Named { of_text, of_number, of_texts, of_numbers, to }
}

/// An array of objects, each made by `one`.
fn each(kind: RegKind, one: Eval, values: &[Datum], context: &Context) -> Result<Datum> {
    let Datum::Array(array) = &values[0] else { return mismatch(values) };
    let element = ElementType::of(SqlType::Reg(kind)).expect("such objects are elements");
    let change = |value: &Datum| match value {
        Datum::Null => Ok(Datum::Null),
        value => one(std::slice::from_ref(value), context),
    };
    Ok(array.mapped(element, change)?.into())
}

/// The object that a text names; null if there is none.
fn lookup(kind: RegKind, text: &str, context: &Context) -> Result<Datum> {
    asked(context, |objects, asking| {
        let found = objects.number(kind, text, asking)?;
        Ok(found.map_or(Datum::Null, |oid| {
            Registered::datum(kind, oid, objects.shown(kind, oid, asking))
        }))
    })
}

/// The type's name, with what its modifier says; `-` and `???` are PostgreSQL's words for none and
/// for one that is not there.
fn type_text(values: &[Datum]) -> Result<Datum> {
    if values[0].is_null() {
        return Ok(Datum::Null);
    }
    let oid = oid(&values[0]);
    let number = values[1].as_int().and_then(|number| i32::try_from(number).ok());
    let missing = if oid == 0 { "-" } else { "???" };
    Ok(Datum::Text(format_type(oid, number).unwrap_or_else(|| missing.to_owned())))
}

fn definitions(registry: &mut Registry) {
    use SqlType as T;
    for args in [&[T::Oid][..], &[T::Oid, T::Bool]] {
        reading(registry, "pg_get_constraintdef", args, T::Text, |v, context| {
            let pretty = v.get(1) == Some(&Datum::Bool(true));
            asked(context, |objects, asking| {
                text(objects.constraint_definition(oid(&v[0]), pretty, asking.path)?)
            })
        });
        reading(registry, "pg_get_viewdef", args, T::Text, |v, context| {
            let is_pretty = v.get(1) == Some(&Datum::Bool(true));
            asked(context, |objects, asking| {
                let how = How { is_pretty, path: asking.path };
                text(objects.view_definition(oid(&v[0]), how)?)
            })
        });
        for name in ["pg_get_ruledef", "pg_get_triggerdef", "pg_get_partkeydef"] {
            registry.add(name, args, T::Text, |_, _| Ok(Datum::Null));
        }
    }
    reading(registry, "pg_get_viewdef", &[T::Text], T::Text, |v, context| {
        let Datum::Text(name) = &v[0] else { return mismatch(v) };
        asked(context, |objects, asking| {
            let how = How { is_pretty: false, path: asking.path };
            text(objects.view_definition(objects.relation(name, asking)?, how)?)
        })
    });
    reading(registry, "pg_get_indexdef", &[T::Oid], T::Text, |v, context| {
        asked(context, |objects, asking| {
            text(objects.index_definition(oid(&v[0]), 0, false, asking.path)?)
        })
    });
    let of_column = [T::Oid, T::Int4, T::Bool];
    reading(registry, "pg_get_indexdef", &of_column, T::Text, |v, context| {
        let (column, pretty) = (v[1].as_int().unwrap_or(0) as i32, v[2] == Datum::Bool(true));
        asked(context, |objects, asking| {
            text(objects.index_definition(oid(&v[0]), column, pretty, asking.path)?)
        })
    });
    for args in [&[T::Text, T::Oid][..], &[T::Text, T::Oid, T::Bool]] {
        reading(registry, "pg_get_expr", args, T::Text, |v, context| {
            let Datum::Text(kept) = &v[0] else { return mismatch(v) };
            let pretty = v.get(2) == Some(&Datum::Bool(true));
            asked(context, |objects, asking| {
                objects.expression(kept, oid(&v[1]), pretty, asking.path).map(Datum::Text)
            })
        });
    }
    reading(registry, "pg_get_serial_sequence", &[T::Text, T::Text], T::Text, |v, context| {
        let [Datum::Text(table), Datum::Text(column)] = v else { return mismatch(v) };
        asked(context, |objects, asking| {
            text(objects.serial_sequence(objects.relation(table, asking)?, column)?)
        })
    });
    comments(registry);
    functions(registry);
}

fn comments(registry: &mut Registry) {
    use SqlType as T;
    reading(registry, "obj_description", &[T::Oid], T::Text, |v, context| {
        asked(context, |objects, _| text(objects.comment(oid(&v[0]), None, 0)))
    });
    reading(registry, "obj_description", &[T::Oid, T::Name], T::Text, |v, context| {
        let Datum::Text(catalog) = &v[1] else { return mismatch(v) };
        asked(context, |objects, asking| {
            let number = objects.number(RegKind::Class, catalog, asking)?;
            text(number.and_then(|number| objects.comment(oid(&v[0]), Some(number), 0)))
        })
    });
    reading(registry, "col_description", &[T::Oid, T::Int4], T::Text, |v, context| {
        let part = v[1].as_int().and_then(|part| usize::try_from(part).ok()).filter(|at| *at > 0);
        asked(context, |objects, _| {
            text(part.and_then(|part| objects.comment(oid(&v[0]), None, part)))
        })
    });
    let address = [T::Oid, T::Oid, T::Int4];
    reading(registry, "pg_describe_object", &address, T::Text, |v, context| {
        let column = v[2].as_int().unwrap_or(0) as i32;
        let address = Address { catalog: oid(&v[0]), object: oid(&v[1]), column };
        asked(context, |objects, asking| text(objects.described(address, asking)?))
    });
    reading(registry, "shobj_description", &[T::Oid, T::Name], T::Text, |v, context| {
        let Datum::Text(catalog) = &v[1] else { return mismatch(v) };
        asked(context, |objects, _| text(objects.shared_comment(catalog, oid(&v[0]))))
    });
}

/// What is told of functions.
fn functions(registry: &mut Registry) {
    use SqlType as T;
    reading(registry, "pg_get_function_result", &[T::Oid], T::Text, |v, context| {
        let known = catalog::function_of(oid(&v[0])).map(|one| {
            let name = SqlType::name_of(one.result).unwrap_or("???");
            format!("{}{name}", if one.is_set { "SETOF " } else { "" })
        });
        match known {
            Some(known) => text(Some(known)),
            None => asked(context, |objects, asking| {
                text(objects.function_result(oid(&v[0]), asking.path))
            }),
        }
    });
    reading(registry, "pg_get_function_arguments", &[T::Oid], T::Text, |v, context| {
        match catalog::function_of(oid(&v[0])) {
            Some(known) => text(Some(known.types())),
            None => asked(context, |objects, asking| {
                text(objects.function_arguments(oid(&v[0]), asking.path))
            }),
        }
    });
    let name = "pg_get_function_identity_arguments";
    reading(registry, name, &[T::Oid], T::Text, |v, context| {
        match catalog::function_of(oid(&v[0])) {
            Some(known) => text(Some(known.types())),
            None => asked(context, |objects, asking| {
                text(objects.function_identity(oid(&v[0]), asking.path))
            }),
        }
    });
    reading(registry, "pg_get_functiondef", &[T::Oid], T::Text, |v, context| {
        asked(context, |objects, asking| text(objects.function_definition(oid(&v[0]), asking.path)))
    });
    for name in [
        "pg_get_function_sqlbody",
        "pg_get_statisticsobjdef",
        "pg_get_statisticsobjdef_columns",
        "pg_get_partition_constraintdef",
    ] {
        registry.add(name, &[T::Oid], T::Text, |_, _| Ok(Datum::Null));
    }
    let relation = T::Reg(RegKind::Class);
    reading(registry, "pg_get_replica_identity_index", &[relation], relation, |v, context| {
        asked(context, |objects, asking| {
            let index = objects.identity_index(oid(&v[0]));
            Ok(index.map_or(Datum::Null, |index| {
                let shown = objects.shown(RegKind::Class, index, asking);
                Registered::datum(RegKind::Class, index, shown)
            }))
        })
    });
    // Nothing is a partition.
    registry.add("pg_partition_ancestors", &[relation], relation, |v, _| mismatch(v)).rows =
        Some(SetFunction::Nothing);
}

fn sizes(registry: &mut Registry) {
    use SqlType as T;
    let relation = T::Reg(RegKind::Class);
    let sizes: [(&str, Eval); 4] = [
        ("pg_relation_size", |v, context| sized(v, context, |one| one.own)),
        ("pg_table_size", |v, context| sized(v, context, |one| one.own + one.apart)),
        ("pg_indexes_size", |v, context| sized(v, context, |one| one.indexes)),
        ("pg_total_relation_size", |v, context| {
            sized(v, context, |one| one.own + one.apart + one.indexes)
        }),
    ];
    for (name, eval) in sizes {
        reading(registry, name, &[relation], T::Int8, eval);
    }
    reading(registry, "pg_relation_size", &[relation, T::Text], T::Int8, |v, context| {
        match &v[1] {
            Datum::Text(fork) if fork == "main" => sized(&v[..1], context, |one| one.own),
            Datum::Text(fork) if matches!(fork.as_str(), "fsm" | "vm" | "init") => {
                Ok(Datum::Int8(0))
            }
            _ => Err(SqlError::new(code::INVALID_PARAMETER, "invalid fork name")
                .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")),
        }
    });
    reading(registry, "pg_tablespace_size", &[T::Oid], T::Int8, |v, context| {
        asked(context, |objects, _| {
            let is_it = oid(&v[0]) == catalog::TABLESPACE;
            Ok(Datum::Int8(if is_it { objects.size_of_all(context.session_info().db) } else { 0 }))
        })
    });
    reading(registry, "pg_database_size", &[T::Oid], T::Int8, |v, context| {
        asked(context, |objects, _| {
            let is_it = oid(&v[0]) == catalog::DATABASE;
            Ok(if is_it {
                Datum::Int8(objects.size_of_all(context.session_info().db))
            } else {
                Datum::Null
            })
        })
    });
    reading(registry, "pg_database_size", &[T::Name], T::Int8, |v, context| match &v[0] {
        Datum::Text(name) if **name == *context.database => asked(context, |objects, _| {
            Ok(Datum::Int8(objects.size_of_all(context.session_info().db)))
        }),
        Datum::Text(name) => {
            let message = format!("database \"{name}\" does not exist");
            Err(SqlError::new(code::INVALID_DATABASE, message))
        }
        _ => mismatch(v),
    });
    for ty in [T::Int8, T::Numeric] {
        registry.add("pg_size_pretty", &[ty], T::Text, |v, _| {
            let bytes = match &v[0] {
                Datum::Numeric(number) => crate::types::numeric::to_int(number).unwrap_or(i64::MAX),
                other => other.as_int().unwrap_or(0),
            };
            Ok(Datum::Text(pretty(bytes)))
        });
    }
}

fn sized(values: &[Datum], context: &Context, which: fn(catalog::Sizes) -> i64) -> Result<Datum> {
    asked(context, |objects, _| {
        Ok(objects
            .sizes(oid(&values[0]), context.session_info().db)
            .map_or(Datum::Null, |sizes| Datum::Int8(which(sizes))))
    })
}

/// A size for people, halves rounded away from zero.
fn pretty(bytes: i64) -> String {
    const STEP: i128 = 1_024;
    let mut size = i128::from(bytes);
    if size.abs() < 10 * STEP {
        return format!("{size} bytes");
    }
    // One bit more than is shown, for rounding.
    size >>= 9;
    let mut unit = "kB";
    for larger in ["MB", "GB", "TB", "PB"] {
        if size.abs() < 20 * STEP - 1 {
            break;
        }
        size >>= 10;
        unit = larger;
    }
    let rounded = if size >= 0 { (size + 1) / 2 } else { (size - 1) / 2 };
    format!("{rounded} {unit}")
}

fn visibility(registry: &mut Registry) {
    use SqlType as T;
    reading(registry, "pg_table_is_visible", &[T::Oid], T::Bool, |v, context| {
        asked(context, |objects, asking| {
            let visible = objects.relation_is_visible(oid(&v[0]), asking.path);
            Ok(visible.map_or(Datum::Null, Datum::Bool))
        })
    });
    reading(registry, "pg_function_is_visible", &[T::Oid], T::Bool, |v, context| {
        asked(context, |objects, asking| {
            Ok(Datum::Bool(objects.function_is_visible(oid(&v[0]), asking.path)))
        })
    });
    // All of these are in `pg_catalog`, but collations, of which others are in `public`.
    for name in [
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    ] {
        registry.add(name, &[T::Oid], T::Bool, |_, _| Ok(Datum::Bool(true)));
    }
    reading(registry, "pg_type_is_visible", &[T::Oid], T::Bool, |v, context| {
        asked(context, |objects, asking| {
            Ok(Datum::Bool(objects.type_is_visible(oid(&v[0]), asking.path)))
        })
    });
    let relation = T::Reg(RegKind::Class);
    reading(registry, "pg_relation_is_publishable", &[relation], T::Bool, |v, context| {
        asked(context, |objects, _| Ok(Datum::Bool(objects.is_table(oid(&v[0])))))
    });
}

/// What is told of the server and its database.
fn server(registry: &mut Registry) {
    use SqlType as T;
    registry.add("pg_encoding_to_char", &[T::Int4], T::Name, |v, _| {
        let encoding = v[0].as_int().and_then(Encoding::numbered);
        Ok(Datum::Text(encoding.map_or("", Encoding::name).to_owned()))
    });
    registry.add("pg_char_to_encoding", &[T::Name], T::Int4, |v, _| {
        let Datum::Text(name) = &v[0] else { return mismatch(v) };
        Ok(Datum::Int4(Encoding::named(name).map_or(-1, Encoding::number)))
    });
    registry.add("getdatabaseencoding", &[], T::Name, |_, _| Ok(Datum::Text("UTF8".to_owned())));
    let of_client = registry.add("pg_client_encoding", &[], T::Name, |_, context| {
        context.settings.show_in(context.modes, "client_encoding").map(Datum::Text)
    });
    of_client.volatile = true;
    registry.add("pg_is_in_recovery", &[], T::Bool, |_, _| Ok(Datum::Bool(false)));
    registry.add("pg_my_temp_schema", &[], T::Oid, |_, _| Ok(Datum::Oid(0)));
    registry.add("pg_is_other_temp_schema", &[T::Oid], T::Bool, |_, _| Ok(Datum::Bool(false)));
    registry
        .add("pg_tablespace_location", &[T::Oid], T::Text, |_, _| Ok(Datum::Text(String::new())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_postgresql_shows_them() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-10_240, "-10 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (123_456_789, "118 MB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(pretty(bytes), shown, "{bytes}");
        }
    }

    #[test]
    fn types_are_shown_with_what_they_declare() {
        let shown = |oid: u32, number: Option<i32>| {
            let number = number.map_or(Datum::Null, Datum::Int4);
            type_text(&[Datum::Oid(oid), number]).unwrap().to_text().unwrap()
        };
        assert_eq!(shown(1043, Some(24)), "character varying(20)");
        assert_eq!(shown(1043, Some(-1)), "character varying");
        assert_eq!(shown(1042, Some(7)), "character(3)");
        assert_eq!(shown(1042, Some(-1)), "bpchar");
        assert_eq!(shown(1042, None), "character");
        assert_eq!(shown(1700, Some(655_366)), "numeric(10,2)");
        assert_eq!(shown(1231, Some(655_366)), "numeric(10,2)[]");
        assert_eq!(shown(1015, Some(24)), "character varying(20)[]");
        assert_eq!(shown(0, None), "-");
        assert_eq!(shown(9_999_999, None), "???");
        assert_eq!(shown(1186, Some(0x7fff_0002)), "interval(2)");
    }
}
