//! Web pages: objects that a browser asks for over kept connections, one page after another.
//!
//! A page is a list of groups of equal objects. The browser asks for the objects of a group when all those of the group
//! that names them have come, in the order of the list. Over HTTP/1.1 a connection carries one request at a time, and
//! another connection is opened while objects wait, up to six, as browsers do; multiplexed, all requests leave at once
//! on one connection, and the answers come one behind the other in the order of the requests. Where the connection has
//! streams, each request under way has one, and what is lost of one answer holds up no other. Between two pages the
//! reader thinks, for an exponential time. Connections stay open from page to page.

use std::collections::VecDeque;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::Offered;
use super::client::{Acts, Ask, Client, Connections, Outcome};

/// Connections that a browser opens to a host over HTTP/1.1.
pub const BROWSER_CONNECTIONS: u32 = 6;

/// Requests under way over one connection of HTTP/3: the least that a server should allow (RFC 9114 section 6.1).
pub const BROWSER_STREAMS: u32 = 100;

/// Equal objects of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Number of these objects.
    pub count: u32,
    /// Bytes of the answer that brings one, header included.
    pub bytes: u64,
    /// The group, by its place in the list, that must have come before; `None` for what the browser asks for first.
    pub after: Option<usize>,
}

/// How pages are read.
#[derive(Clone, Debug, PartialEq)]
pub struct WebPlan {
    /// What a page consists of; a group comes behind the one that names it.
    pub page: Arc<[Objects]>,
    /// All requests at once over each connection, in one order or, where it has them, over as many streams; not one
    /// at a time.
    pub multiplexed: bool,
    /// Its connections.
    pub connections: Connections,
    /// Bytes of a request.
    pub request: u64,
    /// Mean of the exponential time between a page and the next.
    pub think: Span,
    /// How many pages; `None` for as many as there is time for.
    pub pages: Option<u64>,
}

impl Offered for Arc<WebPlan> {
    fn connections(&self) -> Option<Connections> {
        Some(self.connections)
    }
}

/// KB of HTTP Archive.
const KB: u64 = 1024;

const fn objects(count: u32, bytes_of_all: u64, after: Option<usize>) -> Objects {
    Objects { count, bytes: bytes_of_all / count as u64, after }
}

/// A page of two documents, style sheets, scripts, pictures and fonts, of which these are the numbers and the KB of
/// each kind in all. The document names the second one, the style sheets, and half of scripts and pictures; the style
/// sheets name the fonts, and the scripts the rest.
const fn page(
    html: u64,
    css: (u32, u64),
    js: (u32, u64),
    images: (u32, u64),
    fonts: (u32, u64),
) -> [Objects; 8] {
    [
        objects(1, html * KB / 2, None),
        objects(1, html * KB / 2, Some(0)),
        objects(css.0, css.1 * KB, Some(0)),
        objects(js.0 / 2, js.1 * KB / 2, Some(0)),
        objects(images.0 / 2, images.1 * KB / 2, Some(0)),
        objects(fonts.0, fonts.1 * KB, Some(2)),
        objects(js.0 / 2, js.1 * KB / 2, Some(3)),
        objects(images.0 / 2, images.1 * KB / 2, Some(3)),
    ]
}

/// Pages by name. Numbers and bytes by kind are the medians of HTTP Archive, crawl of October 2024 (Web Almanac 2024,
/// chapter "Page Weight"); which object names which is an assumption.
pub const PAGES: [(&str, [Objects; 8]); 3] = [
    ("home-desktop", page(18, (8, 78), (24, 613), (18, 1054), (4, 131))),
    ("home-mobile", page(18, (8, 73), (22, 558), (16, 900), (3, 111))),
    ("inner-mobile", page(17, (8, 77), (22, 582), (16, 348), (3, 108))),
];

/// The times of pages that began in the measured time.
#[derive(Clone, Debug, Default)]
pub struct PageTimes {
    /// When each began, and how long those took that have come.
    pub pages: Vec<(Time, Option<Span>)>,
}

/// A connection as the browser sees it.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Objects under way: their group, and the number of bytes of answers in all at which each is complete.
    pending: VecDeque<(usize, u64)>,
    /// Bytes of answers that were asked for.
    asked: u64,
}

/// A browser and its reader.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    plan: Arc<WebPlan>,
    stream: Stream,
    until: Time,
    lines: Vec<Line>,
    /// Objects that wait for a connection.
    waiting: VecDeque<usize>,
    /// Objects of each group that have not come.
    missing: Vec<u32>,
    /// Groups that are not complete.
    incomplete: usize,
    times: PageTimes,
    due: Option<Time>,
}

