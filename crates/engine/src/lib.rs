//! The transactional table store.
