//! `game`: small packets of a fast game, one way.

use lasthop_net::plan::Traffic;
use lasthop_net::traffic::game::{Game, Side};

use super::super::declare::{choice, table};
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::reader::Reader;

pub(super) const NAME: &str = "game";
pub(super) const BARE: bool = false;

choice! {
    const SIDE: Side = "player" => Side::Player, "server" => Side::Server
}

table! {
    /// One direction of a fast game (Faerber 2004, of Counter-Strike): a player sends 25 packets of about 83 B per
    /// second, the server 17 of about 141 B.
    pub(super) static TABLE = "game traffic";
    struct Keys {
        /// Which side sends.
        side: Side = SIDE, required_or("add side = \"player\", and a flow with side = \"server\" the other way");
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::Game(Game { side: Keys::read(table)?.side }))
}
