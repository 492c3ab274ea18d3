import json
from pathlib import Path

import pytest

from iopea import simulate
from iopea.demand import Demand
from iopea.learners import LEARNERS
from iopea.problem_files import default_problem, parse_problem, read_problem, tables_of
from iopea.systems import PROBLEMS
from iopea.testing.tools import as_toml

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))
GOOD = """
[problem]
kind = "lost-sales"
lead_time = 2
holding_cost = 1.0
lost_sales_cost = 10.0
levels = { low = 0.0, high = 7.0 }

[demand]
distribution = "exponential"
mean = 1.0
maximum = 3.0
zero_probability = 0.3
"""


def test_learn_prints_one_json_object(iopea, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(GOOD)
    results = []
    for workers in (1, 2, 4):
        status, out, _ = iopea(
            "learn", file, "--horizon", 5000, "--seeds", 3,
            "--json", "--workers", workers,
        )  # fmt: skip
        assert status == 0
        results.append(out)
    assert results[0] == results[1] == results[2]
    report = json.loads(results[0])
    assert (report["learner"], report["horizon"], report["settings"]["rule"]) == (
        "iopea",
        5000,
        "paired",
    )
    assert report["optimal_policy"] == pytest.approx(3.33, abs=0.1)
    assert report["optimal_cost"] == pytest.approx(2.57, rel=0.02)
    assert [run["seed"] for run in report["runs"]] == [0, 1, 2]
    for run in report["runs"]:
        assert run.keys() >= {"policy", "average_cost", "relative_gap", "regret", "epochs"}
        total = 5000 * (run["average_cost"] - run["best_average_cost"])
        assert run["regret"] == pytest.approx(total, abs=1e-6)
    gaps = [run["relative_gap"] for run in report["runs"]]
    assert report["mean_relative_gap"] == pytest.approx(sum(gaps) / 3)
    regrets = [run["regret"] / (5000 * report["optimal_cost"]) for run in report["runs"]]
    assert report["mean_relative_regret"] == pytest.approx(sum(regrets) / 3)


def test_learn_prints_a_table_and_draws(iopea, tmp_path):
    picture = tmp_path / "new" / "learn.svg"
    status, out, _ = iopea("learn", "--horizon", 3000, "--seeds", 2, "--plot", picture)
    assert status == 0
    assert "Best in class" in out
    assert "regret" in out
    assert "surviving range" in picture.read_text()


def test_learn_says_in_words_what_the_theorem_did(iopea):
    status, out, _ = iopea("learn", "--horizon", 3000, "--seeds", 1, "--rule", "theorem")
    assert status == 0
    assert "Nothing was eliminated in 3000 steps" in out
    assert "T = " in out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("lead_time = 2", "lead_tme = 2", ["lead_tme", "did you mean 'lead_time'"]),
        ("lead_time = 2", "lead_time = 2.5", ["lead_time", "2.5"]),
        ("lead_time = 2", "", ["lead_time", "missing"]),
        ("holding_cost = 1.0", "holding_cost = -1.0", ["holding_cost", "-1.0"]),
        ("holding_cost = 1.0", "holding_cost = nan", ["holding_cost", "nan"]),
        ("low = 0.0, high = 7.0", "low = 8.0, high = 7.0", ["8.0", "7.0"]),
        ("low = 0.0", "lwo = 0.0", ["lwo", "did you mean 'low'"]),
        ('kind = "lost-sales"', 'kind = "lost-sale"', ["lost-sale", "did you mean 'lost-sales'"]),
        ('kind = "lost-sales"', "", ["kind"]),
        ('kind = "lost-sales"', "kind = [1]", ["kind", "[1]"]),
        ('distribution = "exponential"', "distribution = [1]", ["distribution", "[1]"]),
        ("[problem]", "[problm]", ["problm", "did you mean 'problem'"]),
        ("[demand]", "[demand", ["TOML"]),
        ('"exponential"', '"exponental"', ["exponental", "did you mean 'exponential'"]),
        ("mean = 1.0", "mean = -1.0", ["mean", "-1.0"]),
        ("mean = 1.0", "maen = 1.0", ["maen", "did you mean 'mean'"]),
        ("zero_probability = 0.3", "zero_probability = 1.3", ["zero_probability", "1.3"]),
    ],
)
def test_a_broken_problem_file_is_refused_in_a_sentence(iopea, tmp_path, old, new, words):
    file = tmp_path / "shop.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    status, out, err = iopea("learn", file)
    assert status == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    for word in ["shop.toml", *words]:
        assert word in err


def test_a_file_of_bytes_or_a_folder_is_refused(iopea, tmp_path):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "bytes.toml", tmp_path):
        status, _, err = iopea("learn", path)
        assert status == 2
        assert str(path) in err


