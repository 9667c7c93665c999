//! `voice`: one direction of a telephone call.

use lasthop_net::plan::Traffic;
use lasthop_net::traffic::voice::{CODECS, Voice};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Key, Kind, SOME_TIME, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "voice";
pub(super) const BARE: bool = true;

pub(super) static TABLE: Table = Table {
    title: "voice traffic",
    doc: "One direction of a telephone call over UDP: packets of a codec and RTP while somebody talks. Its quality \
          (MOS) is estimated by the E-model of ITU-T G.107.",
    groups: &[&[
        Key::new(
            "codec",
            Kind::Choice(|| CODECS.iter().map(|codec| codec.name).collect()),
            "g711: 160 B every 20 ms; g729: 20 B every 20 ms; g723: 24 B every 30 ms; gsm-efr: 31 B every 20 ms.",
        )
        .default("\"g711\""),
        Key::new("talk", SOME_TIME, "Mean of the exponential length of a spurt of talk (ITU-T P.59).")
            .default("\"1.004 s\""),
        Key::new(
            "pause",
            ANY_TIME,
            "Mean of the exponential silence behind it, in which nothing is sent; 0 s: silence is sent as well.",
        )
        .default("\"1.587 s\""),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let name = table.name("codec")?;
    let codec = CODECS.iter().find(|codec| codec.name == name).unwrap_or(&CODECS[0]);
    Ok(Traffic::Voice(Voice { codec, talk: table.span("talk")?, pause: table.span("pause")? }))
}
