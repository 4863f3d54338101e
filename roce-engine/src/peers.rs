//! What all QPs to one peer share: the packets in flight to it, and who waits for room.

use core::net::IpAddr;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::congestion::Window;

#[derive(Debug)]
struct Peer {
    remote: IpAddr,
    window: Window,
    in_flight: u32,
    users: u32,
    /// QPs that wait for room, the one that waits longest first.
    waiting: VecDeque<u32>,
}

/// All peers of a device.
#[derive(Debug, Default)]
pub(crate) struct PeerTable {
    peers: Vec<Peer>,
}

impl PeerTable {
    /// Returns the place of a peer, made with `window` if it is new, and counts a user of it.
    pub(crate) fn join(&mut self, remote: IpAddr, window: Window) -> usize {
        let known = self
            .peers
            .iter()
            .position(|peer| peer.remote == remote && peer.users > 0);
        let place = known.or_else(|| self.peers.iter().position(|peer| peer.users == 0));
        let place = place.unwrap_or_else(|| {
            let waiting = VecDeque::new();
            self.peers.push(Peer {
                remote,
                window: window.clone(),
                in_flight: 0,
                users: 0,
                waiting,
            });
            self.peers.len() - 1
        });
        let peer = &mut self.peers[place];
        if peer.users == 0 {
            (peer.remote, peer.window, peer.in_flight) = (remote, window, 0);
            peer.waiting.clear();
        }
        peer.users += 1;
        // Room for every user to wait is taken here, so that no turn allocates.
        peer.waiting.reserve(peer.users as usize);
        place
    }

    /// Takes a user away, with what it had in flight.
    pub(crate) fn leave(&mut self, place: usize, in_flight: u32, index: u32) {
        let peer = &mut self.peers[place];
        peer.in_flight -= in_flight;
        peer.waiting.retain(|&waiting| waiting != index);
        peer.users -= 1;
    }

    /// Returns how many more packets may be sent to the peer.
    pub(crate) fn room(&self, place: usize) -> u32 {
        let peer = &self.peers[place];
        peer.window.packets().saturating_sub(peer.in_flight)
    }

    /// Replaces a user's share of the packets in flight.
    pub(crate) fn update(&mut self, place: usize, before: u32, after: u32) {
        let peer = &mut self.peers[place];
        peer.in_flight = peer.in_flight - before + after;
    }

    /// Reports acknowledged packets.
    pub(crate) fn on_ack(&mut self, place: usize, acked: u32) {
        let peer = &mut self.peers[place];
        peer.window.on_ack(acked, peer.in_flight);
    }

    /// Reports a loss.
    pub(crate) fn on_loss(&mut self, place: usize) {
        self.peers[place].window.on_loss();
    }

    /// Remembers that a QP waits for room.
    pub(crate) fn wait(&mut self, place: usize, index: u32) {
        let waiting = &mut self.peers[place].waiting;
        if !waiting.contains(&index) {
            waiting.push_back(index);
        }
    }

    /// Takes a QP that waits for room, if there is room.
    pub(crate) fn wake(&mut self, place: usize) -> Option<u32> {
        if self.room(place) == 0 {
            return None;
        }
        self.peers[place].waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn qps_to_one_peer_share_its_window() {
        let mut peers = PeerTable::default();
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let a = peers.join(ip, Window::new(8, 8));
        let b = peers.join(ip, Window::new(8, 8));
        assert_eq!(a, b);
        peers.update(a, 0, 6);
        assert_eq!(peers.room(b), 2);
        peers.update(b, 0, 2);
        peers.wait(b, 42);
        peers.wait(b, 43);
        assert_eq!(peers.wake(a), None);
        peers.update(a, 6, 5);
        assert_eq!(peers.wake(a), Some(42), "the one that waits longest");
        peers.leave(a, 5, 1);
        peers.leave(b, 2, 2);
        let c = peers.join(IpAddr::V4(Ipv4Addr::BROADCAST), Window::new(8, 8));
        assert_eq!(c, a, "the place is used again");
        assert_eq!(peers.room(c), 8);
    }
}