def test_a_plot_to_a_folder_is_refused_and_no_folder_is_left(iopea, tmp_path):
    (tmp_path / "d.png").mkdir()
    status, _, err = iopea("learn", "--plot", tmp_path / "d.png")
    assert status == 2
    assert "folder" in err
    wrong = ["learn", "--rule", "bad", "--plot", tmp_path / "new" / "x.png"]
    assert iopea(*wrong)[0] == 2
    assert not (tmp_path / "new").exists()


def test_a_best_cost_of_zero_has_no_shares(iopea, tmp_path):
    file = tmp_path / "shop.toml"
    text = GOOD[: GOOD.index("[demand]")] + '[demand]\ndistribution = "constant"\nvalue = 5.0\n'
    text = text.replace("high = 7.0", "high = 7.0, step = 1.0")
    file.write_text(text.replace("lead_time = 2", "lead_time = 0"))
    arguments = ["learn", file, "--horizon", 300, "--seeds", 1]
    status, out, _ = iopea(*arguments, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["optimal_cost"] == 0
    assert report["mean_relative_gap"] is None
    assert iopea(*arguments)[0] == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_runs_from_the_command_line(iopea, monkeypatch, tmp_path, name):
    fits = next(kind for kind in PROBLEMS if LEARNERS[name].fits(PROBLEMS[kind].example()[0]))
    problem, truth = PROBLEMS[fits].example()
    file = tmp_path / "problem.toml"
    file.write_text(as_toml(tables_of(problem, truth.table())))
    monkeypatch.setattr(simulate, "CONTROLLER_ROUNDS", 20)
    monkeypatch.setattr(simulate, "RANDOM_STEPS", 200)
    arguments = ["learn", file, "--learner", name, "--horizon", 600, "--seeds", 2]
    picture = tmp_path / "runs.png"
    status, out, err = iopea(*arguments, "--plot", picture)
    assert status == 0, err
    assert "gap" in out
    assert picture.stat().st_size > 1000
    status, out, _ = iopea(*arguments, "--json")
    report = json.loads(out)
    assert (report["learner"], report["oracle"]) == (name, LEARNERS[name].oracle)
    assert len(report["runs"]) == 2
    assert "seed" not in report["settings"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--learner", "iopae"], ["'iopae'", "did you mean 'iopea'"]),
        (["--learner", "random", "--rule", "paired"], ["--rule", "random"]),
        (["--set", "precision"], ["NAME=VALUE", "'precision'"]),
        (["--set", "precison=float32"], ["'precison'", "did you mean 'precision'"]),
        (["--set", "precision=float31"], ["'float31'", "did you mean 'float32'"]),
        (["--set", "radius=0"], ["radius", "0"]),
        (["--set", "memory=0.5"], ["memory", "0.5", "at least 1"]),
        (["--set", "memory=5", "--set", "memory=6"], ["memory is given twice", "by --set and"]),
        (["--delta", "0.2", "--set", "delta=0.1"], ["delta is given twice", "by --delta and by"]),
        (["--set", "memory=10\nx=5"], ["memory takes one value", "x=5"]),
        (["--seeds", "1_000"], ["--seeds", "'1_000'"]),
        (["--seeds", "٥"], ["--seeds", "'٥'"]),
        (["--state", "1_0"], ["--state", "'1_0'"]),
        (["--plot", ""], ["A path is ''", "give the path of a file"]),
        ([""], ["A path is ''", "give the path of a file"]),
        (["--set", "memory=long"], ["memory", "'long'"]),
    ],
)
def test_a_wrong_learner_or_setting_is_refused(iopea, arguments, words):
    status, out, err = iopea("learn", *arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


def test_settings_of_a_learner_are_taken(iopea):
    status, out, _ = iopea(
        "learn", "--horizon", 600, "--seeds", 1, "--json",
        "--set", "precision=float32", "--set", "radius=0.5", "--set", "memory=12.5",
    )  # fmt: skip
    assert status == 0
    settings = json.loads(out)["settings"]
    assert (settings["precision"], settings["radius"]) == ("float32", 0.5)
    assert settings["memory"] == 12.5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_file_can_be_read(path):
    problem, truth = read_problem(path)
    assert PROBLEMS[problem.describe()["kind"]] is type(problem)
    assert not isinstance(truth, Demand) or truth.mean_demand() > 0


def test_there_is_an_example_file_of_every_kind():
    assert {read_problem(path)[0].kind for path in EXAMPLES} == set(PROBLEMS)


def test_the_default_problem_is_the_first_example():
    problem, demand = parse_problem(GOOD)
    assert default_problem() == (problem, demand)
