//! Segments and times as scripts write them: what `language.rs` reads, the other way round.

use std::fmt::{self, Display, Formatter};

use lasthop_core::time::Span;
use lasthop_net::transport::codec::{Ecn, Flags};

use super::language::{Absent, Head, RULE, Segment, Wanted, written_counts};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A time from the event before it, to the nanosecond, without zeros at its end.
pub(super) fn after(span: Span) -> String {
    let text = format!("+{}.{:09}", span.0 / SECOND, span.0 % SECOND);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The head of a script, with the rule below it.
pub(super) fn head(head: &Head) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let sources: Vec<String> = head.sources.iter().map(|source| quoted(source)).collect();
    let judge = match (&head.kernel, &head.not_on_kernel) {
        (Some(law), _) => format!("kernel = {}", quoted(law)),
        (None, why) => format!("not_on_kernel = {}", quoted(why.as_deref().unwrap_or_default())),
    };
    let (title, sources) = (quoted(&head.title), sources.join(", "));
    format!("title = {title}\nsources = [{sources}]\ntransport = {}\n{judge}\n{RULE}\n", head.transport)
}

impl Display for Segment {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let ecn = match self.ecn {
            _ if self.any_ecn => "[any] ",
            Ecn::NotCapable => "",
            Ecn::Capable => "[ect0] ",
            Ecn::Capable1 => "[ect1] ",
            Ecn::Congestion => "[ce] ",
        };
        to.write_str(ecn)?;
        let Flags { syn, fin, rst, ack, ece, cwr, ae, .. } = self.flags;
        for (set, letter) in
            [(syn, 'S'), (fin, 'F'), (rst, 'R'), (ece, 'E'), (cwr, 'W'), (ae, 'A'), (ack, '.')]
        {
            if set {
                write!(to, "{letter}")?;
            }
        }
        if let Some(seq) = self.seq {
            write!(to, " {seq}:{}({})", seq.wrapping_add(self.payload.into()), self.payload)?;
        }
        if let Some(ack) = self.ack {
            write!(to, " ack {ack}")?;
        }
        if let Some(window) = self.window {
            write!(to, " win {window}")?;
        }
        let options = options(&self.options);
        if !options.is_empty() {
            write!(to, " <{}>", options.join(","))?;
        }
        match &self.label {
            Some(label) => write!(to, " @{label}"),
            None => Ok(()),
        }
    }
}

fn options(wanted: &Wanted) -> Vec<String> {
    let mut options = Vec::new();
    options.extend(wanted.mss.map(|mss| format!("mss {mss}")));
    options.extend(wanted.sack_permitted.then(|| "sackOK".to_owned()));
    options.extend(wanted.timestamps.then(|| match &wanted.echo_of {
        Some(label) => format!("TS ecr @{label}"),
        None => "TS".to_owned(),
    }));
    options.extend(wanted.window_scale.map(|shift| format!("wscale {shift}")));
    options.extend(wanted.without.iter().map(|absent| {
        let name = match absent {
            Absent::Timestamps => "TS",
            Absent::SackPermitted => "sackOK",
            Absent::WindowScale => "wscale",
            Absent::ByteCounts => "ECN",
        };
        format!("no {name}")
    }));
    let blocks: Vec<String> =
        wanted.sack.as_slice().iter().map(|(from, to)| format!("{from}:{to}")).collect();
    if !blocks.is_empty() {
        options.push(format!("sack {}", blocks.join(" ")));
    }
    options.extend(wanted.byte_counts.as_ref().map(written_counts));
    options
}
