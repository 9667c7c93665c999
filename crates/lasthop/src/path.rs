//! Scenarios in code: a chain of nodes and the links between them. Whatever a file can say, a link can say by
//! [`Link::key`]; other shapes of networks are written as TOML.

use std::fmt::Write;
use std::time::Duration;

/// One link and its directions, both alike unless a key says otherwise.
#[derive(Clone, Debug)]
pub struct Link {
    keys: String,
    delay: Duration,
    errors: Option<f64>,
    duplicate: f64,
    jitter: Duration,
}

impl Link {
    /// A link of this rate, without delay, with a queue that has no limit.
    pub fn new(bit_per_s: u64) -> Link {
        Link {
            keys: format!("rate = \"{bit_per_s} bit/s\"\n"),
            delay: Duration::ZERO,
            errors: None,
            duplicate: 0.0,
            jitter: Duration::ZERO,
        }
    }

    /// Propagation delay in milliseconds.
    #[must_use]
    pub fn delay_ms(self, delay: u32) -> Link {
        self.delay(Duration::from_millis(delay.into()))
    }

    /// Propagation delay.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Link {
        self.delay = delay;
        self
    }

    /// Packets that wait at most; one that comes later is lost.
    #[must_use]
    pub fn queue_packets(self, limit: u32) -> Link {
        self.key("queue", &format!("{{ kind = \"drop-tail\", limit = \"{limit} packets\" }}"))
    }

    /// Probability that a packet is lost on the way, each by itself.
    #[must_use]
    pub fn loss(mut self, probability: f64) -> Link {
        self.errors = Some(probability);
        self
    }

    /// Probability that a packet is duplicated.
    #[must_use]
    pub fn duplicate(mut self, probability: f64) -> Link {
        self.duplicate = probability;
        self
    }

    /// Each packet is delayed by up to this, and may overtake others.
    #[must_use]
    pub fn reorder_within(mut self, jitter: Duration) -> Link {
        self.jitter = jitter;
        self
    }

    /// Any key of a link, with its value as TOML has it: `key("queue", "\"fq-codel\"")`.
    #[must_use]
    pub fn key(mut self, key: &str, toml: &str) -> Link {
        // Writing to a string cannot fail.
        let _ = writeln!(self.keys, "{key} = {toml}");
        self
    }

    fn toml(&self) -> String {
        let mut keys = format!("{}delay = \"{} ns\"\n", self.keys, self.delay.as_nanos());
        if let Some(probability) = self.errors {
            let probability = number(probability);
            let _ = writeln!(keys, "error = {{ kind = \"bernoulli\", packet_error_rate = {probability} }}");
        }
        // What is no probability goes there too, to be refused.
        if self.duplicate != 0.0 || self.jitter > Duration::ZERO {
            let device = format!(
                "{{ kind = \"impair\", jitter = \"{} ns\", reorder = true, duplicate = {} }}",
                self.jitter.as_nanos(),
                number(self.duplicate)
            );
            let _ = writeln!(keys, "middleboxes = [{device}]\nreverse = {{ middleboxes = [{device}] }}");
        }
        keys
    }
}

/// A number as TOML writes it.
fn number(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:?}") }
}

/// A chain of nodes. The first [`Path::link`] joins the first two nodes, the next one the second and the third.
#[derive(Clone, Debug)]
pub struct Path {
    nodes: Vec<String>,
    links: Vec<Link>,
    duration: Duration,
}

impl Path {
    /// A chain of nodes with these names.
    pub fn new<Name: Into<String>>(nodes: impl IntoIterator<Item = Name>) -> Path {
        let nodes = nodes.into_iter().map(Into::into).collect();
        Path { nodes, links: Vec::new(), duration: Duration::from_secs(3600) }
    }

    /// The next link.
    #[must_use]
    pub fn link(mut self, link: Link) -> Path {
        self.links.push(link);
        self
    }

    /// How long a run lasts at most; an hour unless this says otherwise.
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Path {
        self.duration = duration;
        self
    }

    /// How many links are more than join its nodes.
    pub(crate) fn links_too_many(&self) -> usize {
        (self.links.len() + 1).saturating_sub(self.nodes.len().max(1))
    }

    /// The scenario as a file would have it.
    pub fn to_toml(&self) -> String {
        let mut text =
            format!("duration = \"{} ns\"\n\n[topology]\nkind = \"graph\"\n", self.duration.as_nanos());
        let _ = writeln!(text, "nodes = {:?}", self.nodes);
        for (ends, link) in self.nodes.windows(2).zip(&self.links) {
            let _ = write!(text, "\n[[topology.links]]\nfrom = {:?}\nto = {:?}\n", ends[0], ends[1]);
            text.push_str(&link.toml());
        }
        text
    }
}
