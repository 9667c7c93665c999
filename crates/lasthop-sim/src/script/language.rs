//! From the text of a script to its head and its events; docs/how-to/script-a-connection.md describes the language.

use lasthop_core::time::Span;
use lasthop_net::transport::codec::{Blocks, Ecn, Flags};
use lasthop_net::transport::extra::ByteCounts;
use serde::Deserialize;
use thiserror::Error;

/// What stands between the head of a script and its events.
pub(super) const RULE: &str = "---";
/// Most segments that one line stands for.
const MOST_SEGMENTS: u32 = 10_000;

/// Why a text is no script; what to do about it is in the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}, line {line}: {text}")]
pub struct ScriptError {
    /// Of the script.
    pub name: String,
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

/// Which end of a connection is examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Examined {
    /// The one that opens the connection and sends data.
    #[default]
    Sender,
    /// The one that waits for it and takes them.
    Receiver,
}

/// What stands above the rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// What is asserted, in a sentence.
    pub title: String,
    /// Where it is written: standards and their sections.
    pub sources: Vec<String>,
    /// Which end is examined.
    #[serde(default)]
    pub end: Examined,
    /// Its transport, as in a scenario.
    pub transport: toml::Value,
    /// The congestion control with which the kernel has to do the same.
    #[serde(default)]
    pub kernel: Option<String>,
    /// Why the kernel does something else; given instead of `kernel`.
    #[serde(default)]
    pub not_on_kernel: Option<String>,
    /// By how many milliseconds the times of the stack may differ.
    #[serde(default)]
    pub tolerance_ms: f64,
    /// What the stack sends waits for a line that names it, as in packetdrill. Else it has to be named before anything
    /// else happens.
    #[serde(default)]
    pub unnamed_wait: bool,
    /// The line of each event in the file of another language that the script was made of, for messages.
    #[serde(default)]
    pub origin_lines: Vec<usize>,
}

/// When something is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    /// Counted from the event before it.
    pub(super) relative: bool,
    pub(super) at: Span,
    /// It may come until then.
    pub(super) until: Option<Span>,
}

/// Something that can be looked at within the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// The congestion window in segments.
    Cwnd,
    /// The slow start threshold in segments.
    Ssthresh,
    /// The smoothed round-trip time in milliseconds.
    Srtt,
    /// Bytes that the application has got.
    Delivered,
}

impl Quantity {
    const ALL: [(&'static str, Quantity); 4] = [
        ("cwnd", Quantity::Cwnd),
        ("ssthresh", Quantity::Ssthresh),
        ("srtt", Quantity::Srtt),
        ("delivered", Quantity::Delivered),
    ];

    pub(super) fn name(self) -> &'static str {
        Quantity::ALL[self as usize].0
    }
}

/// An assertion of a number with this many digits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) quantity: Quantity,
    pub(super) value: f64,
    /// Half a unit of the last digit that was written.
    pub(super) slack: f64,
}

/// Options of a segment. What is `None` or `false` is not sent, and not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: bool,
    /// None of these may be there.
    pub(super) without: Vec<Absent>,
    /// The packet whose timestamp is echoed, by its label.
    pub(super) echo_of: Option<String>,
    pub(super) sack: Blocks,
    pub(super) byte_counts: Option<ByteCounts>,
}

/// An option that a line says is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Timestamps,
    SackPermitted,
    WindowScale,
    ByteCounts,
}

/// A segment, in relative numbers: the SYN of either side is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) flags: Flags,
    pub(super) ecn: Ecn,
    /// Its ECN field is not looked at.
    pub(super) any_ecn: bool,
    /// `None`: where the side is.
    pub(super) seq: Option<u32>,
    pub(super) payload: u16,
    pub(super) ack: Option<u32>,
    pub(super) window: Option<u16>,
    pub(super) options: Wanted,
    pub(super) label: Option<String>,
}

/// What happens or is asserted.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// The application writes this many bytes; the first time opens the connection.
    Write(u64),
    /// The application writes no more.
    Close,
    /// The stack gets a segment.
    Put(Segment),
    /// The stack sends a segment.
    Expect(Segment),
    /// The stack has these numbers.
    Check(Vec<Claim>),
    /// The stack has sent nothing more.
    Quiet,
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) line: usize,
    pub(super) when: When,
    pub(super) action: Action,
    /// As it is written, for messages.
    pub(super) text: String,
}

