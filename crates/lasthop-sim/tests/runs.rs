//! Whole runs, judged from outside the crate: every file here is a module of one program, so that the engine and the
//! kit are compiled and linked once for all of them.
//!
//! `cargo test -p lasthop-sim --test runs devices::` runs those of one file.

mod testkit;

mod aggregates;
mod air;
mod arq;
mod arrivals;
mod base_station;
mod bbr;
mod bbr3;
mod calls;
mod cellular;
mod classifiers;
mod columns;
mod connection_end;
mod devices;
mod dsdv;
mod dual_pi2;
mod ecn;
mod endpoints;
mod fast_ack;
mod fec;
mod figures;
mod flow_control;
mod helpers;
mod helpers_inside;
mod laws;
mod laws_of_today;
mod linux_recovery;
mod mobility;
mod outside;
mod pcapng;
mod player;
mod properties;
mod radio_signals;
mod random;
mod rate_keys;
mod rate_laws;
mod realtime;
mod recorder;
mod repairs;
mod roaming;
mod scenario_errors;
mod scenario_fuzz;
mod scenarios;
mod scripts;
mod split;
mod switch;
mod traces;
mod video;
mod video_calls;
mod viewers;
mod web;
mod wlan;
mod wsc;
