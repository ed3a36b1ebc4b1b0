//! Power cuts during write-back.
