//! What stands at the near end of a link: the list `middleboxes`, and one file for each kind.
//!
//! To add a middlebox: its file in `lasthop-net/src/device/`, then `middlebox/<name>.rs` here with its `NAME`, its keys
//! (`TABLE`), whether the bare name says enough (`BARE`) and `read`, and its line in `devices!` below. From that follow
//! the kind, its checks and messages, and its part of the reference. Those that are helpers as well have their keys in
//! `helpers/`.

mod impair;
mod policer;

use lasthop_net::plan::Middlebox;

use super::diagnostic::ScenarioError;
use super::helpers;
use super::keys::{Kind, Tagged, Variant};
use super::reader::{Checked, Reader};

/// Makes the registry: `module` has `NAME`, `TABLE`, `BARE` and `read`.
macro_rules! devices {
    ($($module:ident),* $(,)?) => {
        static MIDDLEBOX: Tagged = Tagged {
            title: "middlebox",
            doc: "A device at the head of a link.",
            variants: &[
                $(Variant { name: $module::NAME, table: &$module::TABLE, bare: $module::BARE },)*
                Variant { name: "split", table: &helpers::SPLIT, bare: true },
                Variant { name: "fec", table: &helpers::FEC, bare: true },
                Variant { name: "wtcp", table: &helpers::WTCP, bare: true },
                Variant { name: "ack-filter", table: &helpers::ACK_FILTER, bare: true },
                Variant { name: "snoop", table: &helpers::SNOOP, bare: true },
                Variant { name: "fastack", table: &helpers::FAST_ACK, bare: true },
                Variant { name: "zhuge", table: &helpers::ZHUGE, bare: true },
                Variant { name: "l4span", table: &helpers::L4SPAN, bare: true },
            ],
        };

        /// What stands at the near end of a link whose packets are no longer than `mtu`, in order.
        pub(super) fn read(table: &Reader<'_>, mtu: u64) -> Result<Vec<Middlebox>, ScenarioError> {
            let mut middleboxes = Vec::new();
            for item in table.list("middleboxes")? {
                let Checked::Tagged(kind, device) = item.value else { continue };
                middleboxes.push(match kind {
                    $($module::NAME => $module::read(&device, mtu)?,)*
                    // It is no device: see `LinkReader::split`.
                    "split" => continue,
                    "fec" => Middlebox::Fec(helpers::read_fec(&device)?),
                    "wtcp" => Middlebox::Wtcp(helpers::read_wtcp(&device)?),
                    "ack-filter" => Middlebox::AckFilter(helpers::read_ack_filter(&device)?),
                    "snoop" => Middlebox::Snoop(helpers::read_snoop(&device)?),
                    "fastack" => Middlebox::FastAck(helpers::read_fast_ack(&device)?),
                    "zhuge" => Middlebox::Zhuge(helpers::read_zhuge(&device)?),
                    "l4span" => Middlebox::L4Span(helpers::read_l4span(&device)?),
                    kind => panic!("no reader for the middlebox `{kind}`"),
                });
            }
            Ok(middleboxes)
        }
    };
}

devices! {
    policer,
    impair,
}

/// An element of the list.
pub(super) static A_MIDDLEBOX: Kind = Kind::Tagged(&MIDDLEBOX);
