//! Traffic sources: when the application hands how many bytes to its transport.
//!
//! The world, and the driver of real sockets, call `start` once and `next` at each time that the source asked for. To
//! add a source: write `traffic/<name>.rs` (what a plan says of it with `impl Offered`, its state with `impl Generate`,
//! tests), add its line to `sources!` below, and its file of keys and its line in
//! `lasthop-sim/src/scenario/traffic/`. A source that waits for answers is a client: see [`client`].

pub mod arrival;
mod cbr;
pub mod client;
pub mod encoder;
mod ftp;
pub mod game;
mod on_off;
mod paced_ftp;
pub mod player;
mod replay;
pub mod size;
pub mod video;
pub mod voice;
pub mod web;

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::Time;
use lasthop_core::units::Rate;

pub use ftp::Transfer;

use crate::frames::Frame;
use client::Connections;
use video::Packing;

/// The random stream of the application of the flow called `name`.
pub fn stream_of(seed: u64, name: &str) -> Stream {
    Stream::new(seed, &format!("traffic of {name}"))
}

/// What a source does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes to hand over now; `None` is a file without end.
    pub bytes: Option<u64>,
    /// When to ask again; `None` if the source is exhausted.
    pub next: Option<Time>,
}

/// What a transport says to a source before its next write.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Payload rate for the encoder in bit/s; `None` while the transport has nothing to say.
    pub rate: Option<f64>,
    /// Bytes that wait at the sender.
    pub waiting: u64,
    /// When the newest packet that is lost was sent.
    pub lost: Option<Time>,
    /// Most payload of a packet from now on, if it changes while the connection is there.
    pub room: Option<u32>,
}

/// How densely a source writes by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Nanoseconds between two packets while it writes.
    pub gap_ns: f64,
    /// Share of the time in which it does.
    pub active: f64,
}

/// What flows must have in common, beside their rates and senders, to share a link fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// The kind of source.
    pub kind: &'static str,
    /// The length of what is sent, if it has one.
    pub bytes: Option<u64>,
}

/// What a plan says of a source. What is not said here means a file that is handed over whole.
pub trait Offered {
    /// Bytes in all, or their mean if they are drawn; `None` without an end that could be told. A flow with one is a
    /// transfer: it has a completion time.
    fn mean_length(&self) -> Option<f64> {
        None
    }

    /// Whether the flow is a transfer.
    fn is_bounded(&self) -> bool {
        self.mean_length().is_some()
    }

    /// The payload rate that the source is set to, averaged over its pauses; a file has none.
    fn nominal_rate(&self) -> Option<Rate> {
        None
    }

    /// Bytes of the largest write; `None` where only the transport limits what is sent at once, so that it cannot be
    /// UDP.
    fn largest_write(&self) -> Option<u64> {
        None
    }

    /// How densely it writes by itself, in packets so packed; `None` where the transport says when.
    fn pace(&self, packing: Packing) -> Option<Pace> {
        let _ = packing;
        None
    }

    /// Whether it writes now and then by a clock of its own, so that a real socket must send at once what is written.
    fn is_timed(&self) -> bool {
        self.largest_write().is_some()
    }

    /// What makes two flows alike; `None` is like no other.
    fn likeness(&self) -> Option<Likeness> {
        None
    }

    /// The connections of a client, which asks and gets answers; `None` of what is only sent.
    fn connections(&self) -> Option<Connections> {
        None
    }

    /// The codec of a call.
    fn codec(&self) -> Option<&'static voice::Codec> {
        None
    }

    /// The encoder of a video call, if it is one.
    fn encoder(&self) -> Option<&encoder::EncoderPlan> {
        None
    }

    /// The frames of video that it carries, if it does.
    fn video(&self) -> Option<&Arc<video::FramePlan>> {
        None
    }
}

/// A source at work.
pub(crate) trait Generate {
    /// The application starts.
    fn start(&mut self, now: Time) -> Offer {
        self.next(now)
    }

    /// It is time for the next write.
    fn next(&mut self, now: Time) -> Offer;

    /// Bytes in all of a transfer whose end can be told.
    fn length(&self) -> Option<u64> {
        None
    }

    /// Whether a bounded transfer has been handed over as a whole.
    fn is_exhausted(&self) -> bool {
        true
    }

    /// The frames so far, if the source writes frames.
    fn frames(&self) -> &[Frame] {
        &[]
    }

    /// Takes what the transport says, before the next write.
    fn hear(&mut self, demand: Demand) {
        let _ = demand;
    }

    /// What came of an encoder that follows its transport; `None` of other sources.
    fn encoder(&self) -> Option<encoder::EncoderCounts> {
        None
    }
}

