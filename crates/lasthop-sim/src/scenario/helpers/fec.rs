//! FEC: its keys and what a scenario may say of it.

use lasthop_net::device::fec::LONGEST_BLOCK;
use lasthop_net::plan::{Fec, Middlebox};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{Key, Kind, SOME_TIME, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "fec";

pub(super) static HELPER: Helper = Helper {
    stands: "at both ends of any link, in one direction or both",
    origin: "Rizzo, Computer Communication Review 1997; RFC 5510",
    source: "crates/lasthop-net/src/device/fec/mod.rs",
    columns: "fec_",
    fit,
};

const DOC: &str = "Sends repair packets after each block of packets, from which the far end of the link rebuilds lost \
                   ones.";

/// As an entry of `middleboxes`.
pub(in super::super) static FEC: Table =
    Table { title: "fec", doc: DOC, groups: &[FEC_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "fec as a helper", doc: DOC, groups: &[FEC_KEYS, WAY, PLACED], partial: false };

const WAY: &[Key] = &[Key::new(
    "direction",
    Kind::Choice(|| vec!["both", "down", "up"]),
    "Which packets it protects: down, those towards the wireless host (on other links those that go with the \
     data of the first flow); up, those of the other direction. Repairs need room: on a narrow uplink protect \
     the downlink alone.",
)
.default("\"both\"")];

const FEC_KEYS: &[Key] = &[
    Key::new(
        "code",
        Kind::Choice(|| vec!["reed-solomon", "xor"]),
        "Any k of the n packets of a block restore the others; xor makes one repair.",
    )
    .default("\"reed-solomon\""),
    Key::new("k", Kind::Integer { min: 1, max: 254 }, "Number of data packets in a block, which are sent as they \
        arrive.")
        .default("8"),
    Key::new(
        "n",
        Kind::Integer { min: 1, max: 65_535 },
        "Number of packets in a block, repairs included: at most 255.",
    )
    .default("10"),
    Key::new(
        "interleave",
        Kind::Integer { min: 1, max: 64 },
        "Number of blocks that are filled in turn (interleaving): bursts of up to (n - k) times this many \
         losses can be repaired.",
    )
    .default("1"),
    Key::new(
        "close_after",
        SOME_TIME,
        "A block that is not full is closed this long after its first packet; it gets its share of the repairs, at \
         least one.",
    )
    .default("\"20 ms\""),
    Key::new("hold", SOME_TIME, "How long the receiver keeps a closed block after its last packet.")
        .default("\"200 ms\""),
    Key::new(
        "order",
        Kind::Choice(|| vec!["out-of-order", "in-order"]),
        "Whether packets are delivered as they arrive, or wait for earlier ones that may still be rebuilt, at most as \
         long as a block is held. TCP needs packets in order; datagrams that must not wait may do better out of \
         order.",
    )
    .default("\"in-order\""),
    Key::new(
        "target",
        Kind::Number { min: 1e-9, max: 1.0 },
        "Adapts the number of repairs, n - k at most, to the observed loss, so that the residual loss stays \
         below this share. \
             Default: always n - k.",
    ),
];

/// What `table`, an entry of either list, says of a code.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<Fec> {
    let (k, n) = (table.integer("k")? as u32, table.integer("n")?);
    let n = u32::try_from(n).unwrap_or(u32::MAX);
    if n <= k {
        let message = format!("a block of {n} packets with {k} of the source has no repair");
        return Err(table.error("n", message, &format!("write n = {} or more, or lower k", k + 1)));
    }
    if table.name("code")? == "xor" && n != k + 1 {
        let message = format!("XOR makes one repair per block, not {}", n - k);
        let remedy = format!("write n = {}, or code = \"reed-solomon\"", k + 1);
        return Err(table.error("n", message, &remedy));
    }
    if n > LONGEST_BLOCK {
        let message = format!("a block has at most {LONGEST_BLOCK} packets (GF(256)), not {n}");
        return Err(table.error("n", message, "write shorter blocks, and interleave for long bursts"));
    }
    Ok(Fec {
        k,
        n,
        interleave: table.integer("interleave")? as u32,
        close_after: table.span("close_after")?,
        hold: table.span("hold")?,
        in_order: table.name("order")? == "in-order",
        target: table.number_if("target")?,
    })
}

/// Over the directions of the link that are asked for.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    let code = read(entry)?;
    let asked = entry.name("direction")?;
    if asked != "up" {
        site.direction.middleboxes.push(Middlebox::Fec(code));
    }
    if asked != "down" {
        site.other.middleboxes.push(Middlebox::Fec(code));
    }
    Ok(())
}
