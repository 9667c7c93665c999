//! What applications say of a run: pages of browsers, calls, video on demand, and transfers by their length.
//!
//! Parts of the rows and sums of [`crate::summary`], which fills them in.

use lasthop_core::time::{Span, Time};
use lasthop_net::measure::{ClassStats, Durations, FlowStats, Window};
use lasthop_net::plan::FlowPlan;
use lasthop_net::traffic::player::{Screen, Viewing};
use lasthop_net::traffic::voice::{self, CallQuality};
use lasthop_net::traffic::web::PageTimes;

use crate::columns;
use crate::columns::About;

/// Times of transfers or of pages; those that did not finish are the longest.
pub(crate) struct Times(Vec<Option<f64>>);

impl Times {
    /// In any order.
    pub(crate) fn new(mut times: Vec<Option<f64>>) -> Times {
        times.sort_by(|a, b| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
        Times(times)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn finished(&self) -> u64 {
        self.0.iter().flatten().count() as u64
    }

    /// By nearest rank; of none there is none.
    pub(crate) fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().flatten()
    }

    /// Mean of those that finished.
    fn mean(&self) -> Option<f64> {
        let finished = self.finished();
        (finished > 0).then(|| self.0.iter().flatten().sum::<f64>() / finished as f64)
    }
}

columns! {
    /// Transfers of one class of lengths, within the measured time.
    #[derive(Clone, Debug)]
    pub struct SizeClass {
        /// transfers of such a length
        transfers: u64 = About::new("", "transfers");
        /// those of them that finished
        finished: u64 = About::new("", "finished").higher();
        /// median of the completion times of all of them; null if it falls among those that did not finish
        completion_p50_s: Option<f64> = About::new("s", "median completion time").lower();
        /// 95th percentile (nearest rank), likewise
        completion_p95_s: Option<f64> = About::new("s", "p95 completion time").lower();
        /// 99th percentile, likewise
        completion_p99_s: Option<f64> = About::new("s", "p99 completion time").lower();
    }
}

columns! {
    /// Flows of a class, of which one row tells.
    #[derive(Clone, Debug)]
    pub struct ClassSummary {
        /// flows that arrived
        flows: u64 = About::new("", "flows").sum().shown("flows");
        /// transfers that finished; null over a transport that does not retransmit until all has arrived
        finished: Option<u64> = About::new("", "finished").higher().sum().part_of("class_flows").shown("finished");
        /// median of the completion times of all transfers; null if it falls among those that did not finish
        completion_p50_s: Option<f64> = About::new("s", "median completion time").lower().mean().shown("median");
        /// 95th percentile (nearest rank), likewise
        completion_p95_s: Option<f64> = About::new("s", "p95 completion time").lower().mean().shown("p95");
        /// 99th percentile, likewise
        completion_p99_s: Option<f64> = About::new("s", "p99 completion time").lower().mean().shown("p99");
    }
}

impl ClassSummary {
    /// `finishes`: the transport retransmits until all has arrived.
    pub(crate) fn new(class: &ClassStats, finishes: bool) -> ClassSummary {
        let all = Times::new(class.transfers.iter().map(|transfer| transfer.1).collect());
        ClassSummary {
            flows: class.flows,
            finished: finishes.then(|| all.finished()),
            completion_p50_s: all.percentile(50),
            completion_p95_s: all.percentile(95),
            completion_p99_s: all.percentile(99),
        }
    }
}

/// Longest small transfer and longest middle one, in bytes.
const SMALL: u64 = 100_000;
const MIDDLE: u64 = 1_000_000;

impl SizeClass {
    /// Small, middle and large transfers, of lengths and times; `None` where there is none, and all if they are of one
    /// class.
    pub(crate) fn of(transfers: &[(u64, Option<f64>)]) -> [Option<Box<SizeClass>>; 3] {
        let class = |bytes: u64| usize::from(bytes > SMALL) + usize::from(bytes > MIDDLE);
        let mut times = [const { Vec::new() }; 3];
        for &(bytes, time) in transfers {
            times[class(bytes)].push(time);
        }
        if times.iter().filter(|times| !times.is_empty()).count() < 2 {
            return [const { None }; 3];
        }
        times.map(|times| {
            let all = Times::new(times);
            (all.count() > 0).then(|| {
                Box::new(SizeClass {
                    transfers: all.count(),
                    finished: all.finished(),
                    completion_p50_s: all.percentile(50),
                    completion_p95_s: all.percentile(95),
                    completion_p99_s: all.percentile(99),
                })
            })
        })
    }
}

columns! {
    /// The pages of a browser that its reader asked for within the measured time.
    #[derive(Clone, Copy, Debug)]
    pub struct WebSummary {
        /// pages that were requested
        pages_asked: u64 = About::new("", "pages").sum().shown("pages");
        /// those of them that were completed
        pages_read: u64 = About::new("", "finished pages").higher().sum().shown("finished");
        /// mean of the times of those that were completed, from the click to the last byte of the last object
        page_mean_s: Option<f64> = About::new("s", "mean page time").lower().mean().shown("mean time");
        /// median of the times of all pages; null if it falls among those that were not completed
        page_p50_s: Option<f64> = About::new("s", "median page time").lower().mean().shown("median");
        /// 95th percentile, by nearest rank, likewise
        page_p95_s: Option<f64> = About::new("s", "p95 page time").lower().mean().shown("p95");
        /// 99th percentile, likewise
        page_p99_s: Option<f64> = About::new("s", "p99 page time").lower().mean();
    }
}

impl WebSummary {
    pub(crate) fn new(times: &PageTimes, window: &Window) -> WebSummary {
        let all = Times::new(pages_within(times, window).collect());
        WebSummary {
            pages_asked: all.count(),
            pages_read: all.finished(),
            page_mean_s: all.mean(),
            page_p50_s: all.percentile(50),
            page_p95_s: all.percentile(95),
            page_p99_s: all.percentile(99),
        }
    }
}

/// The times in seconds of the pages that began in the measured time.
pub(crate) fn pages_within<'a>(
    times: &'a PageTimes,
    window: &Window,
) -> impl Iterator<Item = Option<f64>> + use<'a> {
    let window = *window;
    let begun = times.pages.iter().filter(move |(begun, _)| window.contains(*begun));
    begun.map(|(_, time)| time.map(Span::seconds))
}

