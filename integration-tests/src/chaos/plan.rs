//! Which fault happens when: all from a seed.

use std::time::Duration;

use crate::sequence::Sequence;

/// A fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// `kill -9`, and a new start after so long.
    Kill(Duration),
    /// Stands still for so long: longer than session and transaction time-out.
    Freeze(Duration),
    /// One more instance joins, works for so long, and leaves.
    Guest(Duration),
}

/// A fault, and how long after the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) after: Duration,
    pub(super) fault: Fault,
    /// Which of the instances it hits.
    pub(super) instance: usize,
}

/// How many of which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) kills: usize,
    pub(super) freezes: usize,
    pub(super) guests: usize,
    /// How long an instance stands still.
    pub(super) freeze: Duration,
}

/// Mixes the faults.
pub(super) fn steps(seed: u64, faults: Faults, instances: usize) -> Vec<Step> {
    let mut sequence = Sequence::new(seed);
    let mut millis = |low, high| Duration::from_millis(sequence.between(low, high));
    let mut all: Vec<Fault> = Vec::new();
    all.extend((0..faults.kills).map(|_| Fault::Kill(millis(0, 2000))));
    all.extend((0..faults.freezes).map(|_| Fault::Freeze(faults.freeze + millis(0, 1000))));
    all.extend((0..faults.guests).map(|_| Fault::Guest(millis(2000, 6000))));
    for i in (1..all.len()).rev() {
        all.swap(i, sequence.below(i as u64 + 1) as usize);
    }
    all.into_iter()
        .map(|fault| Step {
            after: Duration::from_millis(sequence.between(200, 2500)),
            fault,
            instance: sequence.below(instances as u64) as usize,
        })
        .collect()
}

/// How long the faults take, about: each fault that takes time is waited for.
pub(super) fn duration(steps: &[Step]) -> Duration {
    let took = |step: &Step| {
        let (Fault::Kill(lasts) | Fault::Freeze(lasts) | Fault::Guest(lasts)) = step.fault;
        step.after + lasts
    };
    steps.iter().map(took).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_with_all_faults_and_another_seed_another() {
        let faults = Faults { kills: 20, freezes: 3, guests: 3, freeze: Duration::from_secs(12) };
        let plan = steps(1, faults, 3);
        assert_eq!(plan, steps(1, faults, 3));
        assert_ne!(plan, steps(2, faults, 3));
        let kills = plan.iter().filter(|s| matches!(s.fault, Fault::Kill(_))).count();
        assert_eq!((plan.len(), kills), (26, 20));
        assert!(plan.iter().all(|step| step.instance < 3));
        assert!(duration(&plan) > Duration::from_secs(3 * 12));
    }
}
