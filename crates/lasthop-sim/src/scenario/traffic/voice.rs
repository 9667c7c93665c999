//! `voice`: one direction of a telephone call.

use lasthop_core::time::Span;
use lasthop_net::plan::Traffic;
use lasthop_net::traffic::voice::{CODECS, Voice};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Kind, SOME_TIME};
use super::super::reader::Reader;

pub(super) const NAME: &str = "voice";
pub(super) const BARE: bool = true;

table! {
    /// One direction of a telephone call over UDP: packets of a codec over RTP during talk spurts. Its quality (MOS) is
    /// estimated by the E-model of ITU-T G.107.
    pub(super) static TABLE = "voice traffic";
    struct Keys {
        /// g711: 160 B every 20 ms; g729: 20 B every 20 ms; g723: 24 B every 30 ms; gsm-efr: 31 B every 20 ms.
        codec: &'static str = Kind::Choice(|| CODECS.iter().map(|codec| codec.name).collect()), default("\"g711\"");
        /// Mean of the exponential length of a talk spurt (ITU-T P.59).
        talk: Span = SOME_TIME, default("\"1.004 s\"");
        /// Mean of the exponential silence behind it, in which nothing is sent; 0 s: silence is sent as well.
        pause: Span = ANY_TIME, default("\"1.587 s\"");
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let Keys { codec: name, talk, pause } = Keys::read(table)?;
    let codec = CODECS.iter().find(|codec| codec.name == name).unwrap_or(&CODECS[0]);
    Ok(Traffic::Voice(Voice { codec, talk, pause }))
}