columns! {
    /// What the viewer of video on demand had, over the whole run, from the start of the flow on.
    #[derive(Clone, Copy, Debug)]
    pub struct PlayerSummary {
        /// from the click to the start of playing; null if playing never started
        startup_s: Option<f64> = About::new("s", "start-up delay").lower().mean().shown("start-up");
        /// number of stalls: playing stopped because the buffer was empty
        stalls: u64 = About::new("", "stalls").lower().mean().shown("stalls");
        /// total time of the stalls
        stall_s: f64 = About::new("s", "stall time").lower().mean();
        /// `stall_s` over itself and the time of playing
        stall_share: Option<f64> = About::share("share of time stalled").lower().mean().shown("stalled").compared()
            .says("stands still {} longer", "stands still {} shorter");
        /// segments of video that arrived
        segments: u64 = About::new("", "segments").higher().sum();
        /// how often the bit rate changed from one segment to the next
        switches: u64 = About::new("", "switches").lower().mean().shown("switches");
        /// mean bit rate of the segments
        bit_rate_bit_s: Option<f64> = About::new("bit/s", "bit rate").higher().mean().shown("bit rate").compared()
            .says("plays a bit rate {} higher", "plays a bit rate {} lower")
            .times("plays a bit rate {} times as high");
        /// quality of experience per segment (Yin et al., SIGCOMM 2015): mean bit rate, less the mean change of it,
        /// less the highest bit rate of the ladder for each second of stalls and of start-up, over the number of
        /// segments
        quality_bit_s: Option<f64> = About::new("bit/s", "quality (linear)").higher().mean().shown("quality");
    }
}

