"""Tasks, the store, the runner, and what tables make of results."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import iopea
from iopea.comparison.runner import run_tasks
from iopea.comparison.store import COLUMNS, MEASURED, Store
from iopea.comparison.tasks import Task, best_from, perform, system_text
from iopea.errors import ComputationError, InputError
from iopea.problem_files import default_problem, problem_from
from iopea.studies.reproduction.costs import (
    SIZES,
    TABLE_1,
    TABLE_QUEUE,
    Choice,
    cost_tasks,
    reason_for,
    table_1,
    table_queue,
    table_regret,
    tasks_of,
)
from iopea.studies.reproduction.scenarios import METHODS, PROFILES, printed, scenarios

ABOUT = {"command": "test"}
EVALUATION = 64_000


def small_tasks(seeds=2, methods=("optimal", "iopea", "problem-specific")):
    return [
        METHODS[name].task(scenarios("as-published")[setting], EVALUATION, (500, 2000)).at(seed)
        for setting in ("inventory-small-normal", "queue-fixed", "dual-small-uniform")
        for name in methods
        for seed in range(seeds)
    ]


def results(store, tasks):
    return store.frame(task.key for task in tasks).drop(MEASURED)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The small tasks, done one after the other in this process."""
    store = Store(tmp_path_factory.mktemp("alone") / "out", ABOUT)
    run_tasks(small_tasks(), store, workers=1)
    return store


# Scenarios.


def test_the_best_costs_are_those_that_were_measured_independently():
    """Each within 1 %: the error of those values, about 0.5 %, and of 400,000 steps here."""
    known = {
        ("as-stated", "inventory-small-exponential"): 2.57,
        ("as-stated", "inventory-small-normal"): 1.81,
        ("as-published", "inventory-small-normal"): 2.25,
        ("as-stated", "inventory-small-uniform"): 2.98,
        ("as-stated", "inventory-large-normal"): 30.5,
        ("as-published", "inventory-large-normal"): 39.7,
        ("as-stated", "dual-small-exponential"): 2.16,
        ("as-stated", "dual-small-normal"): 1.36,
        ("as-published", "dual-small-normal"): 1.27,
        ("as-published", "dual-small-uniform"): 1.76,
        ("as-published", "dual-large-exponential"): 19.9,
        ("as-stated", "queue-decaying"): 6.6494,
        ("as-published", "queue-decaying"): 9.5404,
        ("as-stated", "queue-fixed"): 8.1250,
        ("as-published", "queue-fixed"): 11.6576,
    }
    for (profile, name), cost in known.items():
        task = Task(name, scenarios(profile)[name].system(), None, evaluation=400_000)
        assert perform(task)[0]["cost"] == pytest.approx(cost, rel=0.01), (profile, name)


def test_profiles_share_what_they_define_alike():
    stated, published = (
        {task.key for task in cost_tasks(Choice(SIZES["quick"], (profile,)), TABLE_1)}
        for profile in PROFILES
    )
    both = {key.rsplit(".", 2)[0] for key in stated & published}
    assert {name.split(".")[0] for name in both} == {
        "inventory-small-exponential",
        "inventory-small-uniform",
        "inventory-large-exponential",
        "inventory-large-uniform",
    }


def test_every_printed_value_has_a_setting_and_a_row():
    rows = {method.printed for method in METHODS.values()}
    for row, setting in printed():
        assert row in rows
        assert setting in scenarios("as-stated")
    assert len(printed()) == 92
    assert printed()["iopea", "dual-large-exponential"] == 26.0


def test_every_entry_that_may_differ_has_a_reason():
    entries = [
        (setting, name)
        for name in ("iopea", "ppo", "feedback-graph", "problem-specific")
        for setting in (*TABLE_1, *TABLE_QUEUE)
        if (METHODS[name].printed, setting) in printed()
    ]
    assert len(entries) == 54
    for profile in PROFILES:
        reasons = {entry: reason_for(profile, *entry) for entry in entries}
        assert [entry for entry in entries if reasons[entry] == "No reason is known."] == []


