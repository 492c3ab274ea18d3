"""Checks of evaluators: independent of how data is split, resumable bit for bit, and unbiased."""

from __future__ import annotations

import copy
from functools import partial
from itertools import chain, product, repeat
from numbers import Integral
from typing import cast

import numpy as np

from iopea.errors import InputError
from iopea.orders.checking import check_order, some_policies
from iopea.problems.base import Evaluator, PlugInEvaluator, Problem, sound_estimates
from iopea.testing.tools import (
    LONGEST_PLAY,
    SAME,
    ContractError,
    Story,
    as_policy,
    cut,
    name_of,
    near,
    random,
    refusal,
    require,
    require_inside,
    require_same,
    says_nothing,
    stored,
    tell_story,
    true_costs,
)
from iopea.types import Mask, State, Trajectory, Truth

#: Relative tolerance for averages in single precision.
SAME_SINGLE = 1e-3
#: Probability that a true claim is rejected, and the most pairs by which it is tested.
ERROR_RATE, PAIRS = 1e-4, 60
#: Length of sample paths, their number per policy for distributional claims, and for exact ones.
STEPS, PATHS, EXACT_PATHS = 2000, 16, 2
#: Share of the claimed α that may be missing, as by an unfinished episode.
MISSING_ALPHA = 0.05
#: Numbers of steps after which ``forget()`` is called.
FORGOTTEN = (1, 2, 3, 4, 5, 7, 40, 101, 160)
#: Number of places at which an evaluator is saved, and pieces of data after the last change.
SAVED, LAST_PIECES = 4, 20


def _tell(evaluator: Evaluator, story: Story) -> int:
    """Give an evaluator all trajectories; return how many steps counted as data."""
    return sum(evaluator.observe(trajectory, evaluate=counts) for trajectory, counts in story)


def _seen(evaluator: Evaluator) -> State:
    """All public values of an evaluator."""
    return {
        "state_dict()": copy.deepcopy(evaluator.state_dict()),
        "estimates()": dict(vars(evaluator.estimates())),
        "at_start": evaluator.at_start,
        "departures": evaluator.departures,
    }


def trajectories_checked(problem: Problem, truth: Truth) -> None:
    """Observed trajectories are accepted, whole and in parts; other columns are refused."""
    story = tell_story(problem, truth, some_policies(problem), steps=LONGEST_PLAY)
    for trajectory, _ in chain(story, cut(story, repeat(7))):
        try:
            problem.check(trajectory)
        except Exception as error:
            raise ContractError(f"check() refuses what was observed: {error!r}") from error
    path = max((trajectory for trajectory, _ in story), key=len)
    columns = dict(path.columns)
    extra = {"no_such_column": next(iter(columns.values()))}
    wrong = {"none of the columns": {}, "a column too many": {**columns, **extra}}
    for name in columns:
        others = {each: values for each, values in columns.items() if each != name}
        wrong[f"no column {name!r}"] = others
        wrong[f"another column for {name!r}"] = {**others, **extra}
    for what, given in wrong.items():
        require(
            refusal(partial(problem.check, Trajectory(path.policy, **given))),
            f"A trajectory with {what} must be refused with an InputError.",
        )


def fresh_evaluator(problem: Problem, truth: Truth) -> None:
    """An evaluator without data has no estimates, and the system is in its initial state."""
    points = some_policies(problem)
    evaluator = problem.evaluator(points)
    try:
        found = sound_estimates(evaluator, "estimates", evaluator.estimates(), len(points))
    except InputError as error:
        raise ContractError(str(error)) from None
    require(says_nothing(found), "A fresh evaluator must have no estimates.")
    require(evaluator.at_start, "A fresh evaluator must be at the start.")
    require(evaluator.departures == 0, "A fresh evaluator can't have seen departures.")


def estimates_fit(problem: Problem, truth: Truth) -> None:
    """Estimates have a column for each policy, and at most as many steps as were observed."""
    points = some_policies(problem)
    evaluator, told = problem.evaluator(points), 0
    estimates = evaluator.estimates()
    for trajectory, evaluate in tell_story(problem, truth, points):
        before, steps = estimates, len(trajectory) if evaluate else 0
        counted: object = evaluator.observe(trajectory, evaluate)
        require(
            isinstance(counted, Integral),
            f"{type(evaluator).__name__}.observe returns {counted!r}: it must return the number of "
            "steps that counted.",
        )
        told += steps
        estimates = evaluator.estimates()
        require(
            0 <= cast(int, counted) <= steps,
            f"Given {len(trajectory)} steps with evaluate = {evaluate}, observe() must count "
            f"between 0 and {steps} of them, not {counted}.",
        )
        require(
            evaluate or np.array_equal(before.mean, estimates.mean, equal_nan=True),
            "Steps observed with evaluate = False must not change the estimates.",
        )
        shape = (len(estimates.sums), len(points))
        require(
            estimates.sums.shape == shape and estimates.sizes.shape in (shape, shape[:1]),
            f"Estimates of {len(points)} policies have sums of shape {estimates.sums.shape} and "
            f"sizes of shape {estimates.sizes.shape}.",
        )
        most = estimates.steps.max(initial=0.0)
        require(
            (estimates.sizes >= 0).all() and most <= told and np.isfinite(estimates.sums).all(),
            f"After {told} steps, sums must be finite and sizes add up to between 0 and {told}, "
            f"but they add up to {most:g}.",
        )
    require(not says_nothing(estimates), f"After {told} steps no policy has an estimate.")


