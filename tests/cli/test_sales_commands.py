"""The commands on tables of sales: files in, a plan or a report out, mistakes in a sentence."""

import re
import subprocess
import sys
import time

import polars as pl
import pytest

import iopea as library


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sales")
    made = library.generate_sales(6, 80, seed=3)
    made.history.write_csv(folder / "history.csv")
    made.items.write_csv(folder / "items.csv")
    return folder


def test_fit_writes_a_plan(iopea, files, tmp_path):
    out = tmp_path / "new" / "plan.csv"
    given = ("fit", files / "history.csv", "--items", files / "items.csv", "--workers", 1)
    status, said, _ = iopea(*given, "--out", out)
    assert status == 0
    plan = pl.read_csv(out)
    assert plan["unique_id"].len() == 6
    assert plan["order"].null_count() == 0
    orders = re.search(r"(\d+) orders above 0, ([\d,.]+) units", said)
    assert int(orders[1]) == (plan["order"] > 0).sum()
    assert float(orders[2].replace(",", "")) == pytest.approx(plan["order"].sum(), rel=1e-3)
    assert f"Written to {out}." in said
    wanted = library.fit(files / "history.csv", files / "items.csv").table
    assert plan["level"].to_list() == wanted["level"].to_list()
    options = ("--calendar", "none", "--memory", "none", "--sold-from", "t+L", "--no-borrow")
    assert iopea(*given, "--out", tmp_path / "other.parquet", *options)[0] == 0
    assert pl.read_parquet(tmp_path / "other.parquet").columns == plan.columns


def test_columns_may_have_other_names(iopea, files, tmp_path):
    pl.read_csv(files / "history.csv").rename({"sales": "qty"}).write_csv(tmp_path / "h.csv")
    given = ("fit", tmp_path / "h.csv", "--items", files / "items.csv", "--workers", 1)
    out = ("--out", tmp_path / "plan.csv")
    assert iopea(*given, *out, "--column", "sales=qty")[0] == 0
    status, _, error = iopea(*given, *out)
    assert status == 2
    assert "no column 'sales'" in error


def test_backtest_says_first_where_it_lost(iopea, files, tmp_path):
    status, said, _ = iopea(
        "backtest", files / "history.csv", "--items", files / "items.csv", "--from", "2023-04-03",
        "--out", tmp_path, "--workers", 1,
    )  # fmt: skip
    assert status == 0
    page = (tmp_path / "report.html").read_text()
    places = [
        page.index(words) for words in ("Where iopea lost: items", "Costs", "What iopea saved")
    ]
    assert places == sorted(places)
    assert said.index("Where iopea lost") < said.index("fill")
    assert "nothing more wanted" in said
    assert re.search(r"^(Winner: |No winner is named)", said, flags=re.MULTILINE)
    for name in ("items.csv", "periods.csv", "tables/costs.csv", "figures/saved.png"):
        assert (tmp_path / name).stat().st_size > 0
    items = pl.read_csv(tmp_path / "items.csv")
    assert set(items["contestant"]) == {"iopea", "order-up-to", "moving-average", "history"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "backtest"])
def test_a_killed_command_leaves_no_worker_and_nothing_half_written(tmp_path, command):
    made = library.generate_sales(300, 156, seed=3)
    made.history.write_parquet(tmp_path / "h.parquet")
    made.items.write_parquet(tmp_path / "i.parquet")
    more = {
        "fit": ["--out", "plan.csv", "--family", "s-S"],
        "backtest": ["--from", "2024-01-01", "--out", "out"],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "iopea", command, "h.parquet", "--items", "i.parquet",
         "--workers", "2", *more[command]],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    workers = []
    for _ in range(600):
        workers = children_of(process.pid)
        if len(workers) >= 3:  # two workers, and what tracks their resources
            break
        time.sleep(0.05)
    time.sleep(3)
    process.kill()
    process.wait()
    assert len(workers) >= 3
    deadline = time.monotonic() + 30
    while any(map(runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(map(runs, workers))
    assert {each.name for each in tmp_path.iterdir()} <= {"h.parquet", "i.parquet"}


def children_of(process):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def runs(process):
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() not in ("", "Z")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("fit", "{h}", "--items", "{i}", "--out", "plan.xlsx"), "plan.xlsx"),
        (("fit", "{h}", "--items", "", "--out", "plan.csv"), "empty"),
        (("fit", "{h}", "--items", "{i}", "--out", "{i}"), "which is read"),
        (("fit", "none.csv", "--items", "{i}", "--out", "{o}"), "none.csv"),
        (("fit", "{h}", "--items", "{i}", "--out", "{o}", "--column", "sales"), "OURS=THEIRS"),
        (("fit", "{h}", "--items", "{i}", "--out", "{o}", "--memory", "long"), "half-life"),
        (("fit", "{h}", "--items", "{i}", "--out", "{o}", "--family", "levels"), "levels"),
        (("backtest", "{h}", "--items", "{i}", "--from", "now"), "2024-03-28"),
        (("backtest", "{h}", "--items", "{i}", "--from", "2050-01-01"), "No item can be scored"),
        (("backtest", "{h}", "--items", "{i}", "--from", "2023-01-02", "--contestants", "x"), "x"),
        (("backtest", "{h}", "--items", "{i}", "--from", "2023-01-02", "--contestants", ","),
         "no contestants"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence_and_nothing_is_written(
    iopea, files, tmp_path, monkeypatch, options, words
):
    monkeypatch.chdir(tmp_path)
    places = {"h": files / "history.csv", "i": files / "items.csv", "o": "plan.csv"}
    status, _, error = iopea(*(option.format(**places) for option in options))
    assert status == 2
    assert error.startswith("Error: ")
    assert words in error
    assert list(tmp_path.rglob("*.*")) == []
