//! Tests of the heap as a whole.