def any_delivery(problem: Problem, truth: Truth) -> None:
    """A trajectory given whole, in pieces or step by step leads to the same state, bit for bit."""
    points, rng = some_policies(problem), random("pieces")
    story = tell_story(problem, truth, points)
    whole = problem.evaluator(points)
    counted = _tell(whole, story)
    deliveries = {
        "in random pieces": cut(story, iter(lambda: int(rng.integers(0, 30)), -1)),
        "step by step": cut(story, repeat(1)),
    }
    for how, pieces in deliveries.items():
        other = problem.evaluator(points)
        also = _tell(other, pieces)
        require(also == counted, f"Delivered {how}, {also} steps count as data; whole, {counted}.")
        sentence = f"Delivered {how}, a trajectory must leave the same as whole"
        require_same(_seen(other), _seen(whole), sentence)


def any_threads(problem: Problem, truth: Truth) -> None:
    """Results don't depend on the number of threads, and little on the precision."""
    points = some_policies(problem)
    story = tell_story(problem, truth, points)
    one, two = problem.evaluator(points), problem.evaluator(points, threads=2)
    single = problem.evaluator(points, precision="float32")
    for evaluator in (one, two, single):
        _tell(evaluator, story)
    require_same(_seen(two), _seen(one), "Two threads must leave the same as one")
    mean, rough = one.estimates().mean, single.estimates().mean
    atol = SAME_SINGLE * np.nanmax(np.abs(mean), initial=0.0)
    require(
        np.allclose(mean, rough, rtol=0, atol=atol, equal_nan=True),
        f"In single precision the costs are {rough}, in double precision {mean}.",
    )


def kept_policies(problem: Problem, truth: Truth) -> None:
    """Dropping policies does not change the others, also after ``forget()``."""
    points, rng = some_policies(problem), random("keep")
    mask = rng.random(len(points)) < 0.6
    mask[rng.integers(len(points))] = True
    first, second = (tell_story(problem, truth, some) for some in (points, points[mask]))
    full, kept = problem.evaluator(points), problem.evaluator(points)
    for evaluator in (full, kept):
        _tell(evaluator, first)
    kept.keep(np.ones(len(points), dtype=np.bool_))
    require_same(_seen(kept), _seen(full), "Keeping all policies must change nothing")
    kept.keep(mask)
    _require_same_costs(kept, full, mask, "After keep()")
    for evaluator in (full, kept):
        _tell(evaluator, second)
    _require_same_costs(kept, full, mask, "After keep() and more data")
    for evaluator in (full, kept):
        evaluator.forget()
    for evaluator in (full, kept):
        _tell(evaluator, second)
    _require_same_costs(kept, full, mask, "After keep(), forget() and more data")
    require(not says_nothing(kept.estimates()), "After forget() new data must give estimates.")


def forgotten(problem: Problem, truth: Truth) -> None:
    """After ``forget()``, estimates count no more steps than came after it."""
    points = some_policies(problem)
    system, evaluator = problem.simulator(truth, seed=4), problem.evaluator(points)
    policy = as_policy(points[-1])
    for length in FORGOTTEN:
        for steps in range(1, length + 1):
            evaluator.observe(system.play(policy, 1).trajectory, evaluate=True)
            most = evaluator.estimates().steps.max(initial=0.0)
            require(
                most <= steps, f"{steps} steps after forget() the estimates count {most:g} steps."
            )
        evaluator.forget()
        require(says_nothing(evaluator.estimates()), "After forget() there must be no estimates.")


def _require_same_costs(kept: Evaluator, full: Evaluator, mask: Mask, when: str) -> None:
    """Refuse estimates of the kept policies that differ from those without ``keep()``."""
    some, every = kept.estimates(), full.estimates()
    require(
        some.mean.shape == (mask.sum(),),
        f"{when} there are estimates of {some.mean.size} policies, not {mask.sum()}.",
    )
    largest = np.nanmax(np.abs(every.mean), initial=0.0)
    require(
        np.allclose(some.mean, every.mean[mask], rtol=0, atol=SAME * largest, equal_nan=True)
        and np.allclose(some.steps, every.steps[mask]),
        f"{when} the costs of policies are {some.mean} by {some.steps} steps, but without keep() "
        f"they are {every.mean[mask]} by {every.steps[mask]}.",
    )
    require(
        (kept.at_start, kept.departures) == (full.at_start, full.departures),
        f"{when} the state of the real system must not change.",
    )


