//! Queue pairs that are destroyed while packets for them are on the way, and what takes their place.

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::Backend;

use crate::oracle::{Verdict, region_bytes};
use crate::workload::mixed::Mixed;
use crate::workload::mixed::setup::open;
use crate::workload::pauses::Pauses;

impl Mixed<'_> {
    /// Destroys a queue pair now and then. Another one, connected to the same peer from the same PSNs,
    /// takes its place in the tables: nothing that was meant for the old one may reach it.
    pub(super) fn demolish(
        &mut self,
        world: &mut World,
        pauses: &mut Pauses,
        rng: &mut Rng,
    ) -> Verdict {
        if !self.plan.mixed.demolish || self.destroyed >= MOST || !rng.chance(0.02) {
            return Ok(());
        }
        let side = rng.below(2) as usize;
        let link = rng.below(self.plan.mixed.links.len() as u64) as usize;
        if self.sides[side].ports[link].gone.is_some() {
            return Ok(());
        }
        self.destroyed += 1;
        let (qp, qpn) = {
            let port = &self.sides[side].ports[link];
            (port.qp, port.qpn)
        };
        pauses.remove(side, qpn);
        let destroyed = world.device(side).destroy_qp(qp);
        destroyed.map_err(|error| format!("side {side}, link {link}: {error}"))?;
        // What has completed is still told.
        self.poll(world, side, rng, true)?;
        for windows in self.windows.iter_mut().filter(|w| w.link == link) {
            windows.forget(side);
        }
        let pool = self.sides[side].ports[link].pool;
        if self.sides[side].pools[pool].srq().is_none() {
            self.sides[side].pools[pool].bury();
        }
        self.sides[side].ports[link].gone = Some(self.remains(side, link));
        let peer = self.sides[1 - side].ports[link].qpn;
        let port = &self.sides[side].ports[link];
        let next = world.device(side).create_qp(&port.init);
        let next = next.map_err(|error| format!("side {side}, link {link}: {error}"))?;
        open(world, self.plan, port, next, peer);
        Ok(())
    }

    /// Returns the memory that only the queue pair's peer wrote.
    pub(super) fn remains(&self, side: usize, link: usize) -> Vec<u8> {
        let port = &self.sides[side].ports[link];
        let mut bytes = region_bytes(&port.target.region, 0..port.target.region.len());
        let pool = &self.sides[side].pools[port.pool];
        if pool.srq().is_none() {
            bytes.extend(pool.snapshot());
        }
        for windows in &self.windows {
            if windows.link == link && windows.owner == side {
                bytes.extend(windows.snapshot());
            }
        }
        bytes
    }
}

/// Queue pairs that a run destroys at most.
const MOST: usize = 4;
