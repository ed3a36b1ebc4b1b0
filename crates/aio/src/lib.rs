//! Files and asynchronous I/O.