# Tasks.


def test_a_key_is_made_of_all_that_a_result_depends_on():
    task = small_tasks()[2]
    others = [
        replace(task, system=task.system.replace("2", "3", 1)),
        replace(task, learner="random"),
        replace(task, settings='{"rule":"published"}'),
        replace(task, seed=5),
        replace(task, horizons=(2000,)),
        replace(task, evaluation=EVALUATION + 64),
        replace(task, reference=task.system),
    ]
    assert len({task.key, *(other.key for other in others)}) == len(others) + 1
    assert replace(task).key == task.key


def test_a_task_is_the_run_that_one_makes_by_hand():
    problem, demand = default_problem()
    task = Task("shop", system_text(problem, demand), "iopea", seed=3, horizons=(400, 3000),
                evaluation=EVALUATION)  # fmt: skip
    best = iopea.best_in_class(problem.simulator(demand), EVALUATION)
    assert best_from(perform(task.best)[0]) == best
    result = iopea.run(
        iopea.IOPEA(problem, horizon=3000, seed=3), problem.simulator(demand, 3), 3000
    )
    first, last = perform(task, best)
    assert (first["steps"], last["steps"]) == (400, 3000)
    assert last["average"] == pytest.approx(result.average_cost, rel=1e-12)
    assert tuple(last["policy"]) == result.recommendation
    gap = best.relative_gaps(problem.simulator(demand), [result.recommendation])[0]
    assert last["gap"] == pytest.approx(gap, abs=1e-12)
    assert last["cost"] == pytest.approx(best.cost * (1 + gap))


def test_costs_in_another_system_are_compared_with_the_best_of_the_reference():
    """Charging 0.5 per expedited unit to one learner makes it dearer than its own system would."""
    scenario = scenarios("as-published")["dual-small-normal"]
    charged = METHODS["problem-specific"].task(scenario, EVALUATION, (2000,))
    free = replace(charged, system=scenario.system(), reference=None)
    assert charged.reference == scenario.system()
    assert charged.best == free.best
    best = best_from(perform(charged.best)[0])
    row = perform(charged, best)[0]
    assert row["gap"] == pytest.approx((row["cost"] - best.cost) / best.cost)
    assert row["cost"] > perform(free, best)[0]["cost"] + 0.05


# The store.


def test_what_was_stored_comes_back(alone, tmp_path):
    shutil.copytree(alone.directory, tmp_path / "copy")
    again = Store(tmp_path / "copy", ABOUT)
    assert results(again, small_tasks()).equals(results(alone, small_tasks()))
    frame = pl.read_parquet(alone.directory / "tasks" / "*.parquet")
    assert frame.columns == list(COLUMNS)
    assert set(frame["task"]) >= {task.key for task in small_tasks()}