impl Web {
    pub(crate) fn new(plan: &Arc<WebPlan>, stream: Stream, until: Time) -> Web {
        Web {
            plan: Arc::clone(plan),
            stream,
            until,
            lines: Vec::new(),
            waiting: VecDeque::new(),
            missing: Vec::new(),
            incomplete: 0,
            times: PageTimes::default(),
            due: None,
        }
    }

    pub(crate) fn outcome(&self) -> Outcome<'_> {
        Outcome::Pages(&self.times)
    }

    /// The reader asks for a page.
    fn begin(&mut self, now: Time, acts: &mut Acts) {
        let begun = self.times.pages.len() as u64;
        if now >= self.until || self.plan.pages.is_some_and(|pages| begun >= pages) {
            return;
        }
        self.times.pages.push((now, None));
        self.missing.clear();
        self.missing.extend(self.plan.page.iter().map(|objects| objects.count));
        self.incomplete = self.missing.len();
        self.name(None);
        self.ask(acts);
    }

    /// The objects that a complete group names join those that wait.
    fn name(&mut self, group: Option<usize>) {
        for (number, objects) in self.plan.page.iter().enumerate().filter(|(_, named)| named.after == group) {
            self.waiting.extend(std::iter::repeat_n(number, objects.count as usize));
        }
    }

    /// The connection for the next request: one that is free, or a new one.
    fn free_line(&mut self) -> Option<usize> {
        let Connections { most, streams, .. } = self.plan.connections;
        if self.plan.multiplexed && streams == 1 && !self.lines.is_empty() {
            return Some(0);
        }
        let free = self.lines.iter().position(|line| line.pending.is_empty());
        if free.is_none() && self.lines.len() < (most * streams) as usize {
            self.lines.push(Line::default());
            return Some(self.lines.len() - 1);
        }
        free
    }

    /// Asks for what waits, as far as there are connections.
    fn ask(&mut self, acts: &mut Acts) {
        while let Some(&group) = self.waiting.front() {
            let Some(connection) = self.free_line() else { return };
            self.waiting.pop_front();
            let answer = self.plan.page[group].bytes;
            let line = &mut self.lines[connection];
            line.asked += answer;
            line.pending.push_back((group, line.asked));
            acts.asks.push(Ask { connection, request: self.plan.request, answer });
        }
    }
}

impl Client for Web {
    fn start(&mut self, now: Time, acts: &mut Acts) {
        self.begin(now, acts);
    }

    fn arrive(&mut self, connection: usize, bytes: u64, now: Time, acts: &mut Acts) {
        while let Some(&(group, _)) = self.lines[connection].pending.front().filter(|(_, end)| *end <= bytes)
        {
            self.lines[connection].pending.pop_front();
            self.missing[group] -= 1;
            if self.missing[group] == 0 {
                self.incomplete -= 1;
                self.name(Some(group));
            }
        }
        self.ask(acts);
        if self.incomplete == 0
            && let Some((begun, time @ None)) = self.times.pages.last_mut()
        {
            *time = Some(now.since(*begun));
            let pause = Span::from_seconds(self.stream.exponential(self.plan.think.seconds()));
            self.due = Some(now + pause);
            acts.wake = self.due;
        }
    }

