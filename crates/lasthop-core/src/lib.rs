//! The ground of lasthop: time, units, random streams, the event queue and packets.
//!
//! Nothing here knows a protocol, a file or a thread. Everything above is a pure function of its input because time
//! is whole nanoseconds, events are ordered by (time, insertion), and every random draw belongs to a named stream.

pub mod calendar;
pub mod event;
pub mod fingerprint;
pub mod large_pages;
pub mod packet;
pub mod prefetch;
pub mod random;
pub mod room;
pub mod time;
pub mod units;
