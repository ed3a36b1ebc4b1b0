//! Rows: what is encoded reads back; any other bytes are values or refused.

use rightlink::internal::ids::{FileId, ObjectId};
use rightlink::internal::table::row::{Projection, encode, read_strictly};
use rightlink::internal::table::schema::{Column, TableDef};

use crate::input::Input;

/// A definition, a row of it, and bytes that may or may not be a row.
pub fn target(data: &[u8]) {
    let mut input = Input(data);
    let mut def = definition(&mut input);
    let values: Vec<_> = def.live().map(|(_, column)| column.ty).collect();
    let values: Vec<_> = values.into_iter().map(|kind| input.value(kind)).collect();
    if let Ok(row) = encode(&def, &values) {
        let again = read_strictly(&def, &row).expect("an encoded row reads");
        assert_eq!(again, values);
        // A column added later reads as its missing value, and the rest as before.
        let added = input.kind();
        let mut column = Column::new("added", added, true);
        column.missing = input.value(added);
        def.columns.push(column.clone());
        let again = Projection::all(&def).read(&def, &row).expect("an old row reads");
        assert_eq!(again.split_last(), Some((&column.missing, &values[..])));
    }
    read_any(&def, input.0);
}

fn definition(input: &mut Input<'_>) -> TableDef {
    let count = 1 + input.below(12);
    let column = |no: usize, input: &mut Input<'_>| {
        let mut column = Column::new(format!("c{no}"), input.kind(), true);
        column.dropped = no > 0 && input.byte() % 5 == 4;
        column
    };
    let columns = (0..count).map(|no| column(no, input)).collect();
    TableDef::new(ObjectId(1), "t", FileId(64), columns)
}

/// Reading strictly accepts no more than reading does.
fn read_any(def: &TableDef, bytes: &[u8]) {
    let values = Projection::all(def).read(def, bytes);
    if let Ok(strict) = read_strictly(def, bytes) {
        assert_eq!(values.as_ref(), Ok(&strict));
        if let Ok(row) = encode(def, &strict) {
            assert_eq!(read_strictly(def, &row).as_ref(), Ok(&strict));
        }
    }
    let last = def.live().last().map(|(no, _)| no).expect("the first column is never dropped");
    let twice = Projection::new(def, &[last, 0, last]).expect("live columns");
    if let (Ok(all), Ok(some)) = (values, twice.read(def, bytes)) {
        assert_eq!(some, [all[all.len() - 1].clone(), all[0].clone(), all[all.len() - 1].clone()]);
    }
}

/// One column of each type, and a table of several.
pub fn seeds() -> Vec<Vec<u8>> {
    let of_type = |kind: u8| [&[0, kind, 0, 1, 2][..], &[3; 16], &[3, 0, 1, 0, 9, 9]].concat();
    let mut seeds: Vec<_> = (0..12).map(of_type).collect();
    let columns = [&[3, 0, 0, 3, 4, 6, 0, 7, 0][..], &[1, 1, 1, 3, 65, 66, 67, 0]].concat();
    seeds.push([&columns[..], &[4, 128, 2, 1, 3, 65, 66, 67, 2, 8, 8]].concat());
    seeds
}
