//! Scripts that are written down from what the engine did: what it got stays, what it sent becomes what is asserted.

use std::collections::HashMap;
use std::fmt::Write;

use lasthop_core::time::Time;
use lasthop_net::transport::codec::{self, Blocks, Header, Tcp};

use super::language::{Action, Event, Head, Segment, Wanted};
use super::simulated::Simulated;
use super::{Player, Script, Stop, written};

/// What happened, in its order.
struct Line {
    at: Time,
    what: What,
}

enum What {
    Got(Segment),
    Sent(Segment),
    Written(u64),
    Closed,
}

/// A player that writes a script instead of comparing with one.
pub(super) struct Recorder<'a> {
    pub(super) player: Player<'a>,
    head: Head,
    lines: Vec<Line>,
    /// Times that a segment with this number was sent.
    times: HashMap<u32, u32>,
    /// What each packet is called that the stack has sent, with its timestamp.
    names: Vec<(String, u32)>,
}

/// A packet that the examined end has sent, as far as its peer cares.
pub(super) struct Departed {
    pub(super) at: Time,
    pub(super) bytes: Vec<u8>,
    pub(super) payload: usize,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(head: &Head, stack: &'a mut Simulated) -> Recorder<'a> {
        let player = Player::new(head, stack);
        let (head, names) = (head.clone(), Vec::new());
        Recorder { player, head, lines: Vec::new(), times: HashMap::new(), names }
    }

    /// Lets the stack go on to a time; returns what it sent.
    pub(super) fn advance(&mut self, until: Time) -> Result<Vec<Departed>, Stop> {
        let mut departed = Vec::new();
        while let Some((at, bytes)) = self.player.stack.next(until)? {
            let parsed = codec::parse(&bytes).ok().map(|(header, payload)| (header, payload.len()));
            let Some((header, payload)) = parsed else { continue };
            let Some(tcp) = self.player.segment_of(&header) else { continue };
            self.player.take(at, &bytes);
            let (segment, stamp) = self.sent(&header, &tcp, payload);
            let seq = segment.seq.unwrap_or_default();
            let time = self.times.entry(seq).or_insert(0);
            *time += 1;
            self.names.push((if *time == 1 { format!("s{seq}") } else { format!("s{seq}-{time}") }, stamp));
            let label = self.names.last().map(|(name, _)| name.clone());
            self.lines.push(Line { at, what: What::Sent(Segment { label, ..segment }) });
            departed.push(Departed { at, bytes, payload });
        }
        Ok(departed)
    }

    /// A packet of the stack as it is asserted.
    fn sent(&self, header: &Header, tcp: &Tcp, payload: usize) -> (Segment, u32) {
        let [start, own] = [self.player.examined.start, self.player.own.start];
        let has = &tcp.options;
        let relative = |number: u32| u64::from(number.wrapping_sub(own));
        let blocks = has.sack.as_slice().iter();
        let sack: Blocks = blocks.map(|&(from, to)| (relative(from), relative(to))).collect();
        let options = Wanted {
            sack_permitted: has.sack_permitted,
            timestamps: has.timestamps.is_some(),
            sack,
            byte_counts: has.measured.byte_counts,
            ..Wanted::default()
        };
        let segment = Segment {
            flags: tcp.flags,
            ecn: header.ecn,
            seq: Some(tcp.seq.wrapping_sub(start)),
            payload: payload as u16,
            ack: tcp.flags.ack.then(|| tcp.ack.wrapping_sub(own)),
            options,
            ..Segment::default()
        };
        (segment, has.timestamps.map_or(0, |(stamp, _)| stamp))
    }

    /// The label of the packet that had this timestamp, if the player would not echo it of itself.
    pub(super) fn echo_of(&mut self, ack: u32, echo: u32) -> Option<String> {
        self.player.acknowledge(ack);
        if self.player.recent == echo {
            return None;
        }
        let (name, _) = self.names.iter().rev().find(|(_, stamp)| *stamp == echo)?;
        Some(name.clone())
    }

    /// Gives the stack a segment.
    pub(super) fn put(&mut self, segment: Segment, at: Time) -> Result<(), Stop> {
        if let Some(label) = &segment.options.echo_of {
            let named = self.names.iter().find(|(name, _)| name == label);
            if let Some((name, stamp)) = named {
                self.player.labels.insert(name.clone(), *stamp);
            }
        }
        self.player.put(&segment, at)?;
        self.lines.push(Line { at, what: What::Got(segment) });
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: u64, at: Time) -> Result<(), Stop> {
        self.player.stack.write(bytes)?;
        self.lines.push(Line { at, what: What::Written(bytes) });
        Ok(())
    }

    pub(super) fn close(&mut self, at: Time) -> Result<(), Stop> {
        self.player.stack.close()?;
        self.lines.push(Line { at, what: What::Closed });
        Ok(())
    }

    /// One past the last number that the stack has sent.
    pub(super) fn sent_to(&self) -> u32 {
        self.player.examined.next
    }

    /// The script, which says that nothing more is sent until a time.
    fn text_until(self, until: Time) -> String {
        let last = self.lines.last().map_or(Time::ZERO, |line| line.at);
        let text = self.text();
        if until <= last {
            return text;
        }
        format!("{text}{} quiet\n", written::after(until.since(last)))
    }

    /// The script.
    pub(super) fn text(self) -> String {
        let echoed: Vec<String> = (self.lines.iter())
            .filter_map(|line| match &line.what {
                What::Got(segment) => segment.options.echo_of.clone(),
                _ => None,
            })
            .collect();
        let mut text = written::head(&self.head);
        let mut last = Time::ZERO;
        for Line { at, what } in self.lines {
            let event = match what {
                What::Got(segment) => format!("< {segment}"),
                What::Sent(mut segment) => {
                    segment.label = segment.label.filter(|label| echoed.contains(label));
                    format!("> {segment}")
                }
                What::Written(0) => "connect".to_owned(),
                What::Written(bytes) => format!("write {bytes}"),
                What::Closed => "close".to_owned(),
            };
            let _ = writeln!(text, "{} {event}", written::after(at.since(last)));
            last = at;
        }
        text
    }
}

/// What becomes of a script when it gets fewer things.
impl Script {
    /// How many things it does to the stack: segments, writes and closes.
    pub fn inputs(&self) -> usize {
        self.events.iter().filter(|event| is_input(event)).count()
    }

