"""Every learner keeps to the same contract, on every problem that it fits."""

import re

import numpy as np
import pytest

from iopea.demand import Empirical
from iopea.errors import InputError
from iopea.learners import LEARNERS
from iopea.learners.baselines.random_policy import RandomPolicy
from iopea.simulate import best_in_class, run
from iopea.systems import PROBLEMS
from iopea.testing import LEARNER_CHECKS
from iopea.testing.twins import assert_same_state

#: Problems and truths with every family; those of the default are called by the kind alone.
EXAMPLES = {
    kind if number == 0 else f"{kind}, {problem.family.kind}": (problem, truth)
    for kind in PROBLEMS
    for number, (problem, truth) in enumerate(PROBLEMS[kind].examples())
}
FITTING, UNFIT = (
    [
        pytest.param(learner, example, id=f"{name}-{example}")
        for name, learner in LEARNERS.items()
        for example in EXAMPLES
        if learner.fits(EXAMPLES[example][0]) == fits
    ]
    for fits in (True, False)
)
#: Learners that must not see lost demand, and problems in which some is lost.
CENSORED = [
    each
    for each in FITTING
    if "demand" in EXAMPLES[each.values[1]][0].tables and not each.values[0].oracle
]
#: Demand that differs only where no stock of the examples reaches.
SEEN, HIDDEN = ([0.0, 0.0, 1.0, 2.0, 3.5, far] for far in (90.0, 900.0))


@pytest.mark.parametrize("check", LEARNER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("learner", "example"), FITTING)
def test_contract(learner, example, check):
    check(learner, *EXAMPLES[example])


@pytest.mark.parametrize(("learner", "example"), UNFIT)
def test_a_problem_that_does_not_fit_is_refused_in_a_sentence(learner, example):
    problem = EXAMPLES[example][0]
    words = f"{learner.name} needs {learner.needs}; a {problem.kind} problem has"
    with pytest.raises(InputError, match=re.escape(words)) as refused:
        learner(problem)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(("learner", "example"), CENSORED)
def test_demand_that_was_lost_is_not_seen(learner, example):
    problem = EXAMPLES[example][0]
    learners, costs = [], []
    for values in (SEEN, HIDDEN):
        one = learner(problem, horizon=400, seed=1)
        costs.append(run(one, problem.simulator(Empirical(values=values), seed=2), 400).costs)
        learners.append(one)
    assert costs[1].mean() > 2 * costs[0].mean()
    assert_same_state(*(one.state_dict() for one in learners))


def test_erm_is_near_the_best_and_does_use_what_was_lost():
    problem, truth = PROBLEMS["lost-sales"].example()
    best = best_in_class(problem.simulator(truth), steps=400_000)
    chosen = [
        run(LEARNERS["erm"](problem), problem.simulator(truth, seed), 20_000).recommendation
        for seed in range(3)
    ]
    assert best.relative_gaps(problem.simulator(truth), chosen).max() < 0.005
    system = problem.simulator(Empirical(values=HIDDEN), seed=2)
    levels = np.array([[2.0], [9.0]])
    lost = system.hindsight(levels, 500)
    assert lost[0] - lost[1] == pytest.approx(
        np.subtract(*(system.problem.simulator(system.truth, 2).play(tuple(level), 500).costs.mean()
                      for level in levels)), rel=1e-9
    )  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_hindsight_is_the_cost_of_playing_on_the_same_chance(example):
    problem, truth = EXAMPLES[example]
    policies = problem.policy_class.sample(np.random.default_rng(1), 3)
    if example == "dual-sourcing":
        policies.sort(axis=1)
    costs = problem.simulator(truth, seed=7).hindsight(policies, 200)
    for policy, cost in zip(policies, costs, strict=True):
        rollout = problem.simulator(truth, seed=7).play(tuple(policy), 200)
        assert cost == pytest.approx(rollout.costs.sum() / (rollout.elapsed or 200), rel=1e-9)


def test_oracles_are_marked_and_others_refuse_the_truth():
    assert {name for name, learner in LEARNERS.items() if learner.oracle} == {"erm", "optimal"}
    problem, truth = PROBLEMS["newsvendor"].example()
    told = problem.simulator(truth).play(LEARNERS["erm"](problem).ask().policy, 1).trajectory
    with pytest.raises(InputError, match="erm is an oracle"):
        LEARNERS["erm"](problem).tell(told)
    with pytest.raises(InputError, match="optimal is an oracle"):
        LEARNERS["optimal"](problem).ask()
    with pytest.raises(InputError, match="random is not an oracle: it must not see the truth"):
        RandomPolicy(problem).see(None)


def test_random_draws_evenly_over_the_class():
    problem, truth = PROBLEMS["queue"].example()
    learner, system, seen = RandomPolicy(problem, seed=3), problem.simulator(truth), []
    for _ in range(4000):
        play = learner.ask()
        seen.append(play.policy)
        learner.tell(system.play(play.policy, 1).trajectory)
    _, counts = np.unique(np.array(seen), axis=0, return_counts=True)
    assert counts.size == 64
    # Chi-squared with 63 degrees of freedom: above 129 with probability 10^-6.
    assert ((counts - 62.5) ** 2 / 62.5).sum() < 129


@pytest.mark.parametrize("name", [n for n, kind in LEARNERS.items() if kind.takes_start])
def test_a_learner_that_takes_a_start_plays_it_first(name):
    problem, _ = PROBLEMS["newsvendor"].example()
    learner = LEARNERS[name](problem, start=3.0, **({"play": "frugal"} if name == "iopea" else {}))
    assert learner.ask().policy == (3.0,)
    with pytest.raises(InputError, match="The start 1000000000 is not a policy of the class"):
        LEARNERS[name](problem, start=1e9, **({"play": "frugal"} if name == "iopea" else {}))


def test_erm_chooses_as_often_as_frugal_play():
    problem, truth = PROBLEMS["newsvendor"].example()
    erm, times = LEARNERS["erm"](problem), []

    class Noted:
        def best_in_hindsight(self, steps):
            times.append(steps)
            return (3.0,)

    erm.see(Noted())
    simulator = problem.simulator(truth)
    while erm.steps < 40:
        play = erm.ask()
        erm.tell(simulator.play(play.policy, play.steps).trajectory)
    assert times[:20] == list(range(1, 21))
    assert times[20:] == [22, 24, 26, 28, 30, 33, 36, 39, 42]
