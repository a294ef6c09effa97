//! Data races within a workgroup: tracks which invocation accessed each byte since the last barrier. Of shared memory, and in
//! symbolic runs of buffers.

use coop_ir::InstRef;

/// The agent of an access: an invocation, or one execution of a matrix instruction, since which invocation of it
/// accesses what is unspecified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Agent {
    pub id: u32,
    /// The subgroup; [`Agent::ALL`] for workgroup-scope matrices.
    pub subgroup: u16,
}

impl Agent {
    pub(super) const ALL: u16 = u16::MAX;
    const MATRIX: u32 = 1 << 31;
    /// No execution of a matrix instruction has this number.
    const LOADS: u32 = Agent::MATRIX - 1;

    pub(super) fn matrix(counter: u32, subgroup: u16) -> Agent {
        Agent { id: Agent::MATRIX | counter, subgroup }
    }

    pub(super) fn is_matrix(self) -> bool {
        self.id & Agent::MATRIX != 0
    }

    /// The agent of the loads of all matrix instructions of the same invocations: they only read, so their order is no matter.
    pub(super) fn loads(self) -> Agent {
        self.of_invocations()
    }

    /// The one agent of all matrix instructions of the same invocations.
    pub(super) fn of_invocations(self) -> Agent {
        if self.is_matrix() { Agent::matrix(Agent::LOADS, self.subgroup) } else { self }
    }

    /// Returns true if another agent is that of the loads of the same invocations' matrix instructions.
    fn follows(self, loads: Agent) -> bool {
        self.is_matrix() && loads == self.loads()
    }

    pub(super) fn describe(self) -> String {
        match (self.is_matrix(), self.subgroup) {
            (false, _) => format!("invocation {}", self.id),
            (true, Agent::ALL) => "a matrix instruction of the workgroup".into(),
            (true, s) => format!("a matrix instruction of subgroup {s}"),
        }
    }
}

#[derive(Clone, Copy)]
struct Seen {
    agent: Agent,
    /// The number of the subgroup's barriers at the access.
    phase: u32,
    at: InstRef,
    atomic: bool,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    epoch: u32,
    write: Option<Seen>,
    read: Option<Seen>,
    /// True if agents other than `read` have read too.
    many: bool,
    mixed: bool,
}

/// The history of shared memory, or of a buffer.
#[derive(Default)]
pub(super) struct Race {
    cells: Vec<Cell>,
    epoch: u32,
    phases: Vec<u32>,
    counter: u32,
}

/// The other party of a race.
pub(super) struct Conflict {
    pub who: Agent,
    pub at: InstRef,
    pub wrote: bool,
}

impl Race {
    pub(super) fn reset(&mut self, bytes: usize, subgroups: usize) {
        self.cells.clear();
        self.cells.resize(bytes, Cell::default());
        self.phases.clear();
        self.phases.resize(subgroups, 0);
        self.epoch = 1;
    }

    /// Forgets what another workgroup did.
    pub(super) fn next_workgroup(&mut self, subgroups: usize) {
        self.phases.clear();
        self.phases.resize(subgroups, 0);
        self.epoch += 1;
    }

    /// Makes the history long enough for accesses before a byte.
    pub(super) fn grow(&mut self, end: usize) {
        if self.cells.len() < end {
            self.cells.resize(end, Cell::default());
        }
    }

    /// Records a barrier of the workgroup.
    pub(super) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Records a barrier of one subgroup.
    pub(super) fn subgroup_barrier(&mut self, subgroup: usize) {
        if let Some(p) = self.phases.get_mut(subgroup) {
            *p += 1;
        }
    }

    /// Returns an agent for one execution of a matrix instruction.
    pub(super) fn matrix_agent(&mut self, subgroup: u16) -> Agent {
        self.counter = (self.counter + 1) % Agent::LOADS;
        Agent::matrix(self.counter, subgroup)
    }

