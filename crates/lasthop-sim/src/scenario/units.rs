//! Quantities in strings: `"25 ms"`, `"10 Mbit/s"`, `"1000 B"`, `"30 packets"`, `"1 %"`.
//!
//! Pure functions from text to a number in the base unit (ns, bit/s, B, packets, 1); what is wrong comes back
//! as words.

use super::diagnostic::{clip, quoted};

/// What is wrong with a quantity and what to write instead.
#[derive(Debug, PartialEq)]
pub(super) struct Misread {
    pub(super) message: String,
    pub(super) remedy: String,
}

/// A dimension with the units that scenarios may use.
#[derive(Debug, PartialEq)]
pub(super) struct Dimension {
    /// With article: `a duration`.
    pub(super) noun: &'static str,
    /// Unit and its size in the base unit.
    pub(super) units: &'static [(&'static str, f64)],
    /// Units used elsewhere, and how we write them.
    misspelt: &'static [(&'static str, &'static str)],
    /// The two units that a bare number most likely meant.
    readings: [&'static str; 2],
    /// A right example.
    pub(super) example: &'static str,
}

/// A unit that a quantity was written in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) dimension: &'static Dimension,
    pub(super) name: &'static str,
    /// In the base unit.
    pub(super) size: f64,
}

impl Dimension {
    /// The unit in which values have no fraction, and its size in the base unit; of shares, which have one, the only.
    pub(super) fn base(&self) -> (&'static str, f64) {
        self.units[0]
    }

    /// Whether a value is a whole number of base units in the end.
    pub(super) fn is_whole(&self) -> bool {
        *self != SHARE
    }

    /// Whether a key takes a fraction of a base unit, and rounds it.
    pub(super) fn may_be_parted(&self) -> bool {
        ![SIZE, PACKETS].contains(self)
    }

    /// The base unit in that of results, and how names of columns end with that.
    pub(super) fn si(&self) -> (f64, &'static str) {
        match self.noun {
            "a duration" => (1e-9, "_s"),
            "a data rate" => (1.0, "_bit_s"),
            "a size" => (1.0, "_bytes"),
            "a number of packets" => (1.0, "_packets"),
            _ => (1.0, ""),
        }
    }
}

/// Nanoseconds.
pub(super) const DURATION: Dimension = Dimension {
    noun: "a duration",
    units: &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)],
    misspelt: &[
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("msec", "ms"),
        ("millis", "ms"),
        ("milliseconds", "ms"),
        ("usec", "us"),
        ("microseconds", "us"),
        ("nsec", "ns"),
        ("nanoseconds", "ns"),
        ("m", "min"),
        ("minute", "min"),
        ("minutes", "min"),
        ("hour", "h"),
        ("hours", "h"),
    ],
    readings: ["s", "ms"],
    example: "60 s",
};

/// Bits per second.
pub(super) const RATE: Dimension = Dimension {
    noun: "a data rate",
    units: &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)],
    misspelt: &[
        ("bps", "bit/s"),
        ("b/s", "bit/s"),
        ("kbps", "kbit/s"),
        ("kb/s", "kbit/s"),
        ("kbit", "kbit/s"),
        ("mbps", "Mbit/s"),
        ("mb/s", "Mbit/s"),
        ("mbit", "Mbit/s"),
        ("mbits/s", "Mbit/s"),
        ("gbps", "Gbit/s"),
        ("gb/s", "Gbit/s"),
        ("gbit", "Gbit/s"),
        ("tbps", "Tbit/s"),
    ],
    readings: ["Mbit/s", "kbit/s"],
    example: "10 Mbit/s",
};

/// Bytes.
pub(super) const SIZE: Dimension = Dimension {
    noun: "a size",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    misspelt: &[("byte", "B"), ("bytes", "B"), ("octets", "B"), ("k", "kB"), ("m", "MB"), ("g", "GB")],
    readings: ["B", "kB"],
    example: "1000 B",
};

/// Packets; `segments` says the same of a TCP.
pub(super) const PACKETS: Dimension = Dimension {
    noun: "a number of packets",
    units: &[("packets", 1.0), ("packet", 1.0), ("segments", 1.0), ("segment", 1.0)],
    misspelt: &[("pkt", "packets"), ("pkts", "packets"), ("p", "packets"), ("mss", "packets")],
    readings: ["packets", "kB"],
    example: "30 packets",
};

/// A share of 1.
pub(super) const SHARE: Dimension = Dimension {
    noun: "a probability",
    units: &[("%", 0.01)],
    misspelt: &[("percent", "%"), ("pct", "%")],
    readings: ["%", "%"],
    example: "1 %",
};

