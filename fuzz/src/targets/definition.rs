//! Definitions in catalog rows: bad bytes are refused, good ones come back.

use rightlink::internal::catalog::codec;
use rightlink::internal::ids::{FileId, ObjectId, Xid};
use rightlink::internal::table::schema::{Column, IndexColumn, IndexDef, TableDef};
use rightlink::{Type, Value};

/// The first byte chooses the kind.
pub fn target(data: &[u8]) {
    let (kind, bytes) = data.split_first().map_or((0, data), |(first, rest)| (first % 3, rest));
    match kind {
        0 => {
            if let Ok((table, primary)) = codec::decode_table(ObjectId(9), "t", bytes) {
                assert_eq!(codec::encode_table(&table, primary), bytes);
            }
        }
        1 => {
            if let Ok(column) = codec::decode_column("c", bytes) {
                let again = codec::decode_column("c", &codec::encode_column(&column));
                assert_eq!(again, Ok(column));
            }
        }
        _ => {
            if let Ok(index) = codec::decode_index(ObjectId(9), "i", bytes) {
                let again = codec::decode_index(ObjectId(9), "i", &codec::encode_index(&index));
                assert_eq!(again, Ok(index));
            }
        }
    }
}

/// A table, columns with and without a missing value, an index.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut table = TableDef::new(ObjectId(9), "t", FileId(64), Vec::new());
    (table.overflow, table.fillfactor, table.note) = (FileId(67), 90, "a note".into());
    let mut column = Column::new("c", Type::Timestamp, true);
    let plain = codec::encode_column(&column);
    column.missing = Value::Timestamp(1_234_567);
    let columns = vec![IndexColumn::ascending(3), IndexColumn::descending(1)];
    let mut index = IndexDef::new(ObjectId(9), "i", FileId(70), columns, true);
    index.included = vec![2];
    index.usable_from = Xid(1 << 40);
    let tagged = |tag: u8, bytes: Vec<u8>| [&[tag][..], &bytes].concat();
    vec![
        tagged(0, codec::encode_table(&table, None)),
        tagged(1, plain),
        tagged(1, codec::encode_column(&column)),
        tagged(2, codec::encode_index(&index)),
    ]
}