/// Reads a script.
pub(super) fn read(text: &str, name: &str) -> Result<(Head, Vec<Event>), ScriptError> {
    let error = |line: usize, text: String| ScriptError { name: name.to_owned(), line, text };
    let lines: Vec<&str> = text.lines().collect();
    let Some(rule) = lines.iter().position(|line| line.trim_end() == RULE) else {
        let text = format!("no line '{RULE}' between the head of the script and its events");
        return Err(error(lines.len().max(1), text));
    };
    let head = lines[..rule].join("\n");
    let head: Head = toml::from_str(&head).map_err(|wrong| {
        let before = wrong.span().map_or(0, |span| span.start.min(head.len()));
        let line = head.get(..before).map_or(1, |before| before.split('\n').count());
        error(line, wrong.message().to_owned())
    })?;
    if !(0.0..=1e6).contains(&head.tolerance_ms) {
        return Err(error(1, "tolerance_ms: give milliseconds, from 0 to 1000000".to_owned()));
    }
    if head.kernel.is_some() == head.not_on_kernel.is_some() {
        let text = "say either 'kernel', the congestion control with which the kernel does the same, or \
                    'not_on_kernel', why it does not";
        return Err(error(1, text.to_owned()));
    }
    let mut events = Vec::new();
    let mut origins = head.origin_lines.iter().copied();
    for (index, line) in lines.iter().enumerate().skip(rule + 1) {
        let written = line.split('#').next().unwrap_or_default().trim();
        if written.is_empty() {
            continue;
        }
        let number = origins.next().unwrap_or(index + 1);
        let (when, actions) = read_line(written).map_err(|text| error(number, text))?;
        if head.end == Examined::Receiver
            && actions.iter().any(|action| matches!(action, Action::Write(_) | Action::Close))
        {
            let text = format!(
                "{written:?}: the end that is examined receives, and neither connects, writes nor closes; examine \
                 the sender (leave 'end' out), or let '<' bring what the other end sends"
            );
            return Err(error(number, text));
        }
        // What else the line stands for happens at once.
        let mut when = Some(when);
        for action in actions {
            let at_once = When { relative: true, at: Span::ZERO, until: None };
            let when = when.take().unwrap_or(at_once);
            events.push(Event { line: number, when, action, text: written.to_owned() });
        }
    }
    if events.is_empty() {
        return Err(error(lines.len().max(1), format!("nothing happens after the line '{RULE}'")));
    }
    Ok((head, events))
}