pub(super) static ALL: [&Dimension; 5] = [&DURATION, &RATE, &SIZE, &PACKETS, &SHARE];

/// Splits `"25 ms"` into 25 and `ms`. `None` if there is no number in front.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let mut end = usize::from(bytes.first().is_some_and(|byte| matches!(byte, b'+' | b'-')));
    while end < bytes.len() && matches!(bytes[end], b'0'..=b'9' | b'.' | b'_') {
        end += 1;
    }
    // An exponent needs digits: the `e` of `1 e` would be a unit.
    if end < bytes.len() && matches!(bytes[end], b'e' | b'E') {
        let sign = usize::from(bytes.get(end + 1).is_some_and(|byte| matches!(byte, b'+' | b'-')));
        let digits = bytes[end + 1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let number = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim_start()))
}

/// The quantity `text` in the base unit of the first of `dimensions` that has its unit, and which one that
/// was.
pub(super) fn parse(text: &str, dimensions: &[&Dimension]) -> Result<(f64, usize), Misread> {
    let first = dimensions[0];
    let Some((number, unit)) = split(text) else {
        return Err(Misread {
            message: format!("{} is not {}", quoted(text), first.noun),
            remedy: format!("write a number and a unit, such as \"{}\"", first.example),
        });
    };
    if unit.strip_prefix(',').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
        return Err(comma(text));
    }
    if unit.is_empty() {
        return Err(unitless(&text.trim().replace('_', ""), &quoted(text), dimensions));
    }
    for (index, dimension) in dimensions.iter().enumerate() {
        let Some((_, size)) = dimension.units.iter().find(|known| known.0 == unit) else { continue };
        let value = number * size;
        if value.is_finite() {
            return Ok((value, index));
        }
        return Err(Misread {
            message: format!("{} is too large", quoted(text)),
            remedy: format!("write a smaller number, such as \"{}\"", first.example),
        });
    }
    Err(wrong_unit(text, number, unit, dimensions))
}

/// The quantity `text` in base units, whatever it is of, and its unit.
pub(super) fn parse_any(text: &str) -> Result<(f64, Unit), Misread> {
    let (value, index) = parse(text, &ALL).map_err(|misread| Misread {
        message: misread.message.replace(DURATION.noun, "a number or a quantity"),
        ..misread
    })?;
    let dimension = ALL[index];
    let written = split(text).map_or("", |(_, unit)| unit);
    let (name, size) =
        dimension.units.iter().find(|unit| unit.0 == written).copied().unwrap_or(dimension.base());
    Ok((value, Unit { dimension, name, size }))
}

/// A number without its unit, with the two readings that are most likely.
pub(super) fn unitless(number: &str, shown: &str, dimensions: &[&Dimension]) -> Misread {
    let [one, other] = dimensions[0].readings;
    let many_bits =
        number.parse().ok().filter(|bits: &f64| *dimensions[0] == RATE && (1e4..1e15).contains(bits));
    let number = clip(number);
    let remedy = if *dimensions[0] == SHARE {
        format!("did you mean {number} without quotes, or \"{number} %\"?")
    } else if let Some(bits) = many_bits {
        // Ten million is no number of Mbit/s.
        let fits = RATE.units.iter().rev().find(|unit| bits >= unit.1);
        let (unit, size) = fits.copied().unwrap_or(("bit/s", 1.0));
        format!("did you mean \"{number} bit/s\", which is \"{} {unit}\"?", bits / size)
    } else {
        format!("did you mean \"{number} {one}\" or \"{number} {other}\"?")
    };
    Misread { message: format!("{shown} has no unit"), remedy }
}

/// A number with a comma: of decimals, or of thousands if three digits follow.
fn comma(text: &str) -> Misread {
    let text = text.trim();
    let digits = text.split(',').nth(1).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let point = quoted(&text.replacen(',', ".", 1));
    let remedy = if digits == 3 {
        format!("did you mean {} or {point}?", quoted(&text.replace(',', "")))
    } else {
        format!("write a point: {point}")
    };
    Misread { message: format!("{} has a comma in its number", quoted(text)), remedy }
}

