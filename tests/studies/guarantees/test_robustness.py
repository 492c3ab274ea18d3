"""The study of robustness, and the demand that breaks assumptions in it."""

import dataclasses
import json

import numpy as np
import pytest

from iopea.demand import Exponential
from iopea.seeds import seed_for
from iopea.studies.guarantees import robustness
from iopea.studies.guarantees.robustness import (
    CASES,
    FACTORS,
    Robustness,
    demand_of,
    problem_of,
)
from iopea.studies.guarantees.truths import Changing, Persistent, Seasons

LAWS = [
    Persistent(mean=2, correlation=0.7),
    Seasons(mean=2, factor=4, stay=0.9),
    Changing(mean=2, factor=3, after=50),
]


@pytest.mark.parametrize("law", LAWS)
def test_drawing_in_parts_changes_nothing_also_across_saving(law):
    whole = law.stream(seed_for("a")).draw(120)
    stream = law.stream(seed_for("a"))
    parts = [stream.draw(30), stream.draw(0), stream.draw(50)]
    state = json.loads(json.dumps(stream.state_dict()))
    again = law.stream(seed_for("b"))
    again.load_state_dict(state)
    np.testing.assert_array_equal(np.concatenate([*parts, again.draw(40)]), whole)
    np.testing.assert_array_equal(law.stream(seed_for("a")).draw(120), whole)


def test_persistent_demand_has_the_law_of_each_step_and_depends_on_the_step_before():
    path = Persistent(mean=2, correlation=0.7).stream(seed_for(1)).draw(200_000)
    # Of these many steps with that dependence, the mean has a standard error below 0.01.
    assert path.mean() == pytest.approx(2, abs=0.06)
    assert np.quantile(path, 0.9) == pytest.approx(2 * np.log(10), abs=0.15)
    assert 0.5 < np.corrcoef(path[1:], path[:-1])[0, 1] < 0.7


def test_seasons_and_changes_have_the_means_they_should():
    path = Seasons(mean=2, factor=4, stay=0.9).stream(seed_for(1)).draw(200_000)
    assert path.mean() == pytest.approx(2, abs=0.08)
    steady = Exponential(mean=2).stream(seed_for(1)).draw(100)
    changed = Changing(mean=2, factor=3, after=50).stream(seed_for(1)).draw(100)
    np.testing.assert_array_equal(changed[:50], steady[:50])
    np.testing.assert_array_equal(changed[50:], 3 * steady[50:])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_is_a_problem_with_a_truth(case):
    problem, truth = problem_of(case.shop, case.low, case.high), demand_of(case.demand, 100)
    assert problem.kind == case.shop
    assert isinstance(truth, Changing) == (case.demand in FACTORS)
    assert len({each.name for each in CASES}) == len(CASES)


@pytest.fixture(scope="module")
def values():
    """What the parts of a tiny study have left."""
    with pytest.MonkeyPatch.context() as patch:
        small = [dataclasses.replace(case, runs=(2, 2)) for case in CASES if case.runs[0]]
        patch.setattr(robustness, "CASES", tuple(each for each in small if "l" in each.shop[0]))
        patch.setattr(robustness, "STEPS", (2_000, 2_000))
        patch.setattr(robustness, "EVALUATION", (20_000, 20_000))
        patch.setattr(robustness, "WATCH_RUNS", (20, 20))
        study = Robustness()
        found = {part.key: json.loads(part.perform([])[0]["values"]) for part in study.parts(False)}
        yield study, found


def test_a_study_has_tables_a_figure_and_checks_with_small_error(values):
    study, found = values
    finding = study.finding(False, found)
    assert [table.name for table in finding.tables] == [
        "robustness-demand", "robustness-range", "robustness-change",
    ]  # fmt: skip
    for table in finding.tables:
        assert table.lines
        assert all(len(line.cells) == len(table.columns) for line in table.lines)
    assert finding.figures[0].png.startswith(b"\x89PNG")
    assert len(finding.checks) == 6
    assert sum(check.false_alarm for check in finding.checks) < 1e-6 / 6
    assert all(check.passed for check in finding.checks)


def test_checks_fail_when_promises_are_broken(values):
    study, found = values
    broken = json.loads(json.dumps(found))
    for part in broken.values():
        if "runs" in part:
            for each in part["runs"]:
                each["said"] = {"edge": 1, "change": 1, "dependence": 1}
        else:
            part["noticed"], part["largest"] = 20, [9.0] * 20
    checks = study.finding(False, broken).checks
    assert [check.passed for check in checks[3:5]] == [False, False]
    silent = json.loads(json.dumps(found))
    for part in silent.values():
        for each in part.get("runs", ()):
            each["said"] = dict.fromkeys(each["said"])
            if "anew" in each:
                each["anew"] = None
        if "runs" in part:
            part["runs"] *= 10
    power = study.finding(False, silent).checks[:3]
    assert [check.passed for check in power] == [False, False, False]


def test_the_full_study_checks_the_advice_to_start_again(values):
    study, found = values
    checks = study.finding(True, found | _full(study, found)).checks
    claims = [check.claim for check in checks]
    assert any("When demand halves" in claim for claim in claims)


def _full(study, found):
    """The same values under the keys of the full study."""
    quick = {part.case: found[part.key] for part in study.parts(False)}
    return {part.key: quick[part.case] for part in study.parts(True)}
