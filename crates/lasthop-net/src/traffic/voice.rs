//! Telephone calls: frames of a codec at equal intervals while somebody talks, and how good the call is by the E-model.
//!
//! A spurt of talk has an exponential length, rounded up to whole frames, and so has the silence behind it, in which
//! nothing is sent; their usual means are those of ITU-T P.59 (1.004 s and 1.587 s). Each packet carries 12 bytes of
//! RTP beside the frames.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered, Pace};
use crate::measure::Durations;

/// Bytes of RTP in a packet (RFC 3550).
const RTP: u32 = 12;

/// A codec as the E-model and the network see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codec {
    /// Its name in scenarios.
    pub name: &'static str,
    /// Bytes of speech in a packet.
    pub speech: u32,
    /// Speech of one packet.
    pub interval: Span,
    /// How far the encoder looks ahead.
    pub look_ahead: Span,
    /// Equipment impairment factor Ie.
    pub impairment: f64,
    /// Packet-loss robustness factor Bpl.
    pub robustness: f64,
}

/// The codecs. Ie and Bpl: ITU-T G.113 (11/2007), Appendix I, G.711 with its own packet loss concealment.
pub const CODECS: [Codec; 4] = [
    codec("g711", 160, [20_000, 0], 0.0, 25.1),
    codec("g729", 20, [20_000, 5_000], 11.0, 19.0),
    codec("g723", 24, [30_000, 7_500], 15.0, 16.1),
    codec("gsm-efr", 31, [20_000, 0], 5.0, 10.0),
];

const fn codec(name: &'static str, speech: u32, micros: [u64; 2], impairment: f64, robustness: f64) -> Codec {
    let [interval, look_ahead] = micros;
    Codec {
        name,
        speech,
        interval: Span::from_nanos(interval * 1_000),
        look_ahead: Span::from_nanos(look_ahead * 1_000),
        impairment,
        robustness,
    }
}

/// One direction of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Voice {
    /// The codec.
    pub codec: &'static Codec,
    /// Mean length of a spurt of talk.
    pub talk: Span,
    /// Mean length of the silence behind it; zero where silence is sent as well.
    pub pause: Span,
}

impl Voice {
    /// Mean packets of a spurt.
    fn spurt(&self) -> f64 {
        // Of a geometric distribution: an exponential one rounded up.
        1.0 / -libm::expm1(-self.codec.interval.seconds() / self.talk.seconds())
    }

    /// Share of the time in which it sends.
    fn active(&self) -> f64 {
        let talk = self.spurt() * self.codec.interval.seconds();
        talk / (talk + self.pause.seconds())
    }

    fn packet(&self) -> u32 {
        self.codec.speech + RTP
    }
}

impl Offered for Voice {
    fn nominal_rate(&self) -> Option<Rate> {
        let while_talking = f64::from(self.packet()) * 8.0 / self.codec.interval.seconds();
        Some(Rate((while_talking * self.active()).round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.packet().into())
    }

    fn pace(&self, _: Packing) -> Option<Pace> {
        Some(Pace { gap_ns: self.codec.interval.0 as f64, active: self.active() })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: self.codec.name, bytes: None })
    }

    fn codec(&self) -> Option<&'static Codec> {
        Some(self.codec)
    }
}

/// Somebody who talks.
#[derive(Clone, Debug)]
pub(super) struct Talker {
    plan: Voice,
    stream: Stream,
    /// Packets left of the spurt.
    left: u64,
}

impl Talker {
    #[expect(clippy::unnecessary_box_returns, reason = "a generator is a large part of few flows")]
    pub(super) fn new(plan: &Voice, _: Packing, stream: Stream) -> Box<Talker> {
        Box::new(Talker { plan: plan.clone(), stream, left: 0 })
    }
}

impl Generate for Talker {
    fn next(&mut self, now: Time) -> Offer {
        let interval = self.plan.codec.interval;
        let mut gap = interval;
        if self.left == 0 {
            let spurt = self.stream.exponential(self.plan.talk.seconds()) / interval.seconds();
            self.left = (spurt.ceil() as u64).max(1);
        }
        self.left -= 1;
        if self.left == 0 && self.plan.pause > Span::ZERO {
            gap = gap + Span::from_seconds(self.stream.exponential(self.plan.pause.seconds()));
        }
        Offer { bytes: Some(self.plan.packet().into()), next: Some(now + gap) }
    }
}

/// How good a call is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallQuality {
    /// Transmission rating factor R.
    pub rating: f64,
    /// Estimated mean opinion score.
    pub mos: f64,
    /// From mouth to ear: packetisation, look-ahead, network and jitter buffer.
    pub delay: Span,
    /// Packets that were lost, or too late for the jitter buffer.
    pub loss: f64,
}

/// The simplified E-model (ITU-T G.107 with all but delay and packet loss at its defaults): `R = 93.2 - Id - Ie,eff`.
/// Id is the fit of Cole and Rosenbluth ("Voice over IP performance monitoring", ACM CCR 31(2), 2001), losses count as
/// independent (BurstR = 1), and MOS follows from R by annex B of G.107.
fn e_model(codec: &Codec, delay: Span, loss: f64) -> CallQuality {
    let milliseconds = delay.seconds() * 1e3;
    let by_delay = 0.024 * milliseconds + 0.11 * (milliseconds - 177.3).max(0.0);
    let percent = 100.0 * loss;
    let by_equipment = codec.impairment + (95.0 - codec.impairment) * percent / (percent + codec.robustness);
    let rating = 93.2 - by_delay - by_equipment;
    let mos = match rating {
        rating if rating <= 0.0 => 1.0,
        rating if rating >= 100.0 => 4.5,
        rating => 1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6,
    };
    // Just above 0 the polynomial dips below 1.
    CallQuality { rating, mos: mos.max(1.0), delay, loss }
}