fn wrong_unit(text: &str, number: f64, unit: &str, dimensions: &[&Dimension]) -> Misread {
    let first = dimensions[0];
    let names: Vec<&str> =
        dimensions.iter().flat_map(|dimension| dimension.units.iter().map(|unit| unit.0)).collect();
    let units = names.join(", ");

    // A byte rate: meant as such, or a slip of the shift key.
    if let Some(prefix @ ("" | "k" | "M" | "G")) = unit.strip_suffix("B/s").filter(|_| *first == RATE) {
        let bits = (number * 8.0).to_string();
        return Misread {
            message: format!("unknown unit {} in {}", quoted(unit), quoted(text)),
            remedy: format!(
                "did you mean \"{bits} {prefix}bit/s\" or \"{number} {prefix}bit/s\"? units: {units}"
            ),
        };
    }
    let respelt = dimensions.iter().find_map(|dimension| respell(unit, dimension));
    if let Some(right) = respelt {
        return Misread {
            message: format!("unknown unit {} in {}", quoted(unit), quoted(text)),
            remedy: format!("did you mean \"{number} {right}\"? units: {units}"),
        };
    }
    let elsewhere = ALL.iter().find(|dimension| dimension.units.iter().any(|known| known.0 == unit));
    match elsewhere {
        Some(dimension) => Misread {
            message: format!("{} is {}, not {}", quoted(text), dimension.noun, first.noun),
            remedy: format!("write it with one of the units {units}, such as \"{}\"", first.example),
        },
        None => Misread {
            message: format!("unknown unit {} in {}", quoted(unit), quoted(text)),
            remedy: format!("units: {units}"),
        },
    }
}

/// How `unit` is written here, if it is a usual spelling or only its case is wrong.
fn respell(unit: &str, dimension: &Dimension) -> Option<&'static str> {
    let unit = unit.to_lowercase();
    let same = dimension.units.iter().map(|known| known.0).find(|known| known.to_lowercase() == unit);
    same.or_else(|| dimension.misspelt.iter().find(|known| known.0 == unit).map(|known| known.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, dimension: &Dimension) -> f64 {
        parse(text, &[dimension]).unwrap().0
    }

    fn remedy(text: &str, dimension: &Dimension) -> String {
        parse(text, &[dimension]).unwrap_err().remedy
    }

    #[test]
    fn quantities() {
        assert_eq!(value("25 ms", &DURATION), 25e6);
        assert_eq!(value("25ms", &DURATION), 25e6);
        assert_eq!(value(" 1_000.5 us ", &DURATION), 1_000_500.0);
        assert_eq!(value("1e-3 s", &DURATION), 1e6);
        assert_eq!(value("10 Mbit/s", &RATE), 1e7);
        assert_eq!(value("64 KiB", &SIZE), 65_536.0);
        assert_eq!(value("1%", &SHARE), 0.01);
        assert_eq!(value("-5 s", &DURATION), -5e9);
        assert_eq!(parse("40 kB", &[&PACKETS, &SIZE]), Ok((40_000.0, 1)));
    }

    #[test]
    fn the_right_spelling_is_offered() {
        assert_eq!(remedy("60", &DURATION), "did you mean \"60 s\" or \"60 ms\"?");
        assert!(remedy("10 Mbps", &RATE).starts_with("did you mean \"10 Mbit/s\"?"));
        assert!(remedy("10 MBit/s", &RATE).starts_with("did you mean \"10 Mbit/s\"?"));
        assert!(remedy("10 MB/s", &RATE).starts_with("did you mean \"80 Mbit/s\" or \"10 Mbit/s\"?"));
        assert_eq!(remedy("1e7", &RATE), "did you mean \"1e7 bit/s\", which is \"10 Mbit/s\"?");
        assert_eq!(remedy("54000", &RATE), "did you mean \"54000 bit/s\", which is \"54 kbit/s\"?");
        assert_eq!(remedy("9999", &RATE), "did you mean \"9999 Mbit/s\" or \"9999 kbit/s\"?");
        assert_eq!(remedy("2,5 Mbit/s", &RATE), "write a point: \"2.5 Mbit/s\"");
        assert_eq!(remedy("1,500 B", &SIZE), "did you mean \"1500 B\" or \"1.500 B\"?");
        assert!(remedy("1.5 sec", &DURATION).starts_with("did you mean \"1.5 s\"?"));
    }

    #[test]
    fn words_are_no_numbers() {
        for text in ["", "fast", "inf s", "nan s", ".", "-", "e5 s", "1.2.3 s", "_ s", "٣ s"] {
            assert!(parse(text, &[&DURATION]).is_err(), "{text}");
        }
        assert_eq!(parse("1e400 s", &[&DURATION]).unwrap_err().message, "\"1e400 s\" is too large");
    }

    #[test]
    fn another_dimension_is_named() {
        assert_eq!(parse("10 ms", &[&RATE]).unwrap_err().message, "\"10 ms\" is a duration, not a data rate");
    }
}
