"""The commands ``reproduce`` and ``compare``, and the figures and statistics they draw on."""

import csv
import math
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from iopea.comparison.figures import Curve, costs_over_time
from iopea.comparison.statistics import fit_power, holm, mean_of, welch
from iopea.studies.reproduction import costs, curves
from iopea.studies.reproduction import scenarios as scenarios_module
from iopea.studies.reproduction.costs import SIZES, Choice
from iopea.studies.reproduction.reproduce import TARGETS, tasks_for
from iopea.studies.reproduction.surface import cost_surface, cost_surface_figure
from small_problems import PAPER

SMALL = """
[problem]
kind = "lost-sales"
lead_time = 1
holding_cost = 1.0
lost_sales_cost = 4.0
levels = { low = 0.0, high = 20.0, step = 1.0 }

[demand]
distribution = "poisson"
mean = 3.0
"""


@pytest.fixture
def iopea(iopea):
    """The command line, lines joined: where they break depends on the width."""

    def command(*arguments):
        status, out, err = iopea(*arguments)
        return status, " ".join(out.split()), " ".join(err.split())

    return command


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Smaller sizes: these tests are about the commands."""
    sizes = {
        name: replace(size, seeds=2, evaluation=64_000, curve=500, year=100, year_seeds=1)
        for name, size in SIZES.items()
    }
    for name, size in sizes.items():
        monkeypatch.setitem(SIZES, name, size)
    for name in scenarios_module._HORIZON:
        monkeypatch.setitem(scenarios_module._HORIZON, name, 500)
    scenarios_module.scenarios.cache_clear()
    yield
    scenarios_module.scenarios.cache_clear()


# Statistics.

values = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


@given(values, values)
def test_welch_is_the_test_of_scipy(one, other):
    assume(min(np.std(one), np.std(other)) > 1e-3)
    expected = stats.ttest_ind(one, other, equal_var=False).pvalue
    assert welch(one, other) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_welch_where_there_is_no_spread():
    assert welch([2.0, 2.0], [2.0, 2.0]) == 1.0
    assert welch([2.0, 2.0], [3.0, 3.0]) == 0.0
    assert math.isnan(welch([2.0], [3.0, 4.0]))
    assert math.isnan(welch([2.0, 3.0], [4.0]))
    sample = [1.0, 2.0, 4.0, 8.0]
    assert welch([5.0], sample, exact=True) == pytest.approx(stats.ttest_1samp(sample, 5.0).pvalue)


def test_an_interval_holds_the_mean_as_often_as_it_says():
    """2000 intervals of 95 %: fewer than 1843 or more than 1949 once in 10^6."""
    draws = np.random.default_rng(1).normal(3.0, 2.0, (2000, 6))
    held = sum(abs(mean_of(sample).value - 3.0) <= mean_of(sample).half for sample in draws)
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], 2000, 0.95)
    assert low <= held <= high


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_rejects_no_more_than_one_by_one_and_no_less_than_bonferroni(p_values):
    adjusted = holm(p_values)
    number = len(p_values)
    for plain, held in zip(p_values, adjusted, strict=True):
        assert plain <= held <= min(1.0, number * plain) + 1e-12
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()


def test_growth_finds_the_exponent_and_its_error():
    steps, runs = np.geomspace(1e3, 1e6, 8), 1000
    rng = np.random.default_rng(3)
    factors = np.exp(0.1 * rng.normal(size=(runs, 1)))
    noise = np.exp(0.05 * rng.normal(size=(runs, 8)))
    fit = fit_power(steps, 2 * steps**0.4 * factors * noise)
    # The error of a slope: 0.05 over the root of runs times the spread of log T.
    spread = np.sqrt(((np.log(steps) - np.log(steps).mean()) ** 2).sum())
    # Its own relative error is 1/sqrt(2 runs); beyond six of them once in 10^9.
    assert fit.error == pytest.approx(0.05 / np.sqrt(runs) / spread, rel=6 / np.sqrt(2 * runs))
    assert abs(fit.exponent - 0.4) < 6 * fit.error
    assert fit_power(steps, -np.ones((3, 8))) is None


# Figures.


def test_the_surface_is_convex_where_nothing_is_expedited_and_not_elsewhere():
    surface = cost_surface()
    assert surface.cost.shape == (41, 41)
    assert surface.trace_convex
    assert surface.concave.sum() > 20
    # Without expediting, a level of 0 loses all demand: p E(D).
    assert surface.cost[0, 0] == pytest.approx(10 * 40 / 3, rel=0.02)
    picture = cost_surface_figure(surface, "iopea reproduce figure2")
    assert "is convex in z_r" in picture.caption
    check_picture(picture)


def check_picture(picture):
    assert ElementTree.fromstring(picture.svg.encode()).tag.endswith("svg")
    assert picture.png.startswith(b"\x89PNG")


def test_curves_are_drawn_with_their_names():
    steps = np.array([1e3, 1e4])
    found = [
        Curve(name, steps, np.array([[level + 1, level], [level + 2, level]]))
        for level, name in enumerate(("iopea", "my-learner"), start=2)
    ]
    flat = Curve("random", np.array([1e4]), np.array([[30.0]]))
    picture = costs_over_time("a", "A", [*found, flat], found, 2.0, "iopea compare", "About.")
    check_picture(picture)
    panel = curves.RegretPanel("shop", found, np.array([[1e3, 1e4], [1e4, 1e5]]))
    drawn = curves.regret_figure([panel], "iopea reproduce regret")
    check_picture(drawn)


# reproduce


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("reproduce", "table2"), "There is no table or figure 'table2': use one of"),
        (("reproduce", "--profile", "as-printed"), "Unknown profile 'as-printed'"),
        (("reproduce", "--only", "queue"), "Unknown setting 'queue'"),
        (("reproduce", "--rows", "iopeas"), "Unknown row 'iopeas': did you mean 'iopea'"),
        (("reproduce", "--seeds", "0"), "--seeds"),
        (
            ("reproduce", "--seeds", "many"),
            "--seeds must be a whole number of at least 1 and at most 1000000, not 'many'",
        ),
        (("reproduce", "--rows", "erm", "--without", "erm"), "No row is left"),
        (("reproduce", "figure2", "--rows", "erm"), "figure2 needs complete results"),
        (("reproduce", "--only", "queue-fixed", "--document", "a.md"), "--document needs complete"),
        (("reproduce", "--document", "report.txt"), "its name must end in .md"),
        (("reproduce", "--stored"), "There is no folder"),
        (("compare", "nowhere.toml"), "There is no file nowhere.toml"),
        (("compare", PAPER / "queue-fixed.toml", "--learners", "ipoea"), "did you mean 'iopea'"),
        (("compare", PAPER / "queue-fixed.toml", "--learners", ","), "--learners is empty"),
        (("compare", PAPER / "queue-fixed.toml", "--learners", "convex"), "convex needs"),
    ],
)
def test_what_can_not_be_done_is_said_in_a_sentence(iopea, tmp_path, arguments, says):
    out = tmp_path / "out"
    status, _, err = iopea(*arguments, "--out", out)
    assert status == 2
    assert says in err
    assert err.startswith("Error: ")
    assert not out.exists()


def test_an_unknown_table_lists_the_known_ones(iopea):
    _, _, err = iopea("reproduce", "table2")
    for target in (*TARGETS, "paper", "all"):
        assert target in err


@pytest.mark.slow
def test_reproduce_writes_tables_figures_and_a_page(iopea, tmp_path):
    out = tmp_path / "out"
    left_out = ("feedback-graph", "erm", "problem-specific", "random", "iopea-published")
    options = [word for name in left_out for word in ("--without", name)]
    status, text, _ = iopea(
        "reproduce", "all", "--quick", *options, "--out", out, "--workers", 1,
        "--document", tmp_path / "paper.md",
    )  # fmt: skip
    assert status == 0
    assert "Table 1, as-stated" in text
    assert "Table 1, as-published" in text
    assert f"Written to {out / 'report.html'}." in text.replace("\n", "")
    tables = {path.name for path in (out / "tables").iterdir()}
    figures = {path.name for path in (out / "figures").iterdir()}
    for profile in ("as-stated", "as-published"):
        for name in ("table1", "table-queue", "regret"):
            assert {f"{name}-{profile}.{suffix}" for suffix in ("csv", "md", "tex")} <= tables
        assert f"figure1-{profile}.png" in figures
    assert {"year.csv", "year-starts.csv"} <= tables
    assert {"figure2.svg", "figure2.png", "regret.svg", "regret.png", "year.png"} <= figures
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 5
    assert re.search(r"iopea reproduce figure1 --quick --without [^<]*--profile as-stated", page)
    document = (tmp_path / "paper.md").read_text()
    assert "![Cost of dual-index policies](paper/figure2.png)" in document
    assert (tmp_path / "paper" / "figure2.png").read_bytes().startswith(b"\x89PNG")
    with (out / "tables" / "table1-as-published.csv").open() as file:
        cells = list(csv.DictReader(file))
    mine = next(
        cell
        for cell in cells
        if (cell["section"], cell["row"], cell["column"]) == ("Exponential", "iopea", "queue")
    )
    assert float(mine["mean"]) == pytest.approx(9.5404, rel=1e-4)
    assert mine["verdict"] == "better"

    # The command of one entry prints it, runs nothing more and leaves the report as it is.
    before = (out / "report.html").read_bytes(), len(list((out / "tasks").iterdir()))
    status, text, _ = iopea(*mine["command"].split()[1:], "--out", out)
    assert status == 0
    assert "9.540" in text
    # So do those of figures, which write a page of their own.
    for target in ("figure1", "figure2", "regret", "year"):
        command = re.search(rf"iopea (reproduce {target} --quick[^<]*)<", page)[1].split()
        status, text, _ = iopea(*command, "--out", out)
        assert status == 0
        assert re.search(rf"Written to .*/{target}.*\.html\.", text)
    assert ((out / "report.html").read_bytes(), len(list((out / "tasks").iterdir()))) == before

    # Another profile's folder is refused, with what to do.
    single = tmp_path / "single"
    assert iopea("reproduce", "figure2", "--profile", "as-stated", "--out", single)[0] == 0
    status, _, err = iopea("reproduce", "figure2", "--out", single)
    assert status == 2
    assert "give another folder with --out, or delete that one" in err

    # What is there can be reported without running anything.
    status, text, _ = iopea("reproduce", "table-queue", "--full", "--stored", "--out", out)
    assert status == 0
    assert len(list((out / "tasks").iterdir())) == before[1]


def test_all_targets_together_run_each_task_once():
    choice = Choice(SIZES["quick"])
    together = tasks_for(choice, TARGETS)
    assert len({task.key for task in together}) == len(together)
    apart = {task.key for target in TARGETS for task in tasks_for(choice, (target,))}
    assert {task.key for task in together} == apart


def test_seeds_are_the_same_for_all_learners_of_a_setting():
    """Common random numbers: the noise depends on the seed alone."""
    choice = Choice(SIZES["quick"], first_seed=7)
    tasks = costs.cost_tasks(choice, costs.TABLE_QUEUE)
    for name in ("iopea", "ucrl2", "optimal"):
        assert {task.seed for task in tasks if task.learner == name} == {7, 8}


def test_an_interrupted_run_says_that_it_can_go_on(tmp_path):
    command = [sys.executable, "-c", "import signal; "
               "signal.signal(signal.SIGINT, signal.default_int_handler); "
               "from iopea.cli.app import main; main()", "reproduce", "table-queue",
               "--workers", "2", "--seeds", "200", "--rows", "iopea",
               "--out", tmp_path / "out"]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while len(list(tmp_path.glob("out/tasks/*.parquet"))) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "finished tasks are kept in" in err
    assert err.endswith("Interrupted: no report was written.\n")
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "out" / "report.html").exists()


# compare


def test_compare_tests_learners_with_all_tests_accounted_for(iopea, tmp_path):
    shop, other = tmp_path / "my shop.toml", tmp_path / "other.toml"
    shop.write_text(SMALL)
    other.write_text(SMALL.replace("mean = 3.0", "mean = 5.0"))
    queue = PAPER / "queue-fixed.toml"
    out = tmp_path / "out"
    arguments = ("compare", shop, other, queue, "--learners", "iopea,order-up-to,random",
                 "--horizon", 2000, "--seeds", 3, "--workers", 1, "--out", out)  # fmt: skip
    status, text, _ = iopea(*arguments)
    assert status == 0
    assert "(Holm)" in text
    assert "order-up-to needs" in text  # of the queue, which it can't learn
    with (out / "tables" / "costs.csv").open() as file:
        cells = {(cell["row"], cell["column"]): cell for cell in csv.DictReader(file)}
    assert {column for _, column in cells} == {"my-shop", "other", "queue-fixed"}
    assert cells["random", "my-shop"]["sign"] == "○"
    assert float(cells["iopea", "my-shop"]["gap"]) < 0.02
    assert cells["order-up-to", "queue-fixed"]["absent"]
    with (out / "tables" / "regret.csv").open() as file:
        regrets = {(cell["row"], cell["column"]): cell for cell in csv.DictReader(file)}
    assert float(regrets["random", "other"]["mean"]) > float(regrets["iopea", "other"]["mean"])
    assert (out / "figures" / "costs-my-shop.png").exists()
    page = (out / "report.html").read_text()
    assert "--learners iopea,order-up-to,random --horizon 2000 --seeds 3" in page
    finished = len(list((out / "tasks").iterdir()))
    assert iopea(*arguments)[0] == 0
    assert len(list((out / "tasks").iterdir())) == finished


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.toml"))


def test_compare_takes_every_example_and_short_runs(iopea, tmp_path):
    assert len(EXAMPLES) > 5
    arguments = ("--learners", "iopea", "--seeds", 1, "--workers", 1, "--out", tmp_path / "out")
    status, text, _ = iopea("compare", *EXAMPLES, "--horizon", 60, *arguments)
    assert status == 0
    assert "Nothing was tested" in text
    assert "nan" not in text
    assert iopea("compare", EXAMPLES[0], "--horizon", 1, *arguments)[0] == 0


def test_where_the_best_cost_is_0_there_is_no_gap(iopea, tmp_path):
    free = tmp_path / "free.toml"
    free.write_text(SMALL.replace("lost_sales_cost = 4.0", "lost_sales_cost = 0.0"))
    status, text, _ = iopea(
        "compare", free, "--learners", "iopea", "--horizon", 300, "--seeds", 2, "--workers", 1,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert status == 0
    with (tmp_path / "out" / "tables" / "costs.csv").open() as file:
        cell = next(csv.DictReader(file))
    assert float(cell["mean"]) == pytest.approx(0.0, abs=0.5)
    assert cell["gap"] == ""
    assert "nan" not in text
