//! `game`: small packets of a fast game, one way.

use lasthop_net::plan::Traffic;
use lasthop_net::traffic::game::{Game, Side};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Key, Kind, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "game";
pub(super) const BARE: bool = false;

pub(super) static TABLE: Table = Table {
    title: "game traffic",
    doc: "One direction of a fast game (Faerber 2004, of Counter-Strike): a player sends 25 packets of about 83 B per \
          second, the server 17 of about 141 B.",
    groups: &[&[Key::new("side", Kind::Choice(|| vec!["player", "server"]), "Which of the two sends.")
        .required_or("add side = \"player\", and a flow with side = \"server\" the other way")]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let side = if table.name("side")? == "player" { Side::Player } else { Side::Server };
    Ok(Traffic::Game(Game { side }))
}
