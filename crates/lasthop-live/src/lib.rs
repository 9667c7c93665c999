//! Real packets: the network of a scenario between namespaces of a running Linux kernel.
//!
//! [`passage`] makes packets of the world of real ones and gives them their bytes back, [`plan`] makes the plan of a
//! world whose ends lie outside, and on Linux `emulate` drives that world by the real clock between TUN devices, each
//! in a network namespace of its own. Links, queues, channels and helpers are those of the simulator, unchanged.
//!
//! **Nothing of the host is touched.** Namespaces have no name: they live as long as this process holds them, whatever
//! ends it. No interface, route or setting outside of them is read or changed.

pub mod passage;
pub mod plan;
pub mod proxy;
pub mod store;

#[cfg(target_os = "linux")]
mod abi;
#[cfg(target_os = "linux")]
mod bpf;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod discipline;
#[cfg(target_os = "linux")]
mod drive;
#[cfg(target_os = "linux")]
mod emulate;
#[cfg(target_os = "linux")]
mod follow;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod live_error;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod parts;
#[cfg(target_os = "linux")]
mod process;
mod record;
#[cfg(target_os = "linux")]
mod registration;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
mod script;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod site;
#[cfg(target_os = "linux")]
pub mod steer;
#[cfg(target_os = "linux")]
mod steer_error;
#[cfg(target_os = "linux")]
mod steered;
#[cfg(target_os = "linux")]
pub mod twin;

#[cfg(target_os = "linux")]
pub use capture::{CaptureOrder, Captured, SOURCES};
#[cfg(target_os = "linux")]
pub use discipline::{Arrival, Departures, run_discipline};
#[cfg(target_os = "linux")]
pub use emulate::{emulate, rehearse};
#[cfg(target_os = "linux")]
pub use live_error::LiveError;
#[cfg(target_os = "linux")]
pub use order::{Connect, Emulated, Ending, LiveReport, Order, Outside, Program, Told};
#[cfg(target_os = "linux")]
pub use script::run_script;
#[cfg(target_os = "linux")]
pub use steered::{Law, Place, SteerOrder, steer as steer_command};
