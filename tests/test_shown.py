"""What objects, the help and long commands show."""

import re
import sys

import pytest
from rich.console import Console

import iopea
from iopea.cli import jobs
from iopea.demand import Poisson

SHOP, DEMAND = iopea.LostSales.example()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            iopea.Trajectory((1.5, 3.0), stock=range(9), sales=[0.25] * 9),
            "Trajectory(1.5, 3, 9 steps: stock 0 1 2 3 4 5 ..., sales 0.25 0.25 0.25 0.25 0.25 "
            "0.25 ...)",
        ),
        (iopea.Trajectory(3), "Trajectory(3, 0 steps: )"),
        (iopea.IOPEA(SHOP), "<iopea on a lost-sales problem, 0 steps>"),
        (SHOP.simulator(DEMAND, 7), "<ShopSimulator of a lost-sales problem, seed 7>"),
        (iopea.PLAYERS, "<play: maximal, frugal>"),
        (Poisson(mean=2), "Poisson(maximum=None, zero_probability=0.0, mean=2.0)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_objects_say_what_they_are(value, text):
    assert repr(value) == str(value) == text


def test_no_summary_in_the_help_is_cut_off(iopea, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = iopea("--help")
    assert status == 0
    rows = re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", out.split("Commands:")[1], flags=re.MULTILINE)
    assert len(rows) == 10
    assert [row for row in rows if not row[1].endswith(".") or row[1].endswith("...")] == []


def test_long_commands_say_how_far_they_are_where_there_is_no_terminal(
    iopea, tmp_path, monkeypatch
):
    monkeypatch.setattr(jobs, "_SECONDS", 0.02)
    monkeypatch.chdir(tmp_path)
    status, _, err = iopea("learn", "--horizon", 3000, "--seeds", 2)
    assert status == 0
    lines = re.findall(r"^0:\d\d: (?:preparing|\d+ % of all steps, seed \d.*)$", err, re.MULTILINE)
    assert lines
    assert len(lines) == len(err.splitlines())
    (tmp_path / "p.toml").write_text(
        '[problem]\nkind = "newsvendor"\noverage_cost = 1\nunderage_cost = 4\n'
        'levels = { low = 0, high = 9 }\n[demand]\ndistribution = "exponential"\nmean = 2\n'
    )
    words = ("--horizon", 3000, "--seeds", 4, "--workers", 1, "--learners", "iopea")
    status, _, err = iopea("compare", "p.toml", *words)
    assert status == 0
    assert re.search(r"^0:\d\d: \d of 5 tasks.*running p\.iopea\.\d", err, re.MULTILINE), err


def test_a_terminal_gets_bars_instead(monkeypatch, capsys):
    monkeypatch.setattr(jobs, "_SECONDS", 0.01)
    with jobs.plain_progress(Console(file=sys.stderr, force_terminal=True)) as say:
        say("halfway")
    assert capsys.readouterr().err == ""
