//! Random flows: transports with all their knobs, traffic, and classes of flows that arrive.

use std::fmt::Write as _;

use lasthop_cc::ControllerConfig;
use lasthop_net::plan::Profile;
use lasthop_net::transport::rate::config::Protocol;
use lasthop_net::transport::tcp::config::{PrrVariant, Recovery, SpuriousResponse, TcpConfig};
use proptest::prelude::*;

use super::links::{number, one_of, some_of, switch};

/// Values for `prr`, `tlp`, `frto` and `spurious_response`; `None` leaves the default.
type Repairs = (Option<String>, Option<bool>, Option<bool>, Option<String>);

fn repairs() -> impl Strategy<Value = Repairs> {
    let on = || prop::option::weighted(0.3, any::<bool>());
    (
        prop::option::weighted(0.3, one_of(PrrVariant::NAMES)),
        on(),
        on(),
        prop::option::weighted(0.3, one_of(SpuriousResponse::NAMES)),
    )
}

/// What of it this combination can do.
fn possible(repairs: &Repairs, controller: &str, recovery: &str) -> String {
    let (prr, tlp, frto, response) = repairs;
    let recovery = Recovery::by_name(recovery).unwrap();
    let controller = ControllerConfig::by_name(controller).unwrap();
    let rated = controller.needs().rate;
    let config = TcpConfig::new(Profile::Rfc, controller, recovery);
    let mut text = String::new();
    if let Some(prr) = prr.as_ref().filter(|_| recovery.has_scoreboard() && !rated) {
        let _ = write!(text, ", prr = \"{prr}\"");
    }
    if let Some(tlp) = tlp.filter(|_| recovery == Recovery::Rack) {
        let _ = write!(text, ", tlp = {tlp}");
    }
    if let Some(frto) = frto.filter(|_| config.can_undo()) {
        let _ = write!(text, ", frto = {frto}");
    }
    if let Some(response) = response {
        let _ = write!(text, ", spurious_response = \"{response}\"");
    }
    text
}

/// A TCP: any preset or combination, any of its knobs, any parameter of its controller at a bound.
pub(super) fn tcp() -> impl Strategy<Value = String> {
    let presets: Vec<&str> = TcpConfig::PRESETS.iter().map(|preset| preset.name).collect();
    let kind = prop_oneof![
        one_of(&presets).prop_map(|preset| format!("preset = \"{preset}\"")),
        (
            (one_of(ControllerConfig::NAMES), one_of(Recovery::NAMES), repairs()),
            any::<prop::sample::Index>(),
            0..6u8
        )
            .prop_map(|((controller, recovery, repairs), index, bound)| {
                // What XJTCP has echoed leaves no room for SACK.
                let crowded = controller == "xjtcp" && Recovery::by_name(&recovery).unwrap().uses_sack();
                let recovery = if crowded { "newreno".to_owned() } else { recovery };
                let mut text = format!("cc = \"{controller}\", recovery = \"{recovery}\"");
                let params = ControllerConfig::by_name(&controller).unwrap().params();
                let param = index.get(&params);
                let mut repairs = repairs;
                if param.name == "loss_filter" {
                    // It makes CUBIC one of the laws that PRR cannot lead.
                    repairs.0 = None;
                }
                text += &possible(&repairs, &controller, &recovery);
                let value = if bound == 0 { param.min } else { param.max };
                if param.name == "echo" {
                    // Its other choice is refused when timestamps are off.
                } else if let Some(choice) = param.choices.get(value as usize) {
                    let _ = write!(text, ", {} = \"{choice}\"", param.name);
                } else if param.switch {
                    let _ = write!(text, ", {} = {}", param.name, value != 0.0);
                } else if bound < 2 {
                    let _ = write!(text, ", {} = {value:?}", param.name);
                }
                text
            }),
    ];
    let delayed = prop_oneof![
        Just("delayed_ack = false".to_owned()),
        (1u32..300, 1u32..5, 0u32..20).prop_map(|(timeout, segments, quick)| {
            format!("delayed_ack = {{ timeout = \"{timeout} ms\", segments = {segments}, quick = {quick} }}")
        }),
        (1u32..300, 1u32..12, 0u32..9, 0u32..5).prop_map(|(timeout, segments, per_rtt, reordering)| {
            format!(
                "delayed_ack = {{ timeout = \"{timeout} ms\", segments = {segments}, per_rtt = {per_rtt}, \
                 reordering = {reordering} }}"
            )
        }),
    ];
    let rto = (10u32..300, 300u32..4000).prop_map(|(min, initial)| {
        format!("rto = {{ min = \"{min} ms\", initial = \"{initial} ms\", max = \"8 s\" }}")
    });
    let knobs = some_of(vec![
        number("packet_size", 100..1400, "B"),
        number("receiver_window", 1..200, "packets"),
        number("initial_window", 1..20, "packets"),
        number("initial_ssthresh", 1..100, "packets"),
        number("sack_blocks", 1..4, ""),
        number("dup_threshold", 1..6, ""),
        switch("timestamps"),
        switch("dsack"),
        switch("ecn"),
        switch("limited_transmit"),
        switch("idle_restart"),
        switch("grow_when_limited_elsewhere"),
        delayed.boxed(),
        rto.boxed(),
    ]);
    let profile = one_of(Profile::NAMES);
    (kind, profile, knobs).prop_map(|(kind, profile, mut knobs)| {
        if profile == "rfc" {
            // Elsewhere marks are echoed.
            let in_bytes = if knobs.contains("dsack") { ", ecn_bytes = true" } else { "" };
            knobs = knobs.replace("ecn = true", &format!("ecn = true, accurate_ecn = true{in_bytes}"));
        }
        format!("{{ {kind}, profile = \"{profile}\"{knobs} }}")
    })
}

