//! What the application of a flow offers: the key `traffic`, and one file for each kind.
//!
//! To add a source: its file in `lasthop-net/src/traffic/`, then `traffic/<name>.rs` here with its `NAME`, its keys
//! (`TABLE`), whether the bare name says enough (`BARE`) and `read`, and its line in `kinds!` below. From that follow
//! the key, its checks and messages, and its part of the reference.

pub(super) mod capture;
mod cbr;
mod frames;
mod ftp;
mod game;
mod mpeg4;
mod on_off;
mod paced_ftp;
mod transfer;
mod video_call;
mod video_on_demand;
mod voice;
mod web;

use lasthop_net::plan::{OutsideConfig, Traffic, Transport};

use super::diagnostic::{ScenarioError, quoted};
use super::input_file::InputFiles;
use super::keys::{Tagged, Variant};
use super::reader::Reader;
use super::stack;

/// Makes the registry: `module` has `NAME`, `TABLE`, `BARE` and `read`.
macro_rules! kinds {
    ($($module:ident),* $(,)?) => {
        /// The kinds of the key `traffic`.
        pub(super) static TRAFFIC: Tagged = Tagged {
            title: "traffic",
            doc: "What the application offers. Sizes are payload.",
            variants: &[$(Variant { name: $module::NAME, table: &$module::TABLE, bare: $module::BARE },)*],
        };

        fn read_kind(
            kind: &str,
            table: &Reader<'_>,
            files: &mut InputFiles<'_>,
        ) -> Result<Traffic, ScenarioError> {
            match kind {
                $($module::NAME => $module::read(table, files),)*
                kind => panic!("no reader for traffic `{kind}`"),
            }
        }
    };
}

kinds! {
    ftp,
    transfer,
    paced_ftp,
    cbr,
    on_off,
    mpeg4,
    frames,
    capture,
    voice,
    game,
    web,
    video_on_demand,
    video_call,
}

/// The traffic of a flow over `transport`.
pub(super) fn read(
    flow: &Reader<'_>,
    (kind, table): &(&'static str, Reader<'_>),
    transport: &Transport,
    files: &mut InputFiles<'_>,
) -> Result<Traffic, ScenarioError> {
    let mut traffic = read_kind(kind, table, files)?;
    if let Traffic::Web(plan) = &mut traffic {
        web::over(transport, table, plan)?;
    }
    if traffic.offered().largest_write().is_none() && matches!(transport, Transport::Udp(_)) {
        let message =
            format!("traffic {} needs TCP: nothing would limit the rate of a udp flow", quoted(kind));
        let remedy = "write traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"512 B\" }";
        let key = if flow.has("traffic") { "traffic" } else { "transport" };
        return Err(flow.error(key, message, remedy));
    }
    if let Transport::Outside(stack) = transport
        && let Some(reason) = refusal(&traffic, stack)
    {
        let message = format!("traffic {} does not run over {}: {reason}", quoted(kind), stack.name);
        let works = if stack.reliable {
            "ftp, transfer, paced-ftp, cbr, on-off, mpeg4, frames, capture, game, web, video-on-demand"
        } else {
            "paced-ftp without bytes, cbr, on-off, mpeg4, frames, capture, voice, game"
        };
        let call = if tells_rate(stack) { ", video-call" } else { "" };
        let remedy =
            format!("it carries {works}{call}; or choose a transport of the simulator such as \"cubic\"");
        let key = if flow.has("traffic") { "traffic" } else { "transport" };
        return Err(flow.error(key, message, &remedy));
    }
    let is_lossy_stack = matches!(transport, Transport::Outside(stack) if !stack.reliable);
    if traffic.offered().codec().is_some() && !matches!(transport, Transport::Udp(_)) && !is_lossy_stack {
        let message =
            "traffic \"voice\" needs datagrams: what comes late over a reliable transport is lost to a call";
        let remedy = "write transport = \"udp\", or { stack = \"quinn\", data = \"datagrams\" }";
        return Err(flow.error("transport", message.to_owned(), remedy));
    }
    if traffic.offered().connections().is_some()
        && !matches!(transport, Transport::Tcp(_) | Transport::Outside(_))
    {
        let message = format!("traffic {} needs TCP: requests and answers share a connection", quoted(kind));
        return Err(flow.error("transport", message, "choose a TCP transport such as \"cubic\""));
    }
    Ok(traffic)
}

/// Whether an encoder can follow it.
fn tells_rate(stack: &OutsideConfig) -> bool {
    stack::named(stack).is_some_and(|stack| stack.tells_rate)
}

/// Why a stack of others does not carry this traffic.
fn refusal(traffic: &Traffic, stack: &OutsideConfig) -> Option<&'static str> {
    let offered = traffic.offered();
    match stack.reliable {
        _ if offered.encoder().is_some() && !tells_rate(stack) => {
            Some("an encoder follows window and RTT, and it reports neither")
        }
        false if offered.connections().is_some() => Some("an answer needs a stream"),
        false if offered.encoder().is_some() => None,
        false if offered.largest_write().is_none() => Some("a file needs a stream"),
        false if traffic.given_length().is_some() => Some("what is lost of it never comes, so it has no end"),
        true | false => None,
    }
}