    fn wake(&mut self, now: Time, acts: &mut Acts) {
        if self.due.take_if(|due| *due <= now).is_some() {
            self.begin(now, acts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser(page: &[Objects], multiplexed: bool, think: Span) -> Web {
        over_streams(page, multiplexed, 1, think)
    }

    fn over_streams(page: &[Objects], multiplexed: bool, streams: u32, think: Span) -> Web {
        let most = if multiplexed { 1 } else { BROWSER_CONNECTIONS };
        let connections = Connections { most, streams, server_time: Span::ZERO };
        let plan = WebPlan { page: page.into(), multiplexed, connections, request: 400, think, pages: None };
        Web::new(&Arc::new(plan), Stream::new(1, "browser"), Time::MAX)
    }

    fn asked(acts: &mut Acts) -> Vec<(usize, u64)> {
        acts.asks.drain(..).map(|ask| (ask.connection, ask.answer)).collect()
    }

    const PAGE: [Objects; 3] = [
        Objects { count: 1, bytes: 100, after: None },
        Objects { count: 8, bytes: 10, after: Some(0) },
        Objects { count: 1, bytes: 7, after: Some(1) },
    ];

    /// One request at a time and connection, six connections; what is named is asked for when its group has come.
    #[test]
    fn six_connections() {
        let (mut web, mut acts) = (browser(&PAGE, false, Span::ZERO), Acts::default());
        web.start(Time(5), &mut acts);
        assert_eq!(asked(&mut acts), [(0, 100)]);
        web.arrive(0, 99, Time(10), &mut acts);
        assert_eq!(asked(&mut acts), []);
        web.arrive(0, 100, Time(11), &mut acts);
        assert_eq!(asked(&mut acts), (0..6).map(|line| (line, 10)).collect::<Vec<_>>());
        web.arrive(3, 10, Time(12), &mut acts);
        web.arrive(1, 10, Time(12), &mut acts);
        assert_eq!(asked(&mut acts), [(3, 10), (1, 10)]);
        for (line, bytes) in [(0, 110), (1, 20), (2, 10), (4, 10), (5, 10)] {
            web.arrive(line, bytes, Time(13), &mut acts);
            assert_eq!(asked(&mut acts), [], "{line}");
        }
        web.arrive(3, 20, Time(14), &mut acts);
        assert_eq!(asked(&mut acts), [(0, 7)], "the last of eight");
        web.arrive(0, 117, Time(20), &mut acts);
        assert_eq!(web.times.pages, [(Time(5), Some(Span(15)))]);
        assert_eq!(acts.wake, Some(Time(20)), "who does not think reads on");
        web.wake(Time(20), &mut acts);
        assert_eq!(asked(&mut acts), [(0, 100)], "over the same connection");
    }

    #[test]
    fn all_at_once_over_one() {
        let (mut web, mut acts) = (browser(&PAGE, true, Span::ZERO), Acts::default());
        web.start(Time(0), &mut acts);
        web.arrive(0, 100, Time(1), &mut acts);
        assert_eq!(asked(&mut acts), [vec![(0, 100)], vec![(0, 10); 8]].concat());
        web.arrive(0, 179, Time(2), &mut acts);
        assert_eq!(asked(&mut acts), []);
        web.arrive(0, 187, Time(3), &mut acts);
        assert_eq!(asked(&mut acts), [(0, 7)], "no answer twice");
        assert_eq!(web.times.pages, [(Time(0), None)]);
    }

    /// Each request under way has a stream; one that is free is taken again, and the last waits for one.
    #[test]
    fn a_stream_for_each() {
        let (mut web, mut acts) = (over_streams(&PAGE, true, 7, Span::ZERO), Acts::default());
        web.start(Time(0), &mut acts);
        web.arrive(0, 100, Time(1), &mut acts);
        assert_eq!(asked(&mut acts), [vec![(0, 100)], (0..7).map(|line| (line, 10)).collect()].concat());
        for line in [6, 5, 4, 3, 2, 1] {
            web.arrive(line, 10, Time(2), &mut acts);
            assert_eq!(asked(&mut acts), if line == 6 { vec![(6, 10)] } else { vec![] }, "{line}");
        }
        web.arrive(6, 20, Time(3), &mut acts);
        assert_eq!(asked(&mut acts), [], "the first of eight is late, and holds up no other");
        web.arrive(0, 110, Time(4), &mut acts);
        assert_eq!(asked(&mut acts), [(0, 7)]);
    }

    /// Think times are exponential (Kolmogorov and Smirnov, 99 of 100 samples).
    #[test]
    fn readers_think() {
        let page = [Objects { count: 1, bytes: 1, after: None }];
        let (mut web, mut acts) = (browser(&page, true, Span::from_secs(10)), Acts::default());
        let (mut now, mut bytes, mut pauses) = (Time::ZERO, 0, Vec::new());
        web.start(now, &mut acts);
        for _ in 0..5_000 {
            bytes += 1;
            web.arrive(0, bytes, now, &mut acts);
            let next = acts.wake.take().unwrap();
            pauses.push(next.since(now).seconds());
            now = next;
            web.wake(now, &mut acts);
        }
        pauses.sort_by(f64::total_cmp);
        let number = pauses.len() as f64;
        let distance = pauses.iter().zip(0..).fold(0.0_f64, |most, (pause, rank)| {
            most.max((1.0 - (-pause / 10.0).exp() - f64::from(rank) / number).abs())
        });
        assert!(distance < 1.63 / number.sqrt(), "{distance}");
    }

    /// What the Web Almanac says of each kind, and that no object names one before it.
    #[test]
    fn pages_have_the_published_medians() {
        for (name, page) in PAGES {
            assert!(
                page.iter().enumerate().all(|(at, objects)| objects.after.is_none_or(|before| before < at))
            );
            let bytes: u64 = page.iter().map(|objects| u64::from(objects.count) * objects.bytes).sum();
            let published = match name {
                "home-desktop" => 18 + 78 + 613 + 1054 + 131,
                "home-mobile" => 18 + 73 + 558 + 900 + 111,
                _ => 17 + 77 + 582 + 348 + 108,
            };
            let off = published * KB - bytes;
            assert!(off < 60, "{name}: {off} B lost by whole bytes");
        }
        let requests = |page: &[Objects]| page.iter().map(|objects| objects.count).sum::<u32>();
        assert_eq!(PAGES.map(|(_, page)| requests(&page)), [2 + 8 + 24 + 18 + 4, 2 + 8 + 22 + 16 + 3, 51]);
    }
}
