//! A run.
