//! Static shortest-path routing: fewest links, and among equals the links that come first in the plan.
//!
//! The world asks once per flow when it is built; the reverse path is the same path reversed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;

use crate::plan::LinkPlan;

/// One direction of a link: twice the link's index, plus one for the reverse.
pub type DirectionId = u32;

/// The other direction of the same link.
pub fn opposite(direction: DirectionId) -> DirectionId {
    direction ^ 1
}

/// The node at which a direction starts.
pub fn start_of(links: &[LinkPlan], direction: DirectionId) -> usize {
    let link = &links[direction as usize / 2];
    if direction.is_multiple_of(2) { link.from } else { link.to }
}

/// The graph in a form that is quick to search: for each node its outgoing directions.
#[derive(Clone, Debug)]
pub struct Routes {
    first: Vec<u32>,
    edges: Vec<(u32, DirectionId)>,
    /// Scratch: whence, and by which direction, each node was reached in the current search.
    reached_from: Vec<(u32, DirectionId)>,
    search: Vec<u32>,
    searches: u32,
    /// Paths between nodes that leaves hang on.
    trunks: BTreeMap<(usize, usize), Option<Vec<DirectionId>>>,
    /// Every direction by the nodes that it joins, made when first asked for.
    by_ends: OnceLock<Vec<(u32, u32, DirectionId)>>,
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
        let (reached_from, search) = (vec![(0, 0); nodes], vec![0; nodes]);
        Routes {
            first,
            edges,
            reached_from,
            search,
            searches: 0,
            trunks: BTreeMap::new(),
            by_ends: OnceLock::new(),
        }
    }

    /// The directions from `source` to `sink`, or `None` if there is no path.
    pub fn path(&mut self, source: usize, sink: usize) -> Option<Vec<DirectionId>> {
        let ((from, out), (to, back)) = (self.trunk_end(source), self.trunk_end(sink));
        if from == sink {
            return Some(out.into_iter().collect());
        }
        if to == source {
            return Some(back.into_iter().map(opposite).collect());
        }
        let trunk = if let Some(known) = self.trunks.get(&(from, to)) {
            known.clone()
        } else {
            let found = self.path_avoiding(from, to, &[]);
            self.trunks.insert((from, to), found.clone());
            found
        };
        Some(out.into_iter().chain(trunk?).chain(back.map(opposite)).collect())
    }

    /// The only neighbour of a leaf and the direction to it; any other node itself. Many leaves on one node would
    /// otherwise each search through all of them.
    fn trunk_end(&self, node: usize) -> (usize, Option<DirectionId>) {
        match self.edges[self.first[node] as usize..self.first[node + 1] as usize] {
            [(neighbour, direction)] => (neighbour as usize, Some(direction)),
            _ => (node, None),
        }
    }

    /// The same without these links, given by their numbers.
    pub fn path_avoiding(&mut self, source: usize, sink: usize, avoided: &[u32]) -> Option<Vec<DirectionId>> {
        if source == sink {
            return Some(Vec::new());
        }
        self.searches += 1;
        self.search[source] = self.searches;
        let mut frontier = VecDeque::from([source as u32]);
        while let Some(node) = frontier.pop_front() {
            let range = self.first[node as usize] as usize..self.first[node as usize + 1] as usize;
            for &(neighbour, direction) in &self.edges[range] {
                if self.search[neighbour as usize] == self.searches || avoided.contains(&(direction / 2)) {
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

    /// The directions along these nodes, or the first pair of neighbours that no link joins. Of parallel links the one
    /// that comes first in the plan is taken.
    pub fn along(&self, nodes: &[usize]) -> Result<Vec<DirectionId>, (usize, usize)> {
        let step = |pair: &[usize]| self.joining(pair[0], pair[1]).next().ok_or((pair[0], pair[1]));
        nodes.windows(2).map(step).collect()
    }

    /// The directions of links from one node to another, in the order of the plan. Many links may meet at a node, so
    /// they are looked up rather than gone through.
    pub fn joining(&self, from: usize, to: usize) -> impl Iterator<Item = DirectionId> {
        let by_ends = self.by_ends.get_or_init(|| {
            let starts = self.first.windows(2).zip(0u32..).flat_map(|(range, node)| {
                self.edges[range[0] as usize..range[1] as usize].iter().map(move |&edge| (node, edge))
            });
            let mut all: Vec<_> = starts.map(|(from, (to, direction))| (from, to, direction)).collect();
            all.sort_unstable();
            all
        });
        let ends = (from as u32, to as u32);
        let begin = by_ends.partition_point(|&(from, to, _)| (from, to) < ends);
        by_ends[begin..].iter().take_while(move |one| (one.0, one.1) == ends).map(|one| one.2)
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
    use std::sync::Arc;

    use crate::plan::Direction;

    fn graph(pairs: &[(usize, usize)]) -> Vec<LinkPlan> {
        let direction = Arc::new(Direction::plain(Rate(1_000_000), Span::ZERO));
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
        assert_eq!((routes.path(3, 4), routes.path(4, 3)), (Some(vec![9]), Some(vec![8])));
        assert_eq!(routes.path_avoiding(0, 4, &[3]), Some(vec![0, 2, 4, 9]));
        assert_eq!(routes.along(&[0, 1, 2, 3]), Ok(vec![0, 2, 4]));
        assert_eq!(routes.along(&[3, 0, 2]), Err((0, 2)));
        let parallel = Routes::new(2, &graph(&[(0, 1), (1, 0), (0, 1)]));
        assert_eq!(parallel.joining(1, 0).collect::<Vec<_>>(), [1, 2, 5], "in the order of the plan");
    }

    /// Leaves on the same node and on different ones, and two leaves alone: what a search from end to end finds.
    #[test]
    fn leaves_take_the_way_of_the_node_that_they_hang_on() {
        let mut routes = Routes::new(8, &graph(&[(0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (6, 7)]));
        for (source, sink) in [(0, 4), (5, 1), (0, 1), (4, 5), (2, 4), (0, 3), (0, 2), (6, 7), (7, 6), (0, 6)]
        {
            assert_eq!(routes.path(source, sink), routes.path_avoiding(source, sink, &[]), "{source} {sink}");
        }
    }
}
