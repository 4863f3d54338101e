//! Send queues that are drained (SQD) and go on at random.

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::{Backend, Psn, Qp, QpAttr, QpState, Qpn};

/// The queue pairs of a run that may be drained.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    all: Vec<Pause>,
}

#[derive(Debug)]
struct Pause {
    side: usize,
    qp: Qp,
    qpn: Qpn,
    left: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Running,
    /// In SQD; whether the event was asked for, and the next PSN when it came.
    Draining {
        asked: bool,
        drained: Option<Psn>,
    },
}

impl Pauses {
    /// Adds a queue pair that is drained up to `most` times.
    pub(super) fn add(&mut self, side: usize, qp: Qp, qpn: Qpn, most: u32) {
        self.all.push(Pause {
            side,
            qp,
            qpn,
            left: most,
            state: State::Running,
        });
    }

    /// Forgets a queue pair that is destroyed.
    pub(super) fn remove(&mut self, side: usize, qpn: Qpn) {
        self.all
            .retain(|pause| (pause.side, pause.qpn) != (side, qpn));
    }

    /// Starts and ends pauses.
    pub(super) fn turn(
        &mut self,
        world: &mut World,
        rng: &mut Rng,
        hurry: bool,
    ) -> Result<(), String> {
        self.all
            .iter_mut()
            .try_for_each(|pause| pause.turn(world, rng, hurry))
    }

    /// Takes the event of a send queue that has drained: once, if it was asked for.
    pub(super) fn on_drained(
        &mut self,
        world: &mut World,
        side: usize,
        qpn: Qpn,
    ) -> Result<(), String> {
        let mut all = self.all.iter_mut();
        let found = all.find(|pause| (pause.side, pause.qpn) == (side, qpn));
        let Some(pause) = found else {
            return Err(format!(
                "side {side}: QP {qpn} drained, which was never asked"
            ));
        };
        let State::Draining {
            asked: true,
            drained: drained @ None,
        } = &mut pause.state
        else {
            return Err(format!(
                "side {side}: QP {qpn} drained in {:?}",
                pause.state
            ));
        };
        let info = world.device(side).query_qp(pause.qp);
        *drained = info.map_err(|error| error.to_string())?.attr.sq_psn;
        Ok(())
    }

    /// Judges the end of a run in which nothing can happen any more.
    pub(super) fn on_end(&self, world: &mut World) -> Result<(), String> {
        for pause in &self.all {
            let stuck = State::Draining {
                asked: true,
                drained: None,
            };
            if pause.state == stuck && pause.is(world, QpState::Sqd)? {
                return Err(format!(
                    "side {}: QP {} has never drained",
                    pause.side, pause.qpn
                ));
            }
        }
        Ok(())
    }
}

impl Pause {
    fn turn(&mut self, world: &mut World, rng: &mut Rng, hurry: bool) -> Result<(), String> {
        match self.state {
            State::Running => {
                if self.left == 0 || hurry || !rng.chance(0.02) || !self.is(world, QpState::Rts)? {
                    return Ok(());
                }
                self.left -= 1;
                let asked = rng.chance(0.7);
                self.state = State::Draining {
                    asked,
                    drained: None,
                };
                self.modify(world, QpState::Sqd, Some(asked))
            }
            State::Draining { asked, drained } => {
                if !self.is(world, QpState::Sqd)? {
                    // It failed meanwhile.
                    self.state = State::Running;
                    return Ok(());
                }
                let over = if asked {
                    drained.is_some()
                } else {
                    hurry || rng.chance(0.1)
                };
                if !over || (!hurry && rng.chance(0.5)) {
                    return Ok(());
                }
                let info = world.device(self.side).query_qp(self.qp);
                let psn = info.map_err(|error| error.to_string())?.attr.sq_psn;
                if drained.is_some() && drained != psn {
                    return Err(format!(
                        "side {}: QP {} sent while it was drained: {drained:?} to {psn:?}",
                        self.side, self.qpn
                    ));
                }
                self.state = State::Running;
                self.modify(world, QpState::Rts, None)
            }
        }
    }

    fn is(&self, world: &mut World, state: QpState) -> Result<bool, String> {
        let info = world.device(self.side).query_qp(self.qp);
        let info = info.map_err(|error| format!("QP {}: {error}", self.qpn))?;
        Ok(info.state == state)
    }

    fn modify(
        &self,
        world: &mut World,
        state: QpState,
        sqd_event: Option<bool>,
    ) -> Result<(), String> {
        let attr = QpAttr {
            state: Some(state),
            sqd_event,
            ..QpAttr::default()
        };
        let modified = world.device(self.side).modify_qp(self.qp, &attr);
        modified.map_err(|error| format!("QP {} to {state}: {error}", self.qpn))
    }
}