def evaluator_state(problem: Problem, truth: Truth) -> None:
    """A state loaded into any other evaluator resumes bit for bit."""
    points, rng = some_policies(problem), random("state")
    lengths = iter(lambda: int(rng.integers(1, 60)), 0)
    story = cut(tell_story(problem, truth, points), lengths)
    mask = np.arange(len(points)) % 2 == 0
    for first in (0, 1, *rng.integers(2, len(story) - LAST_PIECES, SAVED).tolist()):
        saved, fresh, used = (problem.evaluator(points) for _ in range(3))
        _tell(saved, story[:first])
        _tell(used, story[-LAST_PIECES:])
        if first % 2:
            saved.keep(mask)
        state = saved.state_dict()
        before = copy.deepcopy(state)
        for loaded in (fresh, used):
            loaded.load_state_dict(stored(state))
            require_same(_seen(loaded), _seen(saved), "A loaded evaluator must equal the saved one")
        for evaluator in (saved, fresh, used):
            _tell(evaluator, story[first:-LAST_PIECES])
            if first % 3 == 0:
                evaluator.forget()
            if not first % 2:
                evaluator.keep(mask)
            _tell(evaluator, story[-LAST_PIECES:])
        for loaded in (fresh, used):
            sentence = "A loaded evaluator must continue as the saved one does"
            require_same(_seen(loaded), _seen(saved), sentence)
        require_same(state, before, "A saved state must not change when the evaluator continues")


def plug_in_evaluator(problem: Problem, truth: Truth) -> None:
    """Where ``plug_in`` is set, any policy has an estimate, and the best one is computed."""
    points = some_policies(problem)
    evaluator = problem.evaluator(points)
    if not problem.plug_in:
        return
    if not isinstance(evaluator, PlugInEvaluator):
        raise ContractError("plug_in is set, but the evaluator is not a PlugInEvaluator.")
    require(evaluator.optimum() is None, "Before any data optimum() must be None.")
    _tell(evaluator, tell_story(problem, truth, points))
    listed, asked = (
        dict(vars(each)) for each in (evaluator.estimates(), evaluator.estimates_of(points))
    )
    require_same(listed, asked, "estimates_of() the evaluator's policies must equal estimates()")
    best = evaluator.optimum()
    if best is None:
        raise ContractError("After data of all policies optimum() must return a policy.")
    require_inside(problem, np.array([best]), "optimum()")
    costs = evaluator.estimates_of(np.vstack([points, best])).mean
    require(
        costs[-1] <= np.nanmin(costs) + SAME * np.nanmax(np.abs(costs)),
        f"The estimated cost of optimum() is {costs[-1]:.9g}, but that of another policy is "
        f"{np.nanmin(costs):.9g}.",
    )


def order_claim(problem: Problem, truth: Truth) -> None:
    """The claim of the information order holds on the true system."""
    paths = PATHS if problem.claim == "distributional" else EXACT_PATHS
    report = check_order(
        problem, truth, pairs=PAIRS, steps=STEPS, replications=paths, error_rate=ERROR_RATE
    )
    require(report.holds, str(report))
    require(
        not report.pairs_tested or report.alpha_least >= (1 - MISSING_ALPHA) * report.alpha_claimed,
        f"The problem claims α = {report.alpha_claimed:g}, but for some pair only a share of "
        f"{report.alpha_least:g} of the steps can be used.",
    )


def estimates_are_costs(problem: Problem, truth: Truth) -> None:
    """Estimates of informed policies are their true costs, up to a common constant."""
    points = some_policies(problem)
    sources = problem.order(points).cover()
    found = np.empty((PATHS, len(points)))
    for source, path in product(np.unique(sources), range(PATHS)):
        informed = np.flatnonzero(sources == source)
        evaluator, system = problem.evaluator(points[informed]), problem.simulator(truth, path)
        averages = []
        for steps in (STEPS // 2, STEPS // 2):
            rollout = system.play(as_policy(points[source]), steps)
            evaluator.observe(rollout.trajectory, evaluate=True)
            averages.append(evaluator.estimates().mean)
        found[path, informed] = 2 * averages[1] - averages[0]  # removes a bias of order 1/T
    true = true_costs(problem, truth, points)
    for other in range(1, len(points)):
        gaps = found[:, other] - found[:, 0]
        gaps, expected = gaps[np.isfinite(gaps)], true[:, other] - true[:, 0]
        require(gaps.size > 1, f"There is never an estimate of {name_of(points[other])}.")
        require(
            near(gaps, expected, float(np.abs(true).max())),
            f"The estimated cost of {name_of(points[other])} is {gaps.mean():.6g} above that of "
            f"{name_of(points[0])}, but the true difference is {expected.mean():.6g}.",
        )