def test_other_versions_profiles_and_folders_are_refused(alone, tmp_path):
    with pytest.raises(InputError, match="have command test, not reproduce: give another folder"):
        Store(alone.directory, {"command": "reproduce"})
    other = tmp_path / "other"
    Store(other, {"profiles": ["as-stated"]})
    with pytest.raises(InputError, match="profiles as-stated, not as-stated and as-published"):
        Store(other, {"profiles": list(PROFILES)})
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps({**manifest, "version": "0.0.9"}))
    with pytest.raises(InputError, match=r"version 0.0.9, not .*--out"):
        Store(other, {"profiles": ["as-stated"]})
    (other / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        Store(other, {"profiles": ["as-stated"]})
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no results"):
        Store(foreign, ABOUT)
    with pytest.raises(InputError, match="as a folder"):
        Store(foreign / "letter.txt", ABOUT)
    assert (foreign / "letter.txt").read_text() == "mine"
    early = tmp_path / "early"  # killed before it was claimed
    (early / "tasks").mkdir(parents=True)
    assert len(Store(early, ABOUT)) == 0


def test_results_of_another_version_are_refused(alone, tmp_path):
    key = small_tasks()[0].key
    rows = [{**row, "version": "0.0.9"} for row in alone.rows(key)]
    with pytest.raises(InputError, match=r"run by iopea 0\.0\.9, and this is"):
        Store(tmp_path / "out", ABOUT).add(key, rows)


def test_counts_beyond_all_integers_are_kept(alone, tmp_path):
    key = small_tasks()[0].key
    store = Store(tmp_path / "out", ABOUT)
    store.add(key, [{**row, "survivors": float(21**51)} for row in alone.rows(key)])
    assert Store(tmp_path / "out", ABOUT).rows(key)[0]["survivors"] == pytest.approx(21.0**51)


def test_a_damaged_file_is_named_and_nothing_else_is_lost(alone, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(alone.directory, folder)
    tasks = small_tasks()
    broken = folder / "tasks" / f"{tasks[3].key}.parquet"
    broken.write_bytes(broken.read_bytes()[:200])
    swapped = folder / "tasks" / f"{tasks[4].key}.parquet"
    shutil.copy(folder / "tasks" / f"{tasks[5].key}.parquet", swapped)
    for name, age in (("old", 100), ("new", 0)):  # one of a killed run, one of a run beside this
        draft = folder / "tasks" / f".{name}.elsewhere.1.part"
        draft.write_bytes(b"half")
        os.utime(draft, (time.time() - age,) * 2)
    best = folder / "tasks" / f"{tasks[0].best.key}.parquet"  # that no task of these needs any more
    best.write_bytes(b"")
    told = []
    store = Store(folder, ABOUT, told.append)
    assert len(told) == 3
    assert all(any(str(path) in line for line in told) for path in (broken, swapped, best))
    assert any("it holds another task" in line for line in told)
    assert [path.name for path in (folder / "tasks").glob(".*")] == [".new.elsewhere.1.part"]
    assert len(store) == len(alone) - 3
    run_tasks(tasks, store, workers=1)
    assert store.rows(tasks[0].best.key)[0]["cost"] == alone.rows(tasks[0].best.key)[0]["cost"]
    assert results(store, tasks).equals(results(alone, tasks))


def test_a_full_disk_names_the_task_and_keeps_all_others(alone, tmp_path):
    store = Store(tmp_path / "out", ABOUT)
    kept, lost = small_tasks()[:2]
    store.add(kept.key, alone.rows(kept.key))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # no file may be longer
    try:
        with pytest.raises(ComputationError, match="1 tasks that were finished before") as told:
            store.add(lost.key, alone.rows(lost.key))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert lost.key in str(told.value)
    again = Store(tmp_path / "out", ABOUT)
    assert kept.key in again
    assert lost.key not in again
    assert not list((tmp_path / "out" / "tasks").glob(".*"))


# The runner.


def test_two_processes_give_the_same_rows(alone, tmp_path):
    store = Store(tmp_path / "out", ABOUT)
    seen = []
    run_tasks(small_tasks(), store, workers=2, watch=seen.append)
    assert results(store, small_tasks()).equals(results(alone, small_tasks()))
    assert (seen[-1].done, seen[-1].total, seen[-1].running) == (len(alone), len(alone), ())
    assert max(len(progress.running) for progress in seen) >= 2
    assert seen[-1].effort_done == pytest.approx(seen[-1].effort_total)


@pytest.mark.slow
def test_a_cluster_gives_the_same_rows(alone, tmp_path):
    from distributed import LocalCluster

    store = Store(tmp_path / "out", ABOUT)
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        run_tasks(small_tasks(), store, cluster=cluster.scheduler_address)
    assert results(store, small_tasks()).equals(results(alone, small_tasks()))


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_refused(tmp_path):
    store = Store(tmp_path / "out", ABOUT)
    with pytest.raises(InputError, match=r"There is no Dask scheduler at 'tcp://127\.0\.0\.1:1'"):
        run_tasks(small_tasks(), store, cluster="tcp://127.0.0.1:1")


def test_what_is_finished_is_not_done_again(alone, monkeypatch):
    monkeypatch.setattr("iopea.comparison.tasks.perform", None)
    run_tasks(small_tasks(), alone, workers=1)
    assert len(alone) == len(small_tasks()) + 3


def test_a_worker_that_was_killed_is_told_of_and_all_else_is_kept(tmp_path):
    import psutil

    store = Store(tmp_path / "out", ABOUT)

    def kill(progress):
        if progress.done == 4:
            for child in psutil.Process().children(recursive=True):
                if "popen_loky_posix" in " ".join(child.cmdline()):
                    child.kill()

    with pytest.raises(ComputationError, match="A worker process ended in the middle of a task"):
        run_tasks(small_tasks(), store, workers=2, watch=kill)
    assert len(Store(tmp_path / "out", ABOUT)) >= 4


def test_a_task_that_fails_is_named(tmp_path):
    store = Store(tmp_path / "out", ABOUT)
    task = replace(small_tasks()[2], settings='{"rule":"guess"}')
    with pytest.raises(ComputationError, match=f"Task {task.key} failed.*guess"):
        run_tasks([task], store, workers=1)
    assert task.best.key in store


COMMAND = [
    *(sys.executable, "-c", "from iopea.cli.app import main; main()", "reproduce", "table-queue"),
    *("--quick", "--without", "feedback-graph", "--without", "problem-specific"),
    *("--without", "random", "--without", "erm", "--seeds", "20", "--workers"),
]


def state_of(folder):
    """Every finished task's file, with what would change if it were written again."""
    return {
        path.name: (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in folder.glob("tasks/*.parquet")
    }


@pytest.mark.slow
def test_killed_at_ten_moments_it_goes_on_and_ends_with_the_same_table(tmp_path):
    rng = random.Random(20)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    subprocess.run([*COMMAND, "2", "--out", whole], check=True, capture_output=True, timeout=300)
    complete = set(state_of(whole))
    finished = {}
    for kill in range(10):
        process = subprocess.Popen(
            [*COMMAND, str(1 + kill % 2), "--out", torn],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # After some more tasks, and then at any moment.
        enough = len(finished) + rng.randrange(len(complete) // 12)
        deadline = time.monotonic() + 120
        while len(state_of(torn)) < enough and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = state_of(torn)
        assert {name: now.get(name) for name in finished} == finished
        finished = now
    assert 0 < len(finished) < len(complete)
    subprocess.run([*COMMAND, "1", "--out", torn], check=True, capture_output=True, timeout=300)
    now = state_of(torn)
    assert {name: now.get(name) for name in finished} == finished
    assert set(now) == complete
    for name in ("table-queue-as-stated", "table-queue-as-published"):
        tables = [(folder / "tables" / f"{name}.csv").read_text() for folder in (torn, whole)]
        assert tables[0] == tables[1]


# Tables.


def filled(tmp_path, values, profile="as-published"):
    """A store in which every run of a table of queues has a made-up cost."""
    choice = Choice(SIZES["quick"], (profile,))
    store = Store(tmp_path / "out", ABOUT)
    for setting in TABLE_QUEUE:
        for name, method in METHODS.items():
            for number, task in enumerate(tasks_of(choice, scenarios(profile)[setting], method)):
                cost = values.get(name, 10.0) + 0.01 * number * method.learns
                row = dict.fromkeys(COLUMNS) | {
                    "task": task.key,
                    "version": iopea.__version__,
                    "seed": task.seed,
                    "cost": cost,
                    "gap": cost / 10 - 1,
                    "average": cost + 1,
                    "relative_regret": values.get(name, 10.0) / values.get("optimal", 10.0) - 1,
                }
                store.add(task.key, [row])
    return choice, store


def test_entries_are_marked_by_how_they_stand_to_the_printed_values(tmp_path):
    values = {"optimal": 9.5, "iopea": 9.0, "problem-specific": 11.5, "random": 12.0, "erm": 10.2}
    choice, store = filled(tmp_path, values)
    table = table_queue(choice, "as-published", store)
    cells = {line.name: line.entries[0] for line in table.lines}
    assert cells["optimal"].verdict == "reproduced"
    assert cells["iopea"].verdict == "better"  # 9.01 beside 10.5
    assert cells["iopea"].reason
    assert cells["erm"].verdict == "differs"  # 10.21 beside 9.6
    assert cells["problem-specific"].verdict == "reproduced"  # 11.51 beside 11.3, within 5 %
    assert (cells["problem-specific"].sign, cells["iopea"].sign) == ("", "★")
    assert cells["random"].sign == "○"
    assert cells["iopea"].mean == pytest.approx(9.01)
    assert cells["iopea"].gap == pytest.approx(-0.099)
    # t = 4.303 at 2 degrees of freedom, standard error 0.01/√3
    assert cells["iopea"].half == pytest.approx(4.3027 * 0.01 / 3**0.5, rel=1e-4)
    assert "sgd-base-stock" not in cells
    expected = "iopea reproduce table-queue --quick --profile as-published --only queue-decaying"
    assert cells["iopea"].command == f"{expected} --rows iopea"


def test_a_lower_cost_under_other_definitions_is_no_improvement(tmp_path):
    choice, store = filled(tmp_path, {"iopea": 6.6, "optimal": 6.6}, "as-stated")
    table = table_queue(choice, "as-stated", store)
    cells = {line.name: line.entries[0] for line in table.lines}
    assert cells["iopea"].verdict == "differs"
    assert "33" in cells["iopea"].reason


def test_regret_is_measured_under_the_same_noise(tmp_path):
    choice, store = filled(tmp_path, {"optimal": 10.0, "iopea": 10.5})
    table = table_regret(replace(choice, settings=TABLE_QUEUE), "as-published", store)
    titles = [column.title for column in table.columns]
    cell = table.lines[0].cells[titles.index("iopea")]
    assert cell.mean == pytest.approx(0.05, rel=2e-3)
    assert cell.half == pytest.approx(0.0, abs=1e-3)  # the seeds' own noise is in both


def test_a_table_of_nothing_says_so(tmp_path):
    choice = Choice(SIZES["quick"])
    table = table_1(choice, "as-stated", Store(tmp_path / "out", ABOUT))
    cell = next(line for line in table.lines if line.name == "iopea").entries[0]
    assert (cell.seeds, cell.absent, cell.text) == (0, "No run is finished.", "–")


def test_scenarios_are_what_the_example_files_say():
    """The files in examples/paper have the published demand laws, with all costs charged."""
    published = {**scenarios("as-published")}
    assert published.keys() == {path.stem for path in Path("examples/paper").glob("*.toml")}
    del published["dual-large-exponential"]  # run with other demand and levels than the file has
    for name, scenario in published.items():
        path = f"examples/paper/{name}.toml"
        changes = {"expedited_cost": 0.5} if name.startswith("dual") else {}
        assert scenario.system(**changes) == system_text(*iopea.problem_files.read_problem(path)), (
            name
        )
        problem_from(scenario.tables)


@pytest.mark.slow
def test_a_killed_command_leaves_no_worker_behind(tmp_path):
    import psutil

    with subprocess.Popen(
        [*COMMAND, "2", "--out", tmp_path / "out"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        parent, workers, deadline = psutil.Process(process.pid), [], time.monotonic() + 120
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
            workers = [
                child for child in parent.children(recursive=True)
                if "popen_loky_posix" in " ".join(child.cmdline())
            ]  # fmt: skip
        while not list((tmp_path / "out" / "tasks").glob("*.parquet")):
            assert process.poll() is None
            time.sleep(0.1)
        process.kill()
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
