import dataclasses
import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom, binomtest
from typer.testing import CliRunner

import iopea
from iopea.cli import app as cli
from iopea.comparison.tables import Column, Figure, Line, Table
from iopea.elimination.paired import Paired
from iopea.elimination.rule import Elimination
from iopea.studies.guarantees import STUDIES, survival
from iopea.studies.guarantees.cases import QUICK, cases, published_cases
from iopea.studies.guarantees.study import Check, Finding, Part, Study
from iopea.studies.guarantees.survival import Runs, Survival, most_lost, most_proved, upper_bound
from iopea.studies.guarantees.truths import system_from
from iopea.studies.guarantees.yardstick import newsvendor_costs, yardstick
from iopea.systems import PROBLEMS


@pytest.fixture
def command(iopea):
    def call(*arguments):
        status, out, err = iopea("validate", *arguments)
        return status, out, " ".join(err.split())

    return call


@dataclass(frozen=True)
class Toss(Part):
    """Counts how often it was done, in a file."""

    study = "coin"
    log: str

    def measure(self):
        with open(self.log, "a") as file:
            file.write(f"{self.case}\n")
        return {"heads": self.runs}


class Coin(Study):
    name, title = "coin", "A coin is fair"

    def __init__(self, log, kept=True):
        self.log, self.kept = str(log), kept

    def parts(self, full):
        return [Toss(f"toss-{i}", 7 + i, 3, 0.1, self.log) for i in range(4 if full else 2)]

    def finding(self, full, values):
        heads = sum(value["heads"] for value in values.values())
        return Finding(
            ("Tossed.",),
            (
                Table(
                    "coin",
                    "Tosses_1",
                    (Column.text("case"), Column("heads")),
                    (Line(("all", heads)),),
                    ("A note.",),
                ),
            ),
            (Figure("coin", "A picture", "Caption.", "<svg/>", b"png", "iopea validate coin"),),
            (
                Check("Half are heads", f"{heads} of {heads}", self.kept, 1e-9),
                Check("There are heads", "yes", True, 0.0),
            ),
        )


@pytest.fixture
def coin(monkeypatch, tmp_path):
    def register(*coins, **options):
        found = {"coin": Coin(tmp_path / "log", **options)} | dict(coins)
        monkeypatch.setattr("iopea.studies.guarantees.STUDIES", found)
        return tmp_path / "log"

    return register


# The command


def test_help_names_the_studies():
    text = CliRunner().invoke(cli.app, ["validate", "--help"], env={"COLUMNS": "200"}).stdout
    assert "--quick" in text
    assert all(name in text for name in STUDIES)