/// A rate-based transport.
fn rate_based() -> impl Strategy<Value = String> {
    let plain = (one_of(Protocol::NAMES), one_of(&["rfc", "ns2"]))
        .prop_map(|(name, profile)| format!("{{ rate = \"{name}\", profile = \"{profile}\" }}"));
    let keys = some_of(vec![
        (0u32..50).prop_map(|wait| format!("nack_wait_s = {}", f64::from(wait) / 1e3)).boxed(),
        (5u32..40).prop_map(|rtts| format!("nack_rtts = {}", f64::from(rtts) / 10.0)).boxed(),
        (1u32..12).prop_map(|most| format!("nack_repeats = {most}")).boxed(),
        (1u32..2000).prop_map(|within| format!("nack_within_s = {}", f64::from(within) / 1e3)).boxed(),
    ]);
    let repeated = (one_of(&["nada", "gcc", "scream"]), keys)
        .prop_map(|(name, keys)| format!("{{ rate = \"{name}\", nack = true{keys} }}"));
    let shape = prop_oneof![
        (2u32..20, 0u32..4)
            .prop_map(|(row, adapt)| format!("fec = \"row\", fec_row = {row}, fec_adapt = {adapt}")),
        (one_of(&["column", "both"]), 2u32..8, 2u32..8).prop_map(|(shape, row, column)| {
            format!("fec = \"{shape}\", fec_row = {row}, fec_column = {column}")
        }),
    ];
    let protected = (one_of(&["nada", "gcc", "scream"]), shape, 1u32..1000, any::<bool>()).prop_map(
        |(name, shape, window, nack)| {
            let window = f64::from(window) / 1e3;
            format!("{{ rate = \"{name}\", {shape}, fec_window_s = {window}, nack = {nack} }}")
        },
    );
    prop_oneof![2 => plain, 1 => repeated, 1 => protected]
}

/// A video call by a controller for media, with any of its knobs, or by a transport that only follows.
pub(super) fn call(duration_ms: u32) -> BoxedStrategy<String> {
    let keys = some_of(vec![
        (5u32..500)
            .prop_map(|ms| format!("feedback_share = 0, feedback_s = {}", f64::from(ms) / 1e3))
            .boxed(),
        number("feedback_overlap", 0..200, ""),
        (1u32..60).prop_map(|tens| format!("resend_within_s = {}", f64::from(tens) / 1e2)).boxed(),
    ]);
    // What ignores marks is not marked, and reports without marks are no use to what is.
    let marks = [", ecn = true", ", ecn = false", ", feedback = \"transport-wide\""];
    let names = prop_oneof![
        (one_of(&["nada", "scream"]), one_of(&marks)),
        (one_of(&["gcc"]), one_of(&["", ", feedback = \"rfc8888\"", ", feedback = \"transport-wide\""])),
    ];
    let plain =
        (names, keys).prop_map(|((name, marks), keys)| format!("{{ rate = \"{name}\"{marks}{keys} }}"));
    let transport = prop_oneof![
        3 => plain.boxed(),
        3 => rate_based().boxed(),
        1 => tcp().boxed(),
        1 => Just("\"udp\"".to_owned()).boxed(),
    ];
    (transport, video_call(), 0..duration_ms / 2)
        .prop_map(|(transport, traffic, at)| {
            format!("transport = {transport}\ntraffic = {traffic}\nstart = \"{at} ms\"\n")
        })
        .boxed()
}