fn read_line(line: &str) -> Result<(When, Vec<Action>), String> {
    let (when, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let when = read_when(when)?;
    let rest = rest.trim();
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let alone = |action: Action| match rest {
        "" => Ok(vec![action]),
        more => Err(format!("{more:?} after {word:?}, which stands alone")),
    };
    let actions = match word {
        "<" => read_segments(rest)?.into_iter().map(Action::Put).collect(),
        ">" => read_segments(rest)?.into_iter().map(Action::Expect).collect(),
        "=" => vec![Action::Check(rest.split(',').map(read_claim).collect::<Result<_, _>>()?)],
        "write" => {
            let bytes = rest.parse().map_err(|_| format!("write {rest:?}: give a number of bytes"))?;
            vec![Action::Write(bytes)]
        }
        "connect" => alone(Action::Write(0))?,
        "close" => alone(Action::Close)?,
        "quiet" => alone(Action::Quiet)?,
        _ => {
            return Err(format!(
                "{word:?} after the time: give '<' (the stack gets), '>' (it sends), '=' (it has), connect, \
                 write, close or quiet"
            ));
        }
    };
    if actions.iter().any(|action| matches!(action, Action::Put(segment) if segment.any_ecn)) {
        return Err("[any] is for what the stack sends ('>')".to_owned());
    }
    if when.until.is_some() && !matches!(actions[0], Action::Expect(_)) {
        return Err("a range of times is for what the stack sends ('>')".to_owned());
    }
    Ok((when, actions))
}

/// `0.1`, `+0.1` or `+0.1~0.3`.
fn read_when(text: &str) -> Result<When, String> {
    let (relative, times) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let (at, until) = match times.split_once('~') {
        Some((at, until)) => (at, Some(until)),
        None => (times, None),
    };
    let seconds = |text: &str| {
        let value: f64 = text.parse().ok()?;
        (0.0..1e6).contains(&value).then(|| Span((value * 1e9).round() as u64))
    };
    let wrong = || {
        format!(
            "{text:?} is no time: give seconds from the start (0.1), from the event before (+0.1), or a \
                 range (+0.1~0.3)"
        )
    };
    let at = seconds(at).ok_or_else(wrong)?;
    let until =
        until.map(|until| seconds(until).filter(|&until| until >= at).ok_or_else(wrong)).transpose()?;
    Ok(When { relative, at, until })
}

fn read_claim(text: &str) -> Result<Claim, String> {
    let wrong = || format!("{:?}: give a name and a number, such as 'cwnd 10'", text.trim());
    let (name, value) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
    let known = Quantity::ALL.iter().find(|(known, _)| *known == name);
    let Some(&(_, quantity)) = known else {
        let names: Vec<&str> = Quantity::ALL.iter().map(|(name, _)| *name).collect();
        return Err(format!("nothing is called {name:?}: there are {}", names.join(", ")));
    };
    let value = value.trim();
    if value == "infinite" {
        return Ok(Claim { quantity, value: f64::INFINITY, slack: 0.0 });
    }
    let digits = value.split_once('.').map_or(0, |(_, digits)| digits.len());
    let number: f64 = value.parse().map_err(|_| wrong())?;
    // A whole number is meant exactly; one with digits behind the point as far as they go.
    let slack = if digits == 0 { 0.0 } else { 0.5 * 0.1f64.powi(digits as i32) };
    Ok(Claim { quantity, value: number, slack })
}

/// A segment, or several of one size in a row: `1:3001(3x1000)`.
fn read_segments(text: &str) -> Result<Vec<Segment>, String> {
    let (text, options) = match text.split_once('<') {
        Some((text, options)) => {
            let end = options.find('>').ok_or("the options end with '>'")?;
            (format!("{} {}", text, &options[end + 1..]), read_options(&options[..end])?)
        }
        None => (text.to_owned(), Wanted::default()),
    };
    let mut words = text.split_ascii_whitespace().peekable();
    let mut segment = Segment { options, ..Segment::default() };
    if let Some(ecn) = words.next_if(|word| word.starts_with('[')) {
        segment.ecn = match ecn {
            "[ect0]" => Ecn::Capable,
            "[ect1]" => Ecn::Capable1,
            "[ce]" => Ecn::Congestion,
            "[any]" => Ecn::NotCapable,
            _ => return Err(format!("{ecn:?}: the ECN field is [ect0], [ect1], [ce] or [any]")),
        };
        segment.any_ecn = ecn == "[any]";
    }
    let flags = words.next().ok_or("a segment begins with its flags, such as S, S. or .")?;
    segment.flags = read_flags(flags)?;
    let mut pieces = (1, 0);
    if let Some(range) = words.next_if(|word| word.contains(':')) {
        let (seq, count, payload) = read_range(range)?;
        segment.seq = Some(seq);
        segment.payload = payload;
        pieces = (count, u32::from(payload));
    }
    while let Some(word) = words.next() {
        if let Some(label) = word.strip_prefix('@') {
            segment.label = Some(label.to_owned());
            continue;
        }
        let value = words.next().unwrap_or_default();
        let wrong = || format!("{word} {value}: give a whole number");
        match word {
            "ack" => segment.ack = Some(value.parse().map_err(|_| wrong())?),
            "win" => segment.window = Some(value.parse().map_err(|_| wrong())?),
            _ => {
                return Err(format!(
                    "{word:?} in a segment: after the flags come seq:end(length), ack, win, \
                                     <options> and @label"
                ));
            }
        }
    }
    if segment.ack.is_some() != segment.flags.ack {
        return Err("a segment with '.' among its flags has 'ack', and no other".to_owned());
    }
    let first = segment.seq.unwrap_or(0);
    Ok((0..pieces.0)
        .map(|piece| {
            let seq = segment.seq.map(|_| first + piece * pieces.1);
            Segment { seq, ..segment.clone() }
        })
        .collect())
}

fn read_flags(text: &str) -> Result<Flags, String> {
    let mut flags = Flags::default();
    for letter in text.chars() {
        match letter {
            'S' => flags.syn = true,
            'F' => flags.fin = true,
            'R' => flags.rst = true,
            'P' => flags.psh = true,
            '.' => flags.ack = true,
            'E' => flags.ece = true,
            'W' => flags.cwr = true,
            'A' => flags.ae = true,
            _ => {
                return Err(format!(
                    "flag {letter:?}: there are S, F, R, P, '.' (ACK), E (ECE), W (CWR) and A (AE)"
                ));
            }
        }
    }
    Ok(flags)
}

/// `1:1001(1000)`, or `1:3001(3x1000)`: first number, segments, payload of each.
fn read_range(text: &str) -> Result<(u32, u32, u16), String> {
    let parts = || {
        let (seq, rest) = text.split_once(':')?;
        let (end, length) = rest.strip_suffix(')')?.split_once('(')?;
        let (count, payload) = length.split_once('x').unwrap_or(("1", length));
        let numbers: (u32, u32, u32, u16) =
            (seq.parse().ok()?, end.parse().ok()?, count.parse().ok()?, payload.parse().ok()?);
        Some(numbers)
    };
    let (seq, end, count, payload) = parts()
        .ok_or_else(|| format!("{text:?}: give seq:end(length), or seq:end(NxLENGTH) for N segments"))?;
    if count == 0 || count > MOST_SEGMENTS {
        return Err(format!("{text:?}: 1 to {MOST_SEGMENTS} segments"));
    }
    let length = u64::from(count) * u64::from(payload);
    if u64::from(seq) + length != u64::from(end) {
        return Err(format!("{text:?}: {length} bytes from {seq} on end at {}", u64::from(seq) + length));
    }
    Ok((seq, count, payload))
}

/// The fields of the option of Accurate ECN as they are on the wire: `e1b 1 ceb 0 e0b 1`, or `e0b` first; those at the
/// end may be left out.
fn read_counts(words: &[&str]) -> Option<ByteCounts> {
    let ect1_first = words.first() != Some(&"e0b");
    let names = if ect1_first { ["e1b", "ceb", "e0b"] } else { ["e0b", "ceb", "e1b"] };
    let mut counts = ByteCounts { ect1_first, ..ByteCounts::default() };
    for pair in words.chunks(2) {
        let &[name, value] = pair else { return None };
        let place = usize::from(counts.present);
        let value: u32 = value.parse().ok().filter(|&value| value < 1 << 24)?;
        *counts.fields.get_mut(place).filter(|_| names[place] == name)? = value;
        counts.present += 1;
    }
    Some(counts)
}

/// The same in the notation of scripts.
pub(super) fn written_counts(counts: &ByteCounts) -> String {
    let names = if counts.ect1_first { ["e1b", "ceb", "e0b"] } else { ["e0b", "ceb", "e1b"] };
    let fields = names.iter().zip(counts.fields).take(counts.present.into());
    fields.fold("ECN".to_owned(), |text, (name, value)| format!("{text} {name} {value}"))
}

fn read_options(text: &str) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    for option in text.split(',') {
        let words: Vec<&str> = option.split_ascii_whitespace().collect();
        let wrong = || {
            format!(
                "option {:?}: give mss N, wscale N, sackOK, TS, TS ecr @label, sack A:B ..., or ECN with up to \
                 three of e1b N ceb N e0b N or of e0b N ceb N e1b N; 'no TS', 'no sackOK', 'no wscale', 'no ECN' \
                 where they must not be",
                option.trim()
            )
        };
        match words[..] {
            ["mss", value] => wanted.mss = Some(value.parse().map_err(|_| wrong())?),
            ["wscale", value] => {
                wanted.window_scale =
                    Some(value.parse().ok().filter(|&shift| shift <= 14).ok_or_else(wrong)?);
            }
            ["sackOK"] => wanted.sack_permitted = true,
            ["TS"] => wanted.timestamps = true,
            ["no", "TS"] => wanted.without.push(Absent::Timestamps),
            ["no", "sackOK"] => wanted.without.push(Absent::SackPermitted),
            ["no", "ECN"] => wanted.without.push(Absent::ByteCounts),
            ["no", "wscale"] => wanted.without.push(Absent::WindowScale),
            ["TS", "ecr", label] => {
                wanted.timestamps = true;
                wanted.echo_of = Some(label.strip_prefix('@').ok_or_else(wrong)?.to_owned());
            }
            ["ECN", ref counts @ ..] => wanted.byte_counts = Some(read_counts(counts).ok_or_else(wrong)?),
            ["sack", ref blocks @ ..] if !blocks.is_empty() && blocks.len() <= 4 => {
                for block in blocks {
                    let ends = block.split_once(':').ok_or_else(wrong)?;
                    let ends = (ends.0.parse().map_err(|_| wrong())?, ends.1.parse().map_err(|_| wrong())?);
                    wanted.sack.push(ends);
                }
            }
            _ => return Err(wrong()),
        }
    }
    Ok(wanted)
}
