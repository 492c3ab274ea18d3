"""Growth of regret: fits find known exponents, and planted defects are found."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from iopea.comparison.statistics import fit_power
from iopea.elimination.paired import Paired
from iopea.elimination.rule import Elimination
from iopea.studies.guarantees.alpha import Alpha
from iopea.studies.guarantees.bounds import Bounds
from iopea.studies.guarantees.checks import above_zero, at_most, at_most_worst, seldom
from iopea.studies.guarantees.fits import (
    explained_by_logarithm,
    explained_by_power,
    fit_logarithm,
)
from iopea.studies.guarantees.growth import Growth, looks
from iopea.studies.guarantees.regrets import ArmsPlayed, cases, regret_of_arms
from iopea.studies.guarantees.study import Finding, Part, Study, Values
from iopea.studies.guarantees.width import SIZES, Width, compared
from iopea.studies.reproduction.curves import upper_bound
from iopea.systems.hard_instance import HardInstance, HiddenArm
from iopea.types import Array, Estimates

STUDIES: tuple[type[Study], ...] = (Growth, Width, Alpha, Bounds)
#: All quick checks of these studies together raise a false alarm less often than this.
MOST_ALARMS = 4e-7
POINTS = np.logspace(3, 7, 9)


def noisy(mean: Array, runs: int = 40, spread: float = 0.1) -> Array:
    """Runs whose noise is shared by all points of a run."""
    rng = np.random.default_rng(5)
    return np.asarray(mean * (1 + spread * rng.standard_normal((runs, 1))))


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5, 1.0])
def test_a_known_exponent_is_found(exponent: float) -> None:
    rng = np.random.default_rng(1)
    curves = 3 * POINTS**exponent * (1 + 0.1 * rng.standard_normal((40, POINTS.size)))
    fit = fit_power(POINTS, curves)
    assert fit is not None
    assert abs(fit.exponent - exponent) < 6 * fit.error < 0.05


def test_a_logarithm_is_told_from_a_power() -> None:
    curves = noisy(100 + 20 * np.log(POINTS))
    line = fit_logarithm(POINTS, curves)
    by_power = explained_by_power(POINTS, curves, fit_power(POINTS, curves))
    assert line.slope == pytest.approx(20, rel=0.1)
    assert by_power is not None
    assert explained_by_logarithm(POINTS, curves, line) > 0.999 > by_power


def test_the_error_of_a_slope_is_that_over_runs() -> None:
    rng = np.random.default_rng(2)
    slopes = 20 + rng.standard_normal(200)
    line = fit_logarithm(POINTS, slopes[:, None] * np.log(POINTS))
    assert line.error == pytest.approx(slopes.std(ddof=1) / np.sqrt(200))


def test_the_level_of_a_comparison_is_kept() -> None:
    """At equality a comparison at 5 % fails in 5 % of all cases: here of 2,000, within 6 sd."""
    rng = np.random.default_rng(3)
    failed = [above_zero(rng.standard_normal(12)) < 0.05 for _ in range(2000)]
    assert abs(np.mean(failed) - 0.05) < 6 * np.sqrt(0.05 * 0.95 / 2000)


def test_growth_beyond_what_is_allowed_fails() -> None:
    first = noisy(np.array([100.0]))[:, 0]
    assert at_most("grows", 2 * first, first, 3.0, 1e-6).passed
    assert not at_most("grows", 4 * first, first, 3.0, 1e-6).passed


def test_one_bad_gap_is_enough_to_fail() -> None:
    first = noisy(np.array([50.0, 100.0, 20.0]))
    good, bad = first * 3, first * np.array([3.0, 3.0, 30.0])
    assert at_most_worst("grows", good, first, 4.0, 1e-6).passed
    check = at_most_worst("grows", bad, first, 4.0, 1e-6)
    assert not check.passed
    assert check.false_alarm == pytest.approx(3e-6)


def test_a_rare_event_may_happen_as_often_as_its_probability_allows() -> None:
    check = seldom("rare", np.zeros(100, dtype=np.bool_), 0.15, 0.01)
    assert check.passed
    assert 0 < check.false_alarm <= 0.01
    assert not seldom("rare", np.ones(100, dtype=np.bool_), 0.15, 0.01).passed


def test_horizons_are_two_for_each_decade() -> None:
    assert looks(5) == (1000, 3162, 10_000, 31_623, 100_000)


def test_arms_are_charged_by_whose_episode_it_is() -> None:
    instance = HardInstance(policies=4, width=4, span=2, reveal=2)
    system = ArmsPlayed(instance, HiddenArm(arm=1, advantage=0.25), seed=0)
    system.play((0.0,), 6)  # an episode of 4, and two steps of another
    system.play((1.0,), 4)  # two steps are still those of arm 0
    assert system.excess == pytest.approx(0.25 * 8)


def test_regret_of_arms_is_in_the_mean_what_costs_are_beyond_the_best() -> None:
    """The two differ by less than 6 standard errors of the costs."""
    instance, steps = HardInstance(policies=4, width=4), 20_000
    hidden = HiddenArm(arm=2, advantage=0.1)
    system = ArmsPlayed(instance, hidden, seed=4)
    costs = np.concatenate([system.play((float(arm),), steps // 4).costs for arm in range(4)])
    beyond = costs.sum() - steps * (0.5 - hidden.advantage)
    assert abs(beyond - system.excess) < 6 * 0.5 * np.sqrt(steps)


def test_regret_of_arms_depends_on_the_seed_alone() -> None:
    instance = HardInstance(policies=4, width=4)
    settings: dict[str, Any] = {"rule": "paired"}
    runs = [regret_of_arms(instance, 0.2, seed, (500, 1000), settings) for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]
    # Reading on the way changes nothing.
    assert regret_of_arms(instance, 0.2, 7, (1000,), settings) == runs[0][1:]


def test_there_is_no_bound_where_the_theorem_does_not_apply() -> None:
    assert upper_bound(cases()["dual-sourcing"].system, 10_000) is None
    assert upper_bound(cases()["newsvendor"].system, 10_000) is not None


def measured(parts: list[Part]) -> dict[str, Values]:
    """What the parts measure, as it is read back from the store."""
    return {part.key: json.loads(part.perform(())[0]["values"]) for part in parts}


@cache
def stored(study: type[Study]) -> dict[str, Values]:
    """The values of a quick study."""
    return measured(study().parts(False))


def failed(finding: Finding) -> list[str]:
    """The claims that do not hold."""
    return [check.claim for check in finding.checks if not check.passed]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("study", STUDIES)
def test_no_two_parts_have_the_same_key(study: type[Study], full: bool) -> None:
    parts = study().parts(full)
    assert len({part.key for part in parts}) == len(parts) > 0
    assert all(part.runs > 1 and part.effort > 0 for part in parts)


@pytest.mark.parametrize("study", STUDIES)
def test_the_promise_holds(study: type[Study]) -> None:
    """By the quick studies, whose false alarms are counted below."""
    finding = study().finding(False, stored(study))
    assert finding.checks
    assert not failed(finding)
    assert finding.lead
    assert finding.tables
    assert len(finding.figures) == 1
    for table in finding.tables:
        assert table.lines
        assert {len(line.cells) for line in table.lines} == {len(table.columns)}


def test_quick_studies_hardly_ever_raise_a_false_alarm() -> None:
    checks = [check for each in STUDIES for check in each().finding(False, stored(each)).checks]
    assert all(check.false_alarm > 0 for check in checks)
    assert sum(check.false_alarm for check in checks) < MOST_ALARMS


def keep_all(rule: Paired, estimates: Estimates, policies: Array, *others: Any) -> Elimination:
    """A defect: whatever the data says, all policies survive."""
    return Elimination(np.ones(len(policies), dtype=np.bool_), np.inf)


@pytest.fixture
def never_eliminates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Paired, "eliminate", keep_all)


def with_new(study: Study, wanted: Callable[[Part], bool]) -> dict[str, Values]:
    """Stored values, but for parts that are measured again."""
    again = measured([part for part in study.parts(False) if wanted(part)])
    return {**stored(type(study)), **again}


@pytest.mark.usefixtures("never_eliminates")
def test_growth_finds_a_rule_that_never_eliminates() -> None:
    study = Growth()
    wanted = ("newsvendor-paired", "hard-instance")
    values = with_new(study, lambda part: part.case.startswith(wanted))
    claims = failed(study.finding(False, values))
    assert sum(claim.startswith("newsvendor") for claim in claims) == 2  # √T, and log T
    assert sum(claim.startswith("hard instance") for claim in claims) == 1


@pytest.mark.usefixtures("never_eliminates")
@pytest.mark.parametrize("study", [Width(), Alpha()], ids=lambda study: study.name)
def test_width_and_alpha_find_a_rule_that_never_eliminates(study: Study) -> None:
    values = with_new(study, lambda part: getattr(part, "width", 1) > 1)
    assert sum("learning nothing" in claim for claim in failed(study.finding(False, values))) == 2


def scaled(values: Mapping[str, Values], factors: Mapping[str, float]) -> dict[str, Values]:
    """Stored regrets times the factors of the cases whose names begin so."""
    found = {}
    for key, value in values.items():
        case = key.split(".", 1)[1]
        factor = next((by for start, by in factors.items() if case.startswith(start)), 1.0)
        regret = (factor * np.array(value["regret"])).tolist()
        found[key] = {**value, "regret": regret}
    return found


def test_width_finds_regret_that_grows_like_the_width() -> None:
    values = scaled(stored(Width), {"16-of-width-16": 10.0})
    assert any("√w log" in claim for claim in failed(Width().finding(False, values)))


def test_width_finds_an_order_that_does_not_help() -> None:
    trivial, ordered = compared(SIZES[False])
    values = {**stored(Width), ordered.key: stored(Width)[trivial.key]}
    assert any("full feedback costs" in claim for claim in failed(Width().finding(False, values)))


def test_width_finds_regret_that_grows_with_the_number_of_policies() -> None:
    values = scaled(stored(Width), {"64-of-width-1-": 64.0})
    assert any("factor log" in claim for claim in failed(Width().finding(False, values)))


def test_alpha_finds_regret_that_grows_too_fast() -> None:
    values = scaled(stored(Alpha), {"reveal-8": 64.0})
    assert any("1/√α" in claim for claim in failed(Alpha().finding(False, values)))


def test_bounds_find_a_learner_that_knows_the_hidden_arm() -> None:
    values = scaled(stored(Bounds), {"full-feedback-3000": 0.0, "blocks-half-seen-3000": 0.0})
    claims = failed(Bounds().finding(False, values))
    assert sum("no smaller" in claim for claim in claims) == 4


def test_bounds_find_a_learner_that_always_plays_the_worst_policy() -> None:
    values = dict(stored(Bounds))
    for part in Bounds().parts(False):
        if "easy" in part.case:
            most = values[part.key]["loss"] * 300_000
            values[part.key] = {**values[part.key], "regret": [[most]] * part.runs}
    claims = failed(Bounds().finding(False, values))
    assert sum("above the upper bound" in claim for claim in claims) == 4