impl PlayerSummary {
    pub(crate) fn new(screen: &Screen, end: Time) -> PlayerSummary {
        let Viewing { startup, stalls, stalled, played, segments, switches, bit_rate, quality } =
            screen.viewing(end);
        let all = (stalled + played).seconds();
        PlayerSummary {
            startup_s: startup.map(Span::seconds),
            stalls,
            stall_s: stalled.seconds(),
            stall_share: (all > 0.0).then(|| stalled.seconds() / all),
            segments,
            switches,
            bit_rate_bit_s: bit_rate,
            quality_bit_s: quality,
        }
    }
}

columns! {
    /// The quality of one direction of a call by the simplified E-model (ITU-T G.107, with delay as in Cole and
    /// Rosenbluth 2001), with the jitter buffer that serves it best.
    #[derive(Clone, Copy, Debug)]
    pub struct VoiceSummary {
        /// mean opinion score that the E-model estimates, from 1 to 4.5; above 4 most users are satisfied, below 3.6
        /// many are not
        mos: f64 = About::new("", "MOS").higher().mean().shown("MOS").compared()
            .says("has a MOS {} higher", "has a MOS {} lower");
        /// transmission rating factor R of the E-model
        rating: f64 = About::new("", "rating R").called("call_rating").higher().mean().shown("rating R");
        /// from mouth to ear: a packet of speech, the codec's look-ahead, the network and the jitter buffer
        mouth_to_ear_s: f64 = About::new("s", "mouth to ear").lower().mean().shown("mouth to ear");
        /// packets that were lost, or too late for the jitter buffer, over packets that should have been heard
        unheard_share: f64 = About::share("share of speech not heard").lower().mean().shown("not heard");
    }
}

impl VoiceSummary {
    /// Of what a receiver saw of `flow`, or of what its applications did (`call`), where packets do not tell; `None` if
    /// that is no voice, or nothing of it was sent.
    pub fn of(flow: &FlowPlan, stats: &FlowStats, call: Option<&(Durations, u64)>) -> Option<VoiceSummary> {
        let codec = flow.traffic.offered().codec()?;
        let (delays, lost) =
            call.map_or((&stats.delay, stats.lost.iter().sum()), |(delays, lost)| (delays, *lost));
        let CallQuality { rating, mos, delay, loss } = voice::quality(codec, delays, lost)?;
        Some(VoiceSummary { mos, rating, mouth_to_ear_s: delay.seconds(), unheard_share: loss })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of twenty transfers of 1 to 20 s the 19th is the 95th percentile; one that did not finish is the longest.
    #[test]
    fn percentiles_of_all_transfers() {
        let mut transfers = Times((1..=20).map(|time| Some(f64::from(time))).collect());
        assert_eq!([50, 95, 99].map(|percent| transfers.percentile(percent)), [10.0, 19.0, 20.0].map(Some));
        transfers.0[19] = None;
        assert_eq!((transfers.count(), transfers.finished()), (20, 19));
        assert_eq!([95, 99].map(|percent| transfers.percentile(percent)), [Some(19.0), None]);
    }

    /// Classes by length, each with its own percentiles; of one class there is nothing to tell apart.
    #[test]
    fn transfers_by_length() {
        let transfers =
            [(100_000, Some(1.0)), (100_001, Some(2.0)), (1_000_000, None), (1_000_001, Some(9.0))];
        let [small, middle, large] = SizeClass::of(&transfers).map(Option::unwrap);
        assert_eq!((small.transfers, small.finished, small.completion_p99_s), (1, 1, Some(1.0)));
        assert_eq!((middle.transfers, middle.finished, middle.completion_p50_s), (2, 1, Some(2.0)));
        assert_eq!((middle.completion_p95_s, large.completion_p50_s), (None, Some(9.0)));
        assert!(SizeClass::of(&transfers[..1]).iter().all(Option::is_none));
        assert!(SizeClass::of(&[]).iter().all(Option::is_none));
    }
}