/// The quality of a call of which packets came with these delays and `lost` did not, with the jitter buffer that serves
/// it best: whatever comes later than one of the percentiles of delay is lost. `None` if nothing was sent.
pub fn quality(codec: &Codec, delays: &Durations, lost: u64) -> Option<CallQuality> {
    let came = delays.count();
    let sent = came + lost;
    if sent == 0 {
        return None;
    }
    let percents: Vec<f64> =
        (50..90).map(f64::from).chain((900..=1000).map(|mil| f64::from(mil) / 10.0)).collect();
    let deadlines = delays.percentiles_seconds(&percents);
    let best = percents.iter().zip(deadlines).filter_map(|(percent, deadline)| {
        let heard = (percent / 100.0 * came as f64).ceil().min(came as f64);
        let delay = Span::from_seconds(deadline?) + codec.interval + codec.look_ahead;
        Some(e_model(codec, delay, 1.0 - heard / sent as f64))
    });
    let nothing = CallQuality { rating: 0.0, mos: 1.0, delay: Span::ZERO, loss: 1.0 };
    Some(best.max_by(|one, other| one.rating.total_cmp(&other.rating)).unwrap_or(nothing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Percentiles, Traffic};
    use crate::traffic::testing::{running, writes};

    const P59: (Span, Span) = (Span::from_millis(1004), Span::from_millis(1587));

    fn call(name: &str, pause: Span) -> Voice {
        let codec = CODECS.iter().find(|codec| codec.name == name).unwrap();
        Voice { codec, talk: P59.0, pause }
    }

    /// Spurts and silences follow exponential distributions (Kolmogorov and Smirnov, 99 of 100 samples; spurts in whole
    /// frames, so theirs is compared at whole frames), and the rate is what they say.
    #[test]
    fn talk_and_silence() {
        let voice = call("g729", P59.1);
        let times = writes(&mut running(&Traffic::Voice(voice.clone())), 20_000);
        let rate = times.len() as f64 * 32.0 * 8.0 / 20_000.0;
        let said = voice.nominal_rate().unwrap().0 as f64;
        assert!((rate / said - 1.0).abs() < 0.03, "{rate}, said {said}");
        let (mut silences, mut spurts, mut frames) = (Vec::new(), Vec::new(), 1.0_f64);
        for pair in times.windows(2) {
            let gap = pair[1].since(pair[0]);
            if gap == voice.codec.interval {
                frames += 1.0;
            } else {
                silences.push((gap - voice.codec.interval).seconds());
                spurts.push(std::mem::replace(&mut frames, 1.0) * 0.020);
            }
        }
        for (mut lengths, mean, step) in [(silences, 1.587, 0.0), (spurts, 1.004, 0.020)] {
            lengths.sort_by(f64::total_cmp);
            let number = lengths.len() as f64;
            let distance = lengths.iter().zip(1..).fold(0.0_f64, |most, (length, rank)| {
                let is_last = lengths.get(rank).is_none_or(|next| next - length > step / 2.0);
                let expected = 1.0 - (-length / mean).exp();
                if is_last { most.max((expected - rank as f64 / number).abs()) } else { most }
            });
            assert!(distance < 1.63 / number.sqrt(), "{mean}: {distance} of {number}");
        }
    }

    #[test]
    fn without_pauses_it_never_stops() {
        let times = writes(&mut running(&Traffic::Voice(call("g711", Span::ZERO))), 10);
        assert_eq!(times.len(), 501);
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) == Span::from_millis(20)));
    }

    /// Worked by hand from the equations: G.711 after 100 ms without loss, G.729 after 200 ms with 2 %, G.711 after 400
    /// ms with 5 %.
    #[test]
    fn ratings_as_worked_by_hand() {
        let codec = |name: &str| CODECS.iter().find(|codec| codec.name == name).unwrap();
        for (name, delay, loss, rating, mos) in [
            ("g711", 100, 0.0, 90.8, 4.3581),
            ("g729", 200, 0.02, 66.903, 3.4486),
            ("g711", 400, 0.05, 43.3223, 2.2296),
        ] {
            let quality = e_model(codec(name), Span::from_millis(delay), loss);
            assert!((quality.rating - rating).abs() < 1e-3, "{name}: {quality:?}");
            assert!((quality.mos - mos).abs() < 1e-3, "{name}: {quality:?}");
        }
        assert_eq!(e_model(codec("g729"), Span::from_secs(2), 0.5).mos, 1.0);
    }

    /// Ninety-eight packets after 50 ms and two after 500 ms: it is better to do without the two.
    #[test]
    fn the_jitter_buffer_that_serves_best() {
        let codec = &CODECS[0];
        let mut delays = Durations::new(Percentiles::Exact);
        (0..98).for_each(|_| delays.add(Span::from_millis(50)));
        (0..2).for_each(|_| delays.add(Span::from_millis(500)));
        let chosen = quality(codec, &delays, 0).unwrap();
        assert_eq!((chosen.delay, (chosen.loss * 100.0).round()), (Span::from_millis(70), 2.0));
        assert_eq!(quality(codec, &Durations::new(Percentiles::Exact), 0), None);
        let none = quality(codec, &Durations::new(Percentiles::Exact), 5).unwrap();
        assert_eq!((none.mos, none.loss), (1.0, 1.0));
    }
}