def test_an_unknown_study_is_refused_with_those_that_are_known(command, tmp_path):
    status, out, err = command("survivl", "--out", tmp_path / "out")
    assert status == 2
    assert "survivl" in err
    assert "survival" in err
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_everything_is_written(command, coin, tmp_path):
    coin()
    document = tmp_path / "docs" / "promises.md"
    status, out, err = command(
        "--workers", 1, "--out", tmp_path / "out", "--document", document
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert "pass coin: Half are heads" in " ".join(out.split())
    assert (tmp_path / "out/tables/coin.csv").read_text() == "case,heads\nall,6\n"
    assert "A coin is fair" in (tmp_path / "out/report.html").read_text()
    assert (tmp_path / "out/figures/coin.png").read_bytes() == b"png"
    assert (tmp_path / "out/figures/coin.svg").read_text() == "<svg/>"
    assert (tmp_path / "docs/promises/coin.png").read_bytes() == b"png"
    text = document.read_text()
    for part in (
        "| coin | Half are heads | 6 of 6 | kept | 1e-09 |",
        "## A coin is fair\n\nTossed.",
        "### Tosses\\_1",
        "- A note.",
        "![A picture](promises/coin.png)",
        f"- iopea: {iopea.__version__}",
        "- seeds: coin 7 to 10",
        "- command: `iopea validate --quick`",
        "- false alarms: at most 1e-09 for all checks together",
    ):
        assert part in text
    assert (tmp_path / "out/guarantees.md").read_text() == text.replace("promises/", "guarantees/")


def test_a_broken_promise_is_named_after_everything_is_written(command, coin, tmp_path):
    coin(kept=False)
    status, out, err = command("--workers", 1, "--out", tmp_path / "out")
    assert status == 1
    assert "FAIL coin: Half are heads" in " ".join(out.split())
    assert err == "A promise is broken: Half are heads."
    assert "| broken |" in (tmp_path / "out/guarantees.md").read_text()


def test_what_is_finished_is_not_run_again(command, coin, tmp_path):
    log = coin()
    out = ("--workers", 1, "--out", tmp_path / "out")
    assert command(*out)[0] == 0
    next((tmp_path / "out/tasks").glob("coin.toss-1.*.parquet")).unlink()
    assert command(*out)[0] == 0
    assert log.read_text().split() == ["toss-0", "toss-1", "toss-1"]
    status, _, err = command("--full", *out)
    assert status == 2
    assert "have size quick, not full" in err


def test_a_document_is_made_whole(command, coin, tmp_path):
    log = coin(("other", Coin(tmp_path / "log")))
    status, _, err = command("coin", "--out", tmp_path / "out", "--document", tmp_path / "a.md")
    assert (status, err) == (
        2,
        "Error: --document needs all studies, not coin alone: name none of them.",
    )
    status, _, err = command("--out", tmp_path / "out", "--document", tmp_path / "a.txt")
    assert status == 2
    assert "must end in .md" in err
    assert not log.exists()


@pytest.mark.slow
def test_the_quick_studies_pass(command, tmp_path):
    status, out, err = command("--out", tmp_path / "out")
    assert status == 0, (out, err)
    assert all(" tasks, " in line for line in err.splitlines()), err  # lines of progress alone
    text = (tmp_path / "out/guarantees.md").read_text()
    assert all(f"## {study.title}" in text for study in STUDIES.values())
    assert "at most " in text.split("false alarms: ")[1]


def test_quick_checks_hardly_ever_raise_a_false_alarm():
    checks = _found([])
    assert sum(check.false_alarm for check in checks) <= survival.QUICK_ALARM * (1 + 1e-9)


# Cases and yardsticks


def test_cases_are_of_every_kind_of_problem_and_can_be_run():
    kinds = set()
    for case in (*cases().values(), *published_cases().values()):
        for system in case.systems:
            problem, truth = system_from(system)
            assert problem.simulator(truth) is not None
            if case.rule == "paired":
                kinds.add(problem.kind)
    assert kinds == set(PROBLEMS)
    quick = (system for name in QUICK for system in cases()[name].systems)
    assert {json.loads(system)["problem"]["kind"] for system in quick} == set(PROBLEMS)


def test_keys_of_parts_are_stable_and_their_own():
    parts = Survival().parts(full=True)
    assert len({part.key for part in parts}) == len(parts)
    assert [part.key for part in parts] == [part.key for part in Survival().parts(full=True)]
    part = Runs("a", 5, 2, 1.0, "{}", "{}", 100, "paired", 0.05)
    assert part.key == "survival.a.5.be6270f91225d7d3"
    assert dataclasses.replace(part, effort=9.0).key == part.key
    assert dataclasses.replace(part, delta=0.2).key != part.key


def test_full_runs_are_many_and_on_their_own_seeds():
    runs, kinds = {}, {}
    for part in Survival().parts(full=True):
        assert part.first_seed >= 10_000
        runs.setdefault((part.case, part.delta), []).extend(part.seeds)
        about = json.loads(part.system)["problem"]["kind"], part.rule, part.delta
        kinds[about] = kinds.get(about, 0) + part.runs
    for (name, _), seeds in runs.items():
        assert len(seeds) == len(set(seeds)) >= (300 if name.startswith("published") else 120)
    promised = {about: total for about, total in kinds.items() if about[1] != "published"}
    assert {about[0] for about in promised} == set(PROBLEMS)
    assert {about[1:] for about in promised} == {
        (rule, delta) for rule in ("paired", "theorem") for delta in (0.01, 0.05, 0.2)
    }
    assert min(promised.values()) >= 2000


def test_settings_run_in_both_profiles_where_these_differ():
    counts = {name: len(case.systems) for name, case in cases().items()}
    assert counts["inventory-small-exponential"] == 1
    assert counts["inventory-small-normal"] == counts["dual-large-exponential"] == 2
    parts = [part for part in Survival().parts(full=True) if part.case == "queue-fixed-0.01"]
    share = {part.system: 0 for part in parts}
    for part in parts:
        share[part.system] += part.runs
    assert list(share.values()) == [250, 250]


def test_somebody_else_may_play_a_low_level_after_low_demand():
    case = cases()["reacting-lost-sales-poisson"]
    problem, truth = system_from(case.systems[0])
    learner, played = iopea.IOPEA(problem, horizon=120), []
    tell = learner.tell
    learner.tell = lambda path: (played.append((path.policy[0], path["sales"][0])), tell(path))
    assert not survival.is_lost(learner, problem.simulator(truth, 1), 120, (7.0,), reacting=True)
    levels, sales = np.array(played).T
    assert learner.steps == len(levels) == 120
    high = sales[:-1] > np.cumsum(sales)[:-1] / np.arange(1, 120)
    np.testing.assert_array_equal(levels[1:], np.where(high, levels.max(), levels.min()))
    assert {levels.min(), levels.max()} == {3.0, 10.0}


def test_the_best_quantity_of_the_newsvendor_has_a_closed_form():
    case = cases()["tie-newsvendor"]
    problem, law = system_from(case.systems[0])
    quantities = problem.policy_class.net(1.0)[:, 0]
    closed = quantities - 5 * 2 * (1 - np.exp(-quantities / 2)) + 8
    assert newsvendor_costs(problem, law, quantities) == pytest.approx(closed, abs=1e-12)
    found = yardstick(case.systems[0], case.settings, case.horizon, case.rule)
    assert found.best == (quantities[closed.argmin()],)
    assert found.gap / found.cost == pytest.approx(1e-3, rel=0.01)


@pytest.mark.parametrize("name", [name for name in cases() if name.startswith("tie-")])
def test_near_ties_are_near_and_certain(name):
    case = cases()[name]
    found = yardstick(case.systems[0], case.settings, case.horizon, case.rule)
    assert found.certain
    assert 0 < found.gap / found.cost < 1.2e-3


# Statistics


@pytest.mark.parametrize(
    ("lost", "runs"), [(0, 2000), (1, 2000), (17, 300), (299, 300), (300, 300)]
)
def test_the_upper_bound_is_that_of_clopper_and_pearson(lost, runs):
    interval = binomtest(lost, runs, alternative="less").proportion_ci(0.99, method="exact")
    assert upper_bound(lost, runs) == pytest.approx(interval.high, rel=1e-9)


@pytest.mark.parametrize(("runs", "delta"), [(2000, 0.01), (2000, 0.05), (2000, 0.2), (100, 0.01)])
def test_thresholds_follow_from_the_binomial_law(runs, delta):
    most = most_proved(runs, delta)
    assert most == max((k for k in range(runs) if upper_bound(k, runs) <= delta), default=-1)
    limit = most_lost(runs, delta, 1e-9)
    assert binom.sf(limit, runs, delta) <= 1e-9 < binom.sf(limit - 1, runs, delta)


def _found(losses, full=False):
    """The checks of made-up losses; all other cases have none."""
    values = {}
    for part in Survival().parts(full):
        lost = dict(losses).get(part.case.rpartition("-")[0], 0)
        values[part.key] = {
            "lost": list(range(lost if part.first_seed == survival.FIRST_SEED else 0)),
            "left": 0.5, "policies": 9, "best": [1.0], "cost": 2.0, "gap": 0.1, "error": 0.01,
        }  # fmt: skip
    checks = Survival().finding(full, values).checks
    assert checks
    return checks


def test_losses_break_the_promise_where_they_are_too_many():
    assert all(check.passed for check in _found([("newsvendor", 10)]))
    broken = [check for check in _found([("newsvendor", 60)]) if not check.passed]
    assert [check.claim for check in broken] == [
        "Rule paired loses the best policy with probability at most 0.05 in each of 17 cases"
    ]
    assert "newsvendor (60 of 120" in broken[0].measured


def test_full_checks_prove_the_promise():
    def broken(losses):
        checks = _found(losses, full=True)
        return [check.claim.rpartition(" in ")[0] for check in checks if not check.passed]

    # Three cases of 750 runs: what they may lose together at δ = 0.01.
    most = most_proved(2250, 0.01)
    assert upper_bound(most, 2250) <= 0.01 < upper_bound(most + 1, 2250)
    shares = [("newsvendor", most // 2), ("tie-newsvendor", most - most // 2)]
    assert broken(shares) == []
    assert broken([*shares, ("tie-newsvendor-poisson", 1)]) == [
        "Rule paired loses the best policy with probability at most 0.01 in newsvendor,"
    ]
    # Of many cases one alone may lose too much, though all together do not.
    alone = broken([("lost-sales-poisson", 20)])
    assert alone == [
        "Rule paired loses the best policy with probability at most 0.01 in lost-sales,"
    ]


# Violations


def _dropping(limit):
    """A rule that drops, after every epoch, what is dearer by estimate than ``limit`` of them."""

    def eliminate(rule, estimates, policies, *others):
        mean = estimates.mean
        if not np.isfinite(mean).any():
            return Elimination(np.ones(len(policies), dtype=bool), np.inf)
        return Elimination(~(mean > limit(mean)), 0.0)

    return eliminate


@pytest.mark.parametrize("limit", [np.nanmin, np.nanmedian])
def test_a_rule_that_is_too_bold_is_found(monkeypatch, limit):
    monkeypatch.setattr(survival, "QUICK", ("tie-newsvendor-poisson", "tie-hard-instance"))
    monkeypatch.setattr(Paired, "eliminate", _dropping(limit))
    values = {part.key: part.measure() for part in Survival().parts(full=False)}
    broken = [check for check in Survival().finding(False, values).checks if not check.passed]
    assert len(broken) == 1
    assert "Rule paired" in broken[0].claim
    assert "tie-hard-instance" in broken[0].measured


def test_a_loss_in_any_epoch_counts_and_ends_the_run(monkeypatch):
    case = cases()["newsvendor"]
    problem, truth = system_from(case.systems[0])
    learner = iopea.IOPEA(problem)
    # As a class that can't be listed: what is dropped once may come back later.
    monkeypatch.setattr(learner, "survives", lambda policy: learner.epoch != 3)
    assert survival.is_lost(learner, problem.simulator(truth, 1), 1000, (3.2,))
    assert learner.epoch == 3