    /// Writes down anew what the engine does when it gets only those things whose places are `kept`, at the times at
    /// which they are; the script ends at `until`, at the latest. `None` if they make no sense then: an ACK of what
    /// has not been sent, the echo of a timestamp that there is not.
    pub fn replayed(&self, kept: &[usize], until: Time) -> Option<String> {
        let mut engine = Simulated::new(&self.config, self.head.end);
        let mut recorder = Recorder::new(&self.head, &mut engine);
        let (mut at, mut place) = (Time::ZERO, 0);
        for event in &self.events {
            at = if event.when.relative { at + event.when.at } else { Time::ZERO + event.when.at };
            if at > until {
                break;
            }
            if !is_input(event) {
                continue;
            }
            place += 1;
            if !kept.contains(&(place - 1)) {
                continue;
            }
            recorder.advance(at).ok()?;
            match &event.action {
                Action::Write(bytes) => recorder.write(*bytes, at).ok()?,
                Action::Close => recorder.close(at).ok()?,
                Action::Put(segment) => {
                    let blocks = segment.options.sack.as_slice().iter().map(|&(_, end)| end);
                    if blocks.chain(segment.ack).any(|end| end > recorder.sent_to()) {
                        return None;
                    }
                    recorder.put(segment.clone(), at).ok()?;
                }
                Action::Expect(_) | Action::Check(_) | Action::Quiet => {}
            }
        }
        recorder.advance(until).ok()?;
        Some(recorder.text_until(until))
    }
}

fn is_input(event: &Event) -> bool {
    matches!(event.action, Action::Write(_) | Action::Close | Action::Put(_))
}