/// Packets at times of the application's own choice.
fn paced_traffic() -> impl Strategy<Value = String> {
    let rate = (10u32..2000, 40u32..1400);
    prop_oneof![
        2 => (rate.clone(), any::<bool>()).prop_map(|((rate, packet), random)| format!(
            "{{ kind = \"cbr\", rate = \"{rate} kbit/s\", packet = \"{packet} B\", random = {random} }}"
        )),
        2 => (rate, 1u32..1000, 0u32..1000).prop_map(|((rate, packet), on, off)| format!(
            "{{ kind = \"on-off\", rate = \"{rate} kbit/s\", packet = \"{packet} B\", on = \"{on} ms\", \
             off = \"{off} ms\" }}"
        )),
        2 => frames(),
        1 => video_call(),
        1 => one_of(&["player", "server"]).prop_map(|side| format!("{{ kind = \"game\", side = \"{side}\" }}")),
    ]
}

/// One direction of a call: a stream of datagrams and nothing else.
fn voice() -> impl Strategy<Value = String> {
    (one_of(&["g711", "g729", "g723", "gsm-efr"]), 1u32..1000, 0u32..1000).prop_map(|(codec, talk, pause)| {
        format!("{{ kind = \"voice\", codec = \"{codec}\", talk = \"{talk} ms\", pause = \"{pause} ms\" }}")
    })
}

/// Lengths of transfers.
fn lengths() -> impl Strategy<Value = String> {
    let mean = || (1u32..100_000).prop_map(|mean| format!("mean = \"{mean} B\""));
    prop_oneof![
        mean().prop_map(|mean| format!("{{ kind = \"exponential\", {mean} }}")),
        (mean(), 101u32..400)
            .prop_map(|(mean, shape)| format!("{{ kind = \"pareto\", {mean}, shape = {shape}e-2 }}")),
        (1u32..50_000, 1u32..30).prop_map(|(median, sigma)| {
            format!("{{ kind = \"log-normal\", median = \"{median} B\", sigma = {sigma}e-1 }}")
        }),
        Just("\"web-search\"".to_owned()),
    ]
}

/// What asks and gets answers over connections that it keeps: a browser, a player of video on demand.
fn clients() -> impl Strategy<Value = String> {
    let common = (1u32..2000, 0u32..300)
        .prop_map(|(request, server)| format!("request = \"{request} B\", server_time = \"{server} ms\""));
    let objects = (1u32..200_000, 1u32..20, 1u32..50_000).prop_map(|(first, count, size)| {
        format!(
            "objects = [{{ size = \"{first} B\" }}, {{ size = \"{size} B\", count = {count}, after = 1 }}]"
        )
    });
    let page = prop_oneof![3 => objects, 1 => one_of(&["home-desktop", "inner-mobile"])
        .prop_map(|name| format!("page = \"{name}\""))];
    let protocol = prop_oneof![
        Just(String::new()),
        (1u32..8).prop_map(|most| format!(", protocol = \"http/1.1\", connections = {most}")),
    ];
    let pages = prop::option::weighted(0.3, 1u32..5)
        .prop_map(|pages| pages.map_or(String::new(), |pages| format!(", pages = {pages}")));
    prop_oneof![
        2 => (common.clone(), page, protocol, (0u32..2000, pages)).prop_map(
            |(common, page, protocol, (think, pages))| {
                format!("{{ kind = \"web\", {page}, {common}, think = \"{think} ms\"{protocol}{pages} }}")
            }
        ),
        1 => (common, one_of(&["bola", "throughput", "fixed"]), 100u32..3000, 2u32..9).prop_map(
            |(common, rule, segment, room)| {
                let buffer = segment * room;
                format!(
                    "{{ kind = \"video-on-demand\", rule = \"{rule}\", segment = \"{segment} ms\", \
                     buffer = \"{buffer} ms\", {common} }}"
                )
            }
        ),
    ]
}

