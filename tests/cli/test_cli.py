import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iopea.cli import learn as cli
from iopea.demand import Demand
from iopea.learners import LEARNERS
from iopea.problem_files import default_problem, parse_problem, read_problem, tables_of
from iopea.systems import PROBLEMS
from iopea.testing.tools import as_toml

run_module = importlib.import_module("iopea.simulate")  # iopea.run is the function
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


def iopea(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["iopea", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture(autouse=True)
def short_evaluation(monkeypatch):
    """A shorter search for the best in class: these tests are about the commands."""
    monkeypatch.setattr(cli, "best_in_class", lambda system, steps=400_000: best_of(system, steps))


best_of = cli.best_in_class


def test_learn_prints_one_json_object(capsys, monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    file.write_text(GOOD)
    results = []
    for workers in (1, 2, 4):
        status, out, _ = iopea(
            capsys, monkeypatch, "learn", file, "--horizon", 5000, "--seeds", 3,
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
        total = 5000 * (run["average_cost"] - report["optimal_cost"])
        assert run["regret"] == pytest.approx(total, abs=1e-6)
    gaps = [run["relative_gap"] for run in report["runs"]]
    assert report["mean_relative_gap"] == pytest.approx(sum(gaps) / 3)
    regrets = [run["regret"] / (5000 * report["optimal_cost"]) for run in report["runs"]]
    assert report["mean_relative_regret"] == pytest.approx(sum(regrets) / 3)


def test_learn_prints_a_table_and_draws(capsys, monkeypatch, tmp_path):
    picture = tmp_path / "new" / "learn.svg"
    status, out, _ = iopea(
        capsys, monkeypatch, "learn", "--horizon", 3000, "--seeds", 2, "--plot", picture
    )
    assert status == 0
    assert "Best in class" in out
    assert "regret" in out
    assert "surviving range" in picture.read_text()


def test_learn_says_in_words_what_the_theorem_did(capsys, monkeypatch):
    status, out, _ = iopea(
        capsys, monkeypatch, "learn", "--horizon", 3000, "--seeds", 1, "--rule", "theorem"
    )
    assert status == 0
    assert "Nothing was eliminated in 3000 steps" in out
    assert "T = " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--horizon", "0"], ["horizon", "0"]),
        (["--horizon", "many"], ["horizon", "'many'"]),
        (["--seeds", "0"], ["seeds", "0"]),
        (["--workers", "-1"], ["workers", "-1"]),
        (["--rule", "theorm"], ["theorm", "did you mean 'theorem'"]),
        (["--restart", "nine"], ["nine", "did you mean 'none'"]),
        (["--delta", "1.5"], ["delta", "1.5"]),
        (["--plot", "picture.doc"], ["picture.doc", ".png"]),
        (["--plot", "/proc/nowhere/picture.png"], ["picture.png"]),
        (["--delta", "half"], ["delta", "'half'"]),
        (["--radius", "0"], ["radius", "0"]),
        (["--radius", "1e-12"], ["1e-12", "points"]),
        (["--seeds", "1.5"], ["seeds", "'1.5'"]),
        (["--horizon", "1000000000000000", "--radius", "1"], ["1000000000", "horizon"]),
        (["no-such-file.toml"], ["no-such-file.toml"]),
        (["--horizn", "5"], ["--horizn", "--horizon"]),
    ],
)
def test_wrong_arguments_end_with_a_sentence_and_status_2(capsys, monkeypatch, arguments, words):
    status, out, err = iopea(capsys, monkeypatch, "learn", *arguments)
    assert status == 2
    assert out == ""
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


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
def test_a_broken_problem_file_is_refused_in_a_sentence(
    capsys, monkeypatch, tmp_path, old, new, words
):
    file = tmp_path / "shop.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    status, out, err = iopea(capsys, monkeypatch, "learn", file)
    assert status == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    for word in ["shop.toml", *words]:
        assert word in err


def test_a_file_of_bytes_or_a_folder_is_refused(capsys, monkeypatch, tmp_path):
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "bytes.toml", tmp_path):
        status, _, err = iopea(capsys, monkeypatch, "learn", path)
        assert status == 2
        assert str(path) in err


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_file_can_be_read(path):
    problem, truth = read_problem(path)
    assert PROBLEMS[problem.describe()["kind"]] is type(problem)
    if isinstance(truth, Demand):
        assert truth.mean_demand() > 0


def test_the_default_problem_is_the_first_example():
    problem, demand = parse_problem(GOOD)
    assert default_problem() == (problem, demand)


def test_warmup_version_and_help(capsys, monkeypatch):
    assert iopea(capsys, monkeypatch, "warmup")[1].startswith("Compiled in")
    assert iopea(capsys, monkeypatch, "--version")[1].strip() == "0.1.0"
    assert "learn" in iopea(capsys, monkeypatch, "--help")[1]


def test_bench_prints_one_json_object(capsys, monkeypatch):
    real = cli.replay_speed
    monkeypatch.setattr(cli, "replay_speed", lambda lead, precision: real(lead, precision, 64, 200))
    status, out, _ = iopea(capsys, monkeypatch, "bench", "--json")
    assert status == 0
    rows = json.loads(out)["replay"]
    assert {(row["lead_time"], row["precision"]) for row in rows} >= {
        (2, "float64"),
        (6, "float64"),
        (2, "float32"),
    }
    for row in rows:
        assert row["ratio"] == pytest.approx(row["kernel"] / row["twin"])
        assert row["largest_error"] < (1e-9 if row["precision"] == "float64" else 1e-3)


def test_a_plot_to_a_folder_is_refused_and_no_folder_is_left(capsys, monkeypatch, tmp_path):
    (tmp_path / "d.png").mkdir()
    status, _, err = iopea(capsys, monkeypatch, "learn", "--plot", tmp_path / "d.png")
    assert status == 2
    assert "folder" in err
    wrong = ["learn", "--rule", "bad", "--plot", tmp_path / "new" / "x.png"]
    assert iopea(capsys, monkeypatch, *wrong)[0] == 2
    assert not (tmp_path / "new").exists()


def test_a_best_cost_of_zero_has_no_shares(capsys, monkeypatch, tmp_path):
    file = tmp_path / "shop.toml"
    text = GOOD[: GOOD.index("[demand]")] + '[demand]\ndistribution = "constant"\nvalue = 5.0\n'
    text = text.replace("high = 7.0", "high = 7.0, step = 1.0")
    file.write_text(text.replace("lead_time = 2", "lead_time = 0"))
    arguments = ["learn", file, "--horizon", 300, "--seeds", 1]
    status, out, _ = iopea(capsys, monkeypatch, *arguments, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["optimal_cost"] == 0
    assert report["mean_relative_gap"] is None
    assert iopea(capsys, monkeypatch, *arguments)[0] == 0


def test_an_interrupted_run_ends_cleanly(tmp_path):
    picture = tmp_path / "p.png"
    # A process of a job in the background is started with interrupts ignored.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from iopea.cli.learn import main; print('ready', flush=True); main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "learn", "--horizon", "20000000", "--seeds", "50",
         "--radius", "0.1", "--plot", str(picture)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert err == "Interrupted: no report was written.\n"
    assert not picture.exists()


def test_learners_are_listed_with_what_they_need(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = iopea(capsys, monkeypatch, "learners")
    assert status == 0
    for name, learner in LEARNERS.items():
        assert name in out
        assert learner.needs.split()[0] in out
    status, out, _ = iopea(capsys, monkeypatch, "learners", "--json")
    rows = {row["name"]: row for row in json.loads(out)["learners"]}
    assert list(rows) == list(LEARNERS)
    assert rows["optimal"]["oracle"]
    assert rows["erm"]["about"].endswith(".")
    assert rows["random"]["fits"] == list(PROBLEMS)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_runs_from_the_command_line(capsys, monkeypatch, tmp_path, name):
    fits = next(kind for kind in PROBLEMS if LEARNERS[name].fits(PROBLEMS[kind].example()[0]))
    problem, truth = PROBLEMS[fits].example()
    file = tmp_path / "problem.toml"
    file.write_text(as_toml(tables_of(problem, truth.table())))
    monkeypatch.setattr(run_module, "CONTROLLER_ROUNDS", 20)
    monkeypatch.setattr(run_module, "RANDOM_STEPS", 200)
    arguments = ["learn", file, "--learner", name, "--horizon", 600, "--seeds", 2]
    picture = tmp_path / "runs.png"
    status, out, err = iopea(capsys, monkeypatch, *arguments, "--plot", picture)
    assert status == 0, err
    assert "gap" in out
    assert picture.stat().st_size > 1000
    status, out, _ = iopea(capsys, monkeypatch, *arguments, "--json")
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
        (["--set", "memory=long"], ["memory", "'long'"]),
    ],
)
def test_a_wrong_learner_or_setting_is_refused(capsys, monkeypatch, arguments, words):
    status, out, err = iopea(capsys, monkeypatch, "learn", *arguments)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


def test_settings_of_a_learner_are_taken(capsys, monkeypatch):
    status, out, _ = iopea(
        capsys, monkeypatch, "learn", "--horizon", 600, "--seeds", 1, "--json",
        "--set", "precision=float32", "--set", "radius=0.5", "--set", "memory=12.5",
    )  # fmt: skip
    assert status == 0
    settings = json.loads(out)["settings"]
    assert (settings["precision"], settings["radius"]) == ("float32", 0.5)
    assert settings["memory"] == 12.5
