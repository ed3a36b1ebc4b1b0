//! Documents of random shapes: read, printed, kept, ordered and taken apart in several ways that
//! must agree.
//!
//! Does not do: what PostgreSQL answers (`slt/json_access`, `slt/json_change`, `slt/json_path`).

use rightlink_env::Rng;
use rightlink_sql::{Datum, Session, SqlType};

use crate::asked::open;

/// A document of at most so many levels, as text with blanks here and there.
fn document(rng: &mut Rng, levels: usize) -> String {
    let blank = |rng: &mut Rng| [" ", "", "", "\n"][rng.index(4)];
    let key = |rng: &mut Rng| ["a", "b", "é", "long key", "", "\\u0041", "\\\""][rng.index(7)];
    match rng.index(if levels == 0 { 5 } else { 8 }) {
        0 => "null".to_owned(),
        1 => ["true", "false"][rng.index(2)].to_owned(),
        2 => ["0", "-1.50", "1e3", "12345678901234567890.5", "1.5"][rng.index(5)].to_owned(),
        3 | 4 => format!("\"{}\"", key(rng)),
        5 | 6 => {
            let fields = (0..rng.index(4)).map(|_| {
                let (before, behind) = (blank(rng), blank(rng));
                format!("{before}\"{}\"{behind}:{}", key(rng), document(rng, levels - 1))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        _ => {
            let items = (0..rng.index(4)).map(|_| document(rng, levels - 1) + blank(rng));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
    }
}

fn texts(session: &mut Session, sql: &str) -> Vec<Vec<Option<String>>> {
    let rows = session.execute(sql).unwrap().pop().unwrap().rows;
    rows.iter().map(|row| row.iter().map(Datum::to_text).collect()).collect()
}

#[test]
fn a_document_is_the_same_whichever_way_it_goes() {
    let (_dir, db) = open();
    let mut session = Session::new(&db);
    session.execute("create table d (id int primary key, raw json, doc jsonb)").unwrap();
    let mut rng = Rng::from_seed(7);
    for id in 0..300 {
        let text = document(&mut rng, 4).replace('\'', "''");
        let doc = Datum::from_text(SqlType::Jsonb, &text).unwrap();
        let shown = doc.to_text().unwrap();
        let again = Datum::from_text(SqlType::Jsonb, &shown).unwrap();
        assert_eq!(again, doc, "{text}");
        let bytes = doc.to_binary().unwrap();
        assert_eq!(Datum::from_binary(SqlType::Jsonb, &bytes).unwrap(), doc, "{text}");
        session.execute(&format!("insert into d values ({id}, '{text}', '{text}')")).unwrap();
        let kept = format!("select raw, doc, raw::jsonb = doc from d where id = {id}");
        let expected = vec![Some(text), Some(shown), Some("t".to_owned())];
        assert_eq!(texts(&mut session, &kept), [expected]);
    }
    // A document is what its members are put together to.
    let whole = "select id, case jsonb_typeof(doc) \
                 when 'object' then (select jsonb_object_agg(key, value) from jsonb_each(doc)) \
                 when 'array' then (select jsonb_agg(e) from jsonb_array_elements(doc) e) \
                 else doc end = doc from d where doc not in ('{}', '[]')";
    assert!(texts(&mut session, whole).iter().all(|row| row[1].as_deref() == Some("t")));
    // What is found by a key of the text is what is found by one of the binary form, by the
    // operator or a path.
    for key in ["a", "é", "long key", "", "A"] {
        let members = format!(
            "select count(*) from d where (raw -> '{key}')::jsonb is distinct from doc -> '{key}' \
             or doc -> '{key}' is distinct from \
             jsonb_path_query_first(doc, 'strict $.\"{key}\"', '{{}}', true) \
             or (doc ? '{key}' and jsonb_typeof(doc) = 'object') <> (doc -> '{key}' is not null)"
        );
        assert_eq!(texts(&mut session, &members), [[Some("0".to_owned())]], "{key}");
    }
    // Comparisons, sorted keys and hashes agree.
    let order = "select count(*) from (select doc, lag(doc) over (order by doc) as b from d) s \
                 where b > doc";
    assert_eq!(texts(&mut session, order), [[Some("0".to_owned())]]);
    let pairs = |how: &str| {
        session.execute(&format!("reset all; {how}")).unwrap();
        texts(&mut session, "select count(*) from d a join d b on a.doc = b.doc")
    };
    let [hashed, nested] = ["", "set enable_hashjoin = off; set enable_mergejoin = off"].map(pairs);
    assert_eq!(hashed, nested);
    let groups = "select (select count(*) from (select doc from d group by doc) s) = \
                  (select count(*) from d a where not exists \
                  (select from d b where b.doc = a.doc and b.id < a.id))";
    assert_eq!(texts(&mut session, groups), [[Some("t".to_owned())]]);
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
