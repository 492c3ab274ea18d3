"""What the first year costs: starts, shares by hand, marks, and stored runs."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from iopea.comparison.runner import run_tasks
from iopea.comparison.store import COLUMNS, Store
from iopea.comparison.tasks import Task, as_text, best_from
from iopea.learners import learner_named
from iopea.policies import Box
from iopea.problem_files import problem_from
from iopea.simulate import run
from iopea.studies.reproduction import year
from iopea.studies.reproduction.costs import SIZES, Choice
from iopea.studies.reproduction.reproduce import report_for, tasks_for

#: Two learners with a start and one without, on one system.
METHODS = ("sgd-base-stock", "order-up-to", "problem-specific")


@pytest.fixture
def choice(monkeypatch):
    """A tiny study: the Poisson shop, two seeds, a year."""
    shop = {each.name: each for each in year.year_settings()}["poisson"]
    monkeypatch.setattr(year, "year_settings", lambda: (shop,))
    size = replace(SIZES["quick"], evaluation=64_000, year=365, year_seeds=2)
    return Choice(size, methods=METHODS, first_seed=3)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "out", {"command": "test"})


def finish(choice, store):
    run_tasks(year.year_tasks(choice), store, workers=1)
    return year.year_settings()[0]


def test_starts_are_policies_of_the_class():
    tried = 0
    for setting in year.year_settings():
        problem, _ = problem_from(setting.tables)
        policies = problem.policy_class
        high = [policies.ends(axis)[1] for axis in range(policies.dimension)]
        for best in policies.thinned(5, policies.extent / 4).tolist():
            starts = [year.start_at(policies, tuple(best), factor) for factor in year.STARTS]
            assert all(policies.contains(start) for start in starts)
            assert (np.diff(np.array(starts), axis=0) >= 0).all()
            assert (np.array(starts) <= high).all()
            tried += 1
    assert tried > 40


def test_a_start_on_a_grid_is_a_step_at_least_and_the_highest_level_at_most():
    levels = Box(0, 60, step=4)
    assert year.start_at(levels, (0.0,), 0.25) == (4.0,)
    assert year.start_at(levels, (28.0,), 0.5) == (16.0,)  # 14 is no level
    assert year.start_at(levels, (40.0,), 2.0) == (60.0,)
    assert year.start_at(Box([0, 0], [6, 3]), (1.5, 2.5), 2.0) == (3.0, 3.0)


def test_every_setting_has_a_learner_of_each_kind():
    names = {each.name for each in year.year_settings()}
    assert len(names) == len(year.year_settings()) == 10
    assert {name for player in year.PLAYERS.values() for name in player.slow} <= names
    for setting in year.year_settings():
        fitting = [each for each in year.PLAYERS.values() if not each.lacks(setting)]
        assert {each.takes_start for each in fitting} == {True, False}
        assert year.PLAYERS[year.DEFAULT] in fitting


def test_learner_and_best_policy_face_the_same_demand(choice, store):
    """Started at the best level, and never moved, a learner costs what the best policy costs."""
    setting = finish(choice, store)
    problem, truth = problem_from(setting.tables)
    usual = year.runs_of(choice, setting, year.PLAYERS["order-up-to"])
    assert set(usual) == {3, 4}
    level = best_from(store.rows(usual[3][0].best.key)[0]).policy
    for name in ("sgd-base-stock", "order-up-to", "convex"):
        for seed, runs in year.runs_of(choice, setting, year.PLAYERS[name]).items():
            assert {(task.seed, task.system, task.horizons) for task in runs} == {
                (seed, usual[seed][0].system, usual[seed][0].horizons)
            }
            its = [row["best_average"] for row in store.rows(usual[seed][0].key)]
            for task in runs:
                assert [row["best_average"] for row in store.rows(task.key)] == its
    # order-up-to holds its start for 30 periods.
    shares = year.shares(choice, setting, year.PLAYERS["order-up-to"], store)
    assert shares.shape == (2, 4, 3)
    assert shares[:, list(year.STARTS).index(1.0), 0] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert (np.abs(shares[:, 0, 0]) > 0.01).all()
    # By hand, at a quarter of the best level.
    start = year.start_at(problem.policy_class, level, 0.25)
    mine = learner_named("order-up-to")(problem, horizon=365, seed=3, start=start)
    cost = run(mine, problem.simulator(truth, 3), 365).costs.sum()
    its = run(learner_named("optimal")(problem), problem.simulator(truth, 3), 365, best=level)
    assert shares[0, 0, -1] == pytest.approx(cost / its.costs.sum() - 1, rel=1e-9)


def test_shares_and_their_means_by_hand(choice, store):
    """Averages 2 of the best policy and 3, 4, 5, 6 of the learner: shares 0.5, 1, 1.5, 2."""
    setting, player = year.year_settings()[0], year.PLAYERS["order-up-to"]
    for seed, runs in year.runs_of(choice, setting, player).items():
        for place, task in enumerate(runs):
            if (seed, place) != (4, 3):
                put(store, task, 3.0 + place)
    found = year.shares(choice, setting, player, store)
    assert found[:, :, 0].tolist() == [[0.5, 1.0, 1.5, 2.0]]  # the last run of seed 4 is missing
    put(store, year.runs_of(choice, setting, player)[4][3], 10.0)
    entry = entries(year.table_year(choice, store))["After 365 periods", "order-up-to", "Poisson"]
    assert entry.mean == pytest.approx((1.25 + 1.75) / 2)  # the means of seeds 3 and 4
    assert entry.seeds == 2
    assert entry.half == pytest.approx(12.706 * 0.25, rel=1e-3)  # Student, one degree of freedom


def put(store, task, average):
    about = {"task": task.key, "label": task.label, "system": task.system, "seed": task.seed}
    run_about = {"learner": task.learner, "settings": task.settings, "horizon": 365}
    costs = {"average": average, "best_average": 2.0, "evaluation": task.evaluation}
    row = store_row(about | run_about | costs)
    store.add(task.key, [row | {"steps": steps} for steps in task.horizons])


def store_row(values):
    import iopea

    known = {"cost": 1.0, "gap": 0.0, "seconds": 0.0, "version": iopea.__version__}
    return dict.fromkeys(COLUMNS) | values | known


def entries(table):
    return {(line.section, line.name, column.title): entry
            for line, column, entry in table.entries()}  # fmt: skip


def test_learners_without_a_start_are_marked_and_run_once(choice, store):
    setting = finish(choice, store)
    assert not year.PLAYERS["iopea-maximal"].takes_start
    assert not year.PLAYERS["iopea-published"].takes_start
    assert {len(runs) for runs in year.runs_of(choice, setting, year.PLAYERS["convex"]).values()}\
        == {1}  # fmt: skip
    table = year.table_year(choice, store)
    names = {line.name for line in table.lines}
    assert names == {"sgd-base-stock", "order-up-to", f"convex {year.NO_START}"}
    assert any(f"{year.NO_START} takes no start" in note for note in table.notes)
    assert {line.section for line in table.lines} == {"After 100 periods", "After 365 periods"}


def test_stored_runs_are_not_run_again(choice, store, monkeypatch):
    finish(choice, store)
    number = len(store)
    assert number == 1 + 2 * (4 + 4 + 1)  # the search, and three learners

    def fail(*arguments):
        raise AssertionError("a stored task was run again")

    monkeypatch.setattr(year.StartedTask, "perform", fail)
    monkeypatch.setattr(Task, "perform", fail)
    again = Store(store.directory, {"command": "test"})
    finish(choice, again)
    assert len(again) == number
    assert year.year_figure(choice, again) is not None


def test_rows_of_a_run_have_the_start_and_the_key_of_their_task(choice, store):
    setting = finish(choice, store)
    runs = year.runs_of(choice, setting, year.PLAYERS["order-up-to"])[3]
    best = best_from(store.rows(runs[0].best.key)[0]).policy
    policies = problem_from(setting.tables)[0].policy_class
    assert len({task.key for task in runs}) == len(year.STARTS)
    for task, factor in zip(runs, year.STARTS, strict=True):
        start = year.start_at(policies, best, factor)
        for row in store.rows(task.key):
            assert row["task"] == task.key
            assert row["settings"] == as_text({"start": start})


def test_the_first_sentence_compares_the_default_with_the_usual_rule(choice, store):
    assert year.year_sentence(choice, store) == ""  # iopea is left out
    choice = replace(choice, methods=("iopea", "order-up-to"))
    assert year.year_sentence(choice, store) == ""  # nothing has run
    setting = year.year_settings()[0]
    for name, average in (("iopea", 2.2), ("order-up-to", 3.0)):
        for runs in year.runs_of(choice, setting, year.PLAYERS[name]).values():
            for task in runs:
                put(store, task, average)
    report = report_for(choice, ("year",), store)
    assert report.lead[0].startswith("In its first 365 periods, iopea costs 10 % (10 % to 10 %)")
    assert "order-up-to, the textbook rule, 50 % (50 % to 50 %)" in report.lead[0]
    assert [part.name for part in report.parts] == ["year", "year-starts", "year"]
    cells = entries(report.parts[1])
    assert cells["Poisson", "a quarter", "T = 365"].mean == pytest.approx(0.1)


def test_profiles_don_t_change_the_year():
    both, one = (Choice(SIZES["quick"], profiles) for profiles in
                 (("as-stated", "as-published"), ("as-published",)))  # fmt: skip
    keys = [[task.key for task in tasks_for(each, ("year",))] for each in (both, one)]
    assert keys[0] == keys[1]
    assert keys[0]


def test_the_full_size_has_all_settings_and_learners():
    full = Choice(SIZES["full"])
    assert year.chosen_settings(full) == year.year_settings()
    assert year.chosen_players(full) == tuple(year.PLAYERS.values())
    assert set(year.TABLED) <= set(year.year_looks(full))
    assert full.size.of(7).year_seeds == 7
    assert "ppo" not in {each.name for each in year.chosen_players(Choice(SIZES["quick"]))}


def test_the_command_writes_tables_and_a_figure(iopea, choice, tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", choice.size)
    out = tmp_path / "out"
    left_out = ("erm", "iopea", "iopea-published")
    options = [word for name in left_out for word in ("--without", name)]
    arguments = ("reproduce", "year", *options, "--profile", "as-stated", "--seeds", 1,
                 "--first-seed", 5, "--workers", 1, "--out", out)  # fmt: skip
    status, text, _ = iopea(*arguments)
    assert status == 0
    assert "What the first year costs" in text
    assert {path.name for path in (out / "figures").iterdir()} == {"year.png", "year.svg"}
    with (out / "tables" / "year.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert {cell["seeds"] for cell in cells} == {"1"}
    assert "--seeds 1 --first-seed 5" in cells[0]["command"]
    finished = sorted(path.name for path in (out / "tasks").iterdir())
    status, _, _ = iopea(*arguments, "--stored")
    assert status == 0
    assert sorted(path.name for path in (out / "tasks").iterdir()) == finished
