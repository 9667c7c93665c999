//! Static shortest-path routing: fewest links, and among equals the links that come first in the plan.
//!
//! The world asks once per flow when it is built; the way back is the same path reversed.

use std::collections::VecDeque;

use crate::plan::LinkPlan;

/// One direction of a link: twice the link's index, plus one for the reverse.
pub type DirectionId = u32;

/// The other direction of the same link.
pub fn opposite(direction: DirectionId) -> DirectionId {
    direction ^ 1
}

/// The graph in a form that is quick to search: for each node its outgoing directions.
pub struct Routes {
    first: Vec<u32>,
    edges: Vec<(u32, DirectionId)>,
    /// Scratch: whence, and by which direction, each node was reached in the current search.
    reached_from: Vec<(u32, DirectionId)>,
    search: Vec<u32>,
    searches: u32,
}

impl Routes {
    /// The graph of `nodes` nodes and these links.
    pub fn new(nodes: usize, links: &[LinkPlan]) -> Routes {
        let mut first = vec![0u32; nodes + 1];
        for link in links {
            first[link.from + 1] += 1;
            first[link.to + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut edges = vec![(0, 0); links.len() * 2];
        for (link, index) in links.iter().zip(0u32..) {
            for (from, to, direction) in
                [(link.from, link.to, 2 * index), (link.to, link.from, 2 * index + 1)]
            {
                edges[next[from] as usize] = (to as u32, direction);
                next[from] += 1;
            }
        }
        Routes { first, edges, reached_from: vec![(0, 0); nodes], search: vec![0; nodes], searches: 0 }
    }

    /// The directions from `source` to `sink`, or `None` if there is no path.
    pub fn path(&mut self, source: usize, sink: usize) -> Option<Vec<DirectionId>> {
        self.searches += 1;
        self.search[source] = self.searches;
        let mut frontier = VecDeque::from([source as u32]);
        while let Some(node) = frontier.pop_front() {
            let range = self.first[node as usize] as usize..self.first[node as usize + 1] as usize;
            for &(neighbour, direction) in &self.edges[range] {
                if self.search[neighbour as usize] == self.searches {
                    continue;
                }
                self.search[neighbour as usize] = self.searches;
                self.reached_from[neighbour as usize] = (node, direction);
                if neighbour as usize == sink {
                    return Some(self.walk_back(source, sink));
                }
                // A leaf leads nowhere else.
                if self.first[neighbour as usize + 1] - self.first[neighbour as usize] > 1 {
                    frontier.push_back(neighbour);
                }
            }
        }
        None
    }

    fn walk_back(&self, source: usize, sink: usize) -> Vec<DirectionId> {
        let mut path = Vec::new();
        let mut node = sink;
        while node != source {
            let (from, direction) = self.reached_from[node];
            path.push(direction);
            node = from as usize;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;
    use lasthop_core::units::Rate;

    use super::*;
    use crate::plan::{Direction, ErrorModel, OutagePolicy, OutageSchedule, Outages, QueueLimit};

    fn graph(pairs: &[(usize, usize)]) -> Vec<LinkPlan> {
        let direction = Direction {
            rate: Rate(1_000_000),
            delay: Span::ZERO,
            mtu: 1500,
            queue: QueueLimit::Unlimited,
            mark: None,
            error: ErrorModel::None,
            outages: Outages { schedule: OutageSchedule::None, policy: OutagePolicy::DropAir, warning: None },
            arq: None,
        };
        let link = |&(from, to): &(usize, usize)| LinkPlan {
            name: format!("{from}-{to}"),
            from,
            to,
            forward: direction.clone(),
            reverse: direction.clone(),
        };
        pairs.iter().map(link).collect()
    }

    #[test]
    fn takes_the_fewest_links() {
        // 0-1-2-3 and the short cut 0-3; 4 hangs on 3.
        let mut routes = Routes::new(6, &graph(&[(0, 1), (1, 2), (2, 3), (3, 0), (4, 3)]));
        assert_eq!(routes.path(0, 4), Some(vec![7, 9]));
        assert_eq!(routes.path(4, 0), Some(vec![8, 6]));
        assert_eq!(routes.path(0, 2), Some(vec![0, 2]), "of two paths of equal length the first links win");
        assert_eq!(routes.path(0, 5), None);
    }
}