    fn phase(&self, subgroup: u16) -> u32 {
        self.phases.get(usize::from(subgroup)).copied().unwrap_or(0)
    }

    /// Records an access to bytes and returns the conflicting one.
    pub(super) fn access(
        &mut self,
        range: std::ops::Range<usize>,
        agent: Agent,
        write: bool,
        atomic: bool,
        at: InstRef,
    ) -> Option<Conflict> {
        let phase = self.phase(agent.subgroup);
        let (epoch, seen) = (self.epoch, Seen { agent, phase, at, atomic });
        let mut found = None;
        for cell in self.cells.get_mut(range).into_iter().flatten() {
            if cell.epoch != epoch {
                *cell = Cell { epoch, ..Cell::default() };
            }
            let clash = |other: &Seen| {
                let ordered = other.agent == agent
                    || (other.agent.subgroup == agent.subgroup && agent.subgroup != Agent::ALL && other.phase != phase)
                    || (atomic && other.atomic);
                !ordered
            };
            if let Some(w) = cell.write.as_ref().filter(|w| clash(w)) {
                found = Some(Conflict { who: w.agent, at: w.at, wrote: true });
            }
            if write {
                if let Some(r) = cell.read {
                    // What a matrix instruction stores over what one of the same invocations loaded comes after that.
                    let follows = agent.follows(r.agent);
                    let others = cell.mixed || (cell.many && (r.phase == phase || r.agent.subgroup != agent.subgroup));
                    if (clash(&r) && !follows || others) && !(atomic && r.atomic) {
                        found = Some(Conflict { who: r.agent, at: r.at, wrote: false });
                    }
                }
                cell.write = Some(seen);
            } else {
                match cell.read {
                    Some(r) if r.agent.subgroup == agent.subgroup => {
                        if r.phase != phase {
                            // Who read before the subgroup's barrier counts no more.
                            (cell.read, cell.many) = (Some(seen), false);
                        } else if r.agent != agent {
                            cell.many = true;
                        }
                    }
                    Some(_) => (cell.many, cell.mixed) = (true, true),
                    None => cell.read = Some(seen),
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_before_a_barrier_of_the_subgroup_do_not_count() {
        let module = coop_ir::text::parse("OpCapability Shader").expect("a module");
        let at = module.all().next().expect("an instruction");
        let mut race = Race::default();
        race.reset(4, 2);
        let lane = |id| Agent { id, subgroup: 0 };
        let access = |race: &mut Race, id, write| race.access(0..4, lane(id), write, false, at).is_some();
        assert!(!access(&mut race, 0, false) && !access(&mut race, 1, false));
        race.subgroup_barrier(0);
        assert!(!access(&mut race, 0, false));
        assert!(!access(&mut race, 0, true), "only itself has read since the barrier");
        race.subgroup_barrier(0);
        assert!(!access(&mut race, 0, false) && !access(&mut race, 1, false));
        assert!(access(&mut race, 0, true), "another has read since the barrier");
    }

    /// A matrix is loaded and stored again; another subgroup must not have loaded it.
    #[test]
    fn stores_of_matrices_follow_loads_of_the_same_invocations() {
        let module = coop_ir::text::parse("OpCapability Shader").expect("a module");
        let at = module.all().next().expect("an instruction");
        let mut race = Race::default();
        race.reset(4, 2);
        let [a, b, c] = [0, 0, 1].map(|subgroup| race.matrix_agent(subgroup));
        assert!(race.access(0..4, a.loads(), false, false, at).is_none());
        assert!(race.access(0..4, b.loads(), false, false, at).is_none());
        assert!(race.access(0..4, b, true, false, at).is_none());
        assert!(race.access(0..4, a.loads(), false, false, at).is_some(), "no barrier since the store");
        race.barrier();
        assert!(race.access(0..4, c.loads(), false, false, at).is_none());
        assert!(race.access(0..4, a, true, false, at).is_some(), "another subgroup has loaded it");
    }
}