/// Video of a call, in all its ways.
fn video_call() -> impl Strategy<Value = String> {
    let keys = some_of(vec![
        one_of(&["rfc8593", "rfc8867"]).prop_map(|model| format!("model = \"{model}\"")).boxed(),
        number("max_rate", 200..4000, "kbit/s"),
        number("frame_rate", 1..100, ""),
        number("reaction", 0..1000, "ms"),
        number("burst", 10..50_000, "B"),
        number("transient", 1..20, ""),
        number("key_interval", 50..2000, "ms"),
        number("patience", 1..2000, "ms"),
        Just("ladder = [\"160 kbit/s\", \"200 kbit/s\"]".to_owned()).boxed(),
        Just("pause = [\"500 ms\", \"900 ms\"]".to_owned()).boxed(),
    ]);
    keys.prop_map(|keys| format!("{{ kind = \"video-call\"{keys} }}"))
}

/// Frames of a model or of a list.
fn frames() -> impl Strategy<Value = String> {
    let common = (10u32..4000, 1u32..200, any::<bool>()).prop_map(|(rate, frame_rate, spread)| {
        format!("rate = \"{rate} kbit/s\", frame_rate = {frame_rate}, spread = {spread}")
    });
    let sizes = prop::collection::vec(0u32..20_000, 0..20);
    prop_oneof![
        (common.clone(), one_of(&["independent", "shared"])).prop_map(|(common, background)| format!(
            "{{ kind = \"mpeg4\", {common}, background = \"{background}\" }}"
        )),
        (common, sizes, any::<bool>()).prop_map(|(common, sizes, repeat)| {
            let sizes: Vec<String> = sizes.iter().map(|size| format!("\"{size} B\"")).collect();
            let sizes = sizes.join(", ");
            format!("{{ kind = \"frames\", {common}, repeat = {repeat}, sizes = [\"1 B\", {sizes}] }}")
        }),
    ]
}

fn tcp_traffic() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("\"ftp\"".to_owned()),
        3 => (1u32..300_000).prop_map(|bytes| format!("{{ kind = \"ftp\", bytes = \"{bytes} B\" }}")),
        2 => (1u32..5000, 1u32..50, 1u32..200_000).prop_map(|(write, interval, bytes)| format!(
            "{{ kind = \"paced-ftp\", write = \"{write} B\", interval = \"{interval} ms\", bytes = \"{bytes} B\" }}"
        )),
        1 => lengths().prop_map(|size| format!("{{ kind = \"transfer\", size = {size} }}")),
        1 => clients(),
        1 => paced_traffic(),
    ]
}

/// The keys of a `[[flows]]` table, without its ends.
pub(super) fn flow(duration_ms: u32) -> BoxedStrategy<String> {
    let transport = prop_oneof![
        6 => (tcp(), (tcp_traffic(), prop::option::weighted(0.2, 8u32..5000)).prop_map(|(traffic, reader)| {
            traffic + &reader.map_or(String::new(), |rate| format!("\nreader = \"{rate} kbit/s\""))
        })),
        1 => (Just("\"udp\"".to_owned()), prop_oneof![4 => paced_traffic().boxed(), 1 => voice().boxed()]),
        1 => (rate_based(), prop_oneof![Just("\"ftp\"".to_owned()), paced_traffic()]),
    ];
    let times = prop_oneof![
        3 => (0..duration_ms / 2).prop_map(|at| format!("start = \"{at} ms\"")),
        3 => (1..duration_ms).prop_map(|to| format!("start = {{ uniform = [\"0 s\", \"{to} ms\"] }}")),
        1 => (0..duration_ms / 2, duration_ms / 2 + 1..duration_ms)
            .prop_map(|(start, stop)| format!("start = \"{start} ms\"\nstop = \"{stop} ms\"")),
    ];
    (transport, times)
        .prop_map(|((transport, traffic), times)| {
            format!("transport = {transport}\ntraffic = {traffic}\n{times}\n")
        })
        .boxed()
}

/// One direction of a call, as a flow.
pub(super) fn calls(duration_ms: u32) -> impl Strategy<Value = String> {
    (voice(), 0..duration_ms / 2)
        .prop_map(|(voice, at)| format!("transport = \"udp\"\ntraffic = {voice}\nstart = \"{at} ms\"\n"))
}

/// Flows that arrive one after another between the same hosts.
pub(super) fn arrivals(duration_ms: u32) -> BoxedStrategy<String> {
    (flow(duration_ms), one_of(&["poisson", "periodic"]), 2..8u32)
        .prop_map(move |(flow, kind, count)| {
            let every = (duration_ms / (count + 1)).max(1);
            let own: Vec<&str> =
                flow.lines().filter(|line| !line.starts_with("start") && !line.starts_with("stop")).collect();
            format!(
                "{}\ncount = {count}\nstart = {{ arrivals = \"{kind}\", every = \"{every} ms\" }}\n",
                own.join("\n")
            )
        })
        .boxed()
}