/// Makes plan and state of all sources from one line each: `Name(what a plan says) => state, by its constructor`.
macro_rules! sources {
    ($($name:ident($plan:ty) => $state:ty, $new:expr;)*) => {
        /// What the application offers. Sizes are payload bytes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Traffic {
            $(
                #[doc = concat!("See [`", stringify!($plan), "`].")]
                $name($plan),
            )*
        }

        impl Traffic {
            /// What can be said of it before it runs.
            pub fn offered(&self) -> &dyn Offered {
                match self {
                    $(Traffic::$name(plan) => plan,)*
                }
            }
        }

        /// The sources at work.
        #[derive(Clone, Debug)]
        enum Running {
            $($name($state),)*
        }

        impl Running {
            fn new(traffic: &Traffic, packing: Packing, stream: Stream) -> Running {
                match traffic {
                    $(Traffic::$name(plan) => Running::$name($new(plan, packing, stream)),)*
                }
            }
        }

        impl Generate for Running {
            fn start(&mut self, now: Time) -> Offer {
                match self {
                    $(Running::$name(source) => source.start(now),)*
                }
            }

            fn next(&mut self, now: Time) -> Offer {
                match self {
                    $(Running::$name(source) => source.next(now),)*
                }
            }

            fn length(&self) -> Option<u64> {
                match self {
                    $(Running::$name(source) => source.length(),)*
                }
            }

            fn is_exhausted(&self) -> bool {
                match self {
                    $(Running::$name(source) => source.is_exhausted(),)*
                }
            }

            fn frames(&self) -> &[Frame] {
                match self {
                    $(Running::$name(source) => source.frames(),)*
                }
            }

            fn hear(&mut self, demand: Demand) {
                match self {
                    $(Running::$name(source) => source.hear(demand),)*
                }
            }

            fn encoder(&self) -> Option<encoder::EncoderCounts> {
                match self {
                    $(Running::$name(source) => source.encoder(),)*
                }
            }
        }
    };
}

pub use cbr::Cbr;
pub use ftp::Ftp;
pub use on_off::OnOff;
pub use paced_ftp::PacedFtp;
pub use replay::Replay;

sources! {
    Ftp(Ftp) => ftp::File, ftp::File::new;
    Transfer(Transfer) => ftp::File, ftp::File::drawn;
    PacedFtp(PacedFtp) => paced_ftp::Writes, paced_ftp::Writes::new;
    Cbr(Cbr) => cbr::Clock, cbr::Clock::new;
    OnOff(OnOff) => Box<on_off::Bursts>, |plan, packing, stream| Box::new(on_off::Bursts::new(plan, packing, stream));
    Frames(Arc<video::FramePlan>) => Box<video::FrameSource>, video::FrameSource::new;
    Capture(Replay) => replay::Recorded, replay::Recorded::new;
    Voice(voice::Voice) => Box<voice::Talker>, voice::Talker::new;
    Game(game::Game) => Box<game::Ticks>, game::Ticks::new;
    Player(Arc<player::PlayerPlan>) => client::Silent, client::Silent::new;
    Encoder(Arc<encoder::EncoderPlan>) => Box<encoder::Encoder>, encoder::Encoder::new;
    Web(Arc<web::WebPlan>) => client::Silent, client::Silent::new;
}

impl Traffic {
    /// A file without end.
    pub const ENDLESS: Traffic = Traffic::Ftp(Ftp { bytes: None });

    /// The length of a file or of timed writes that is given, not drawn.
    pub fn given_length(&self) -> Option<u64> {
        match self {
            Traffic::Ftp(ftp) => ftp.bytes,
            Traffic::PacedFtp(paced) => paced.bytes,
            _ => None,
        }
    }
}

impl<T: Generate> Generate for Box<T> {
    fn start(&mut self, now: Time) -> Offer {
        (**self).start(now)
    }

    fn next(&mut self, now: Time) -> Offer {
        (**self).next(now)
    }

    fn length(&self) -> Option<u64> {
        (**self).length()
    }

    fn is_exhausted(&self) -> bool {
        (**self).is_exhausted()
    }

    fn frames(&self) -> &[Frame] {
        (**self).frames()
    }

    fn hear(&mut self, demand: Demand) {
        (**self).hear(demand);
    }

    fn encoder(&self) -> Option<encoder::EncoderCounts> {
        (**self).encoder()
    }
}

/// A running source.
#[derive(Clone, Debug)]
pub struct Source(Running);

impl Source {
    /// A source with its own random stream, over a transport that packs so.
    pub fn new(traffic: &Traffic, packing: Packing, stream: Stream) -> Source {
        Source(Running::new(traffic, packing, stream))
    }

    /// Bytes in all of a transfer whose end can be told.
    pub fn length(&self) -> Option<u64> {
        self.0.length()
    }

    /// The frames so far, if the source writes frames.
    pub fn frames(&self) -> &[Frame] {
        self.0.frames()
    }

    /// Takes what the transport says, before the next write.
    pub fn hear(&mut self, demand: Demand) {
        self.0.hear(demand);
    }

    /// What came of an encoder that follows its transport; `None` of other sources.
    pub fn encoder(&self) -> Option<encoder::EncoderCounts> {
        self.0.encoder()
    }

    /// The application starts.
    pub fn start(&mut self, now: Time) -> Offer {
        self.0.start(now)
    }

    /// It is time for the next write.
    pub fn next(&mut self, now: Time) -> Offer {
        self.0.next(now)
    }

    /// Whether a bounded transfer has been handed over as a whole.
    pub fn is_exhausted(&self) -> bool {
        self.0.is_exhausted()
    }
}

/// What the tests of sources share.
#[cfg(test)]
mod testing {
    use lasthop_core::time::Span;

    use super::*;

    /// A source over datagrams of 1000 B.
    pub(super) fn running(traffic: &Traffic) -> Source {
        Source::new(traffic, Packing { payload: 1000, whole: false }, Stream::new(1, "traffic"))
    }

    /// Times of all writes up to `seconds`.
    pub(super) fn writes(source: &mut Source, seconds: u64) -> Vec<Time> {
        let end = Time::ZERO + Span::from_secs(seconds);
        let mut times = Vec::new();
        let mut offer = source.start(Time::ZERO);
        let mut now = Time::ZERO;
        loop {
            if offer.bytes != Some(0) {
                times.push(now);
            }
            match offer.next {
                Some(next) if next <= end => now = next,
                _ => return times,
            }
            offer = source.next(now);
        }
    }
}
