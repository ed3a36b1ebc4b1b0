//! Scenarios of crash tests in which a hash index grows, shrinks and is built.
//!
//! As `scenarios`. Does not do: checking.

use super::*;

/// Creates a hash index on the name.
fn hash_on_name(script: &mut Script) -> Out {
    script.transact(|script, tx| {
        let index = IndexSchema::new("t_hash").on("name").method(IndexMethod::Hash);
        tx.create_index(script, "t", index)
    })
}

pub(super) fn hash_split(script: &mut Script) -> Out {
    script.open_with_table()?;
    hash_on_name(script)?;
    insert(script, 0..14, 400)?;
    script.checkpoint()?;
    script.record();
    for start in [14, 24, 34] {
        insert(script, start..start + 10, 400)?;
    }
    script.checkpoint()
}

pub(super) fn hash_overflow(script: &mut Script) -> Out {
    script.open_with_table()?;
    hash_on_name(script)?;
    namesakes(script, 0..16, 2)?;
    script.checkpoint()?;
    script.record();
    namesakes(script, 16..40, 2)?;
    delete(script, (3..36).step_by(5))?;
    script.vacuum()?;
    namesakes(script, 40..52, 2)?;
    script.checkpoint()
}

pub(super) fn hash_squeeze(script: &mut Script) -> Out {
    script.open_with_table()?;
    hash_on_name(script)?;
    insert(script, 0..80, 500)?;
    delete(script, (0..80).filter(|id| id % 8 != 0))?;
    script.checkpoint()?;
    script.record();
    script.vacuum()?;
    // The pages that were given back are used again.
    insert(script, 100..130, 500)?;
    script.checkpoint()
}

pub(super) fn hash_build(script: &mut Script) -> Out {
    script.open_with_table()?;
    insert(script, 0..50, 300)?;
    script.record();
    hash_on_name(script)?;
    script.transact(|script, tx| tx.update(script, ("t", 5), NAME, text("another")))?;
    script.checkpoint()
}
