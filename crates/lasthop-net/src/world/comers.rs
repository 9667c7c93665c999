//! Ends of flows that come and go by the thousand: made when a flow begins, and given back when it is over.
//!
//! Of a flow that is over what its sender counted stays, for the summary. That pays where flows are many, and is
//! possible where nothing else holds on to their ends: `world/mod.rs` asks here for each plan and each flow.

use super::{Evaluation, World};
use crate::plan::{FlowPlan, Percentiles, Plan, Transport};
use crate::trace::Recording;
use crate::transport::endpoint::{Endpoint, Unborn};

/// Flows of a plan from which on their ends come and go.
const FEWEST_FLOWS: usize = 1024;
/// Flows that begin at the least between two looks for those that are over.
const LEAST_BEGINNINGS: usize = 256;

/// State of the ends that come and go.
#[derive(Clone, Debug)]
pub(super) struct Comers {
    /// Flows that have begun since the last look for those that are over.
    since: usize,
    percentiles: Percentiles,
    seed: u64,
    come_and_go: bool,
}

impl Comers {
    /// Of a plan; nothing else than the summary tells of a sender that is over.
    pub(super) fn of(plan: &Plan, seed: u64, recording: Recording, evaluation: Evaluation) -> Comers {
        let cells = plan.media.len() + plan.cellular.len() + plan.roaming.len();
        let mut sides = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
        let come_and_go = plan.flows.len() >= FEWEST_FLOWS
            && recording == Recording::default()
            && evaluation != Evaluation::Open
            && plan.history.is_none()
            && plan.processing_time.0 == 0
            && cells == 0
            && sides.all(|side| side.arq.is_none() && side.split.is_none() && side.middleboxes.is_empty());
        Comers { since: 0, percentiles: plan.percentiles, seed, come_and_go }
    }

    /// The ends of a flow that has not begun.
    pub(super) fn ends(&self, flow: &FlowPlan, window: crate::measure::Window) -> (Endpoint, Endpoint) {
        let plain = flow.relay.is_none() && flow.exchange.is_none() && flow.class.is_none();
        if let Transport::Tcp(config) = &flow.transport
            && self.come_and_go
            && plain
            && flow.realtime.is_none()
            && flow.part.is_none()
            && !config.needs().signals
            && config.mobility.is_plain()
            && config.kernel().is_none()
        {
            let unborn = Unborn::of(config, flow, self.seed);
            return (Endpoint::Unborn(Box::new(unborn)), Endpoint::Absent);
        }
        Endpoint::pair(flow, self.seed, window, self.percentiles)
    }
}

impl World {
    /// The flow begins: it gets its ends, if it has none yet.
    pub(super) fn begin(&mut self, flow: usize) {
        let Endpoint::Unborn(unborn) = &mut self.senders[flow] else { return };
        let (sender, receiver) = unborn.bear(self.network.window(), self.comers.percentiles);
        self.senders[flow] = sender;
        self.network.replace_receiver(flow, receiver);
        self.comers.since += 1;
        let to_look_through = self.network.pending() + self.senders.len();
        if self.comers.since >= LEAST_BEGINNINGS.max(to_look_through / 32) {
            self.comers.since = 0;
            self.close_accounts(flow);
        }
    }

    /// Gives back the ends of flows to which nothing can happen any more; `begins` has only begun.
    fn close_accounts(&mut self, begins: usize) {
        for (flow, may_act) in self.network.may_act().into_iter().enumerate() {
            if !may_act && flow != begins {
                self.close_account(flow);
            }
        }
    }

    /// The run is over, and so are all flows.
    pub(super) fn close_all_accounts(&mut self) {
        if self.comers.come_and_go {
            (0..self.senders.len()).for_each(|flow| self.close_account(flow));
        }
    }

    fn close_account(&mut self, flow: usize) {
        if self.senders[flow].tcp_sender().is_none() || self.classes.has_place(flow) {
            return;
        }
        self.senders[flow].close_account();
        self.network.replace_receiver(flow, Endpoint::Absent);
        self.network.flows[flow].delay.trim();
    }
}
