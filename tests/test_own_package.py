"""A package of its own, installed with pip beside iopea: commands and clusters use its classes."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from own_classes import PROBLEM_FILES, write_package

ROOT = Path(__file__).parents[1]


@contextmanager
def cluster_of(binaries, folder):
    """A Dask scheduler with two workers, as processes that know only what is installed."""
    file = folder / "scheduler.json"
    place = ("--host", "127.0.0.1", "--no-dashboard")
    started = [
        ["scheduler", *place, "--port", "0", "--scheduler-file", file],
        ["worker", *place, "--scheduler-file", file, "--nworkers", "2", "--nthreads", "1"],
    ]
    processes = []
    try:
        for words in started:
            processes.append(
                subprocess.Popen(
                    [binaries / "dask", *words],
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            deadline = time.monotonic() + 60
            while not file.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
        yield json.loads(file.read_text())["address"]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


@pytest.mark.slow
def test_a_package_installed_with_pip_is_used_everywhere(tmp_path):
    (tmp_path / "package").mkdir()
    package = write_package(tmp_path / "package", installed=False)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    binaries = tmp_path / "env" / "bin"
    pip = [binaries / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, f"{ROOT}[cluster]", package], check=True, timeout=900)
    work = tmp_path / "work"
    work.mkdir()
    for name, text in PROBLEM_FILES.items():
        (work / f"{name}.toml").write_text(text)

    def iopea(*words):
        done = subprocess.run(
            [binaries / "iopea", *map(str, words)],
            capture_output=True, text=True, timeout=600, check=False, cwd=work,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    listed = json.loads(iopea("learners", "--json"))["learners"]
    assert "follow-the-leader" in [row["name"] for row in listed]
    leader = ("--learner", "follow-the-leader")
    for name in PROBLEM_FILES:
        short = ("--horizon", 500, "--seeds", 2, "--json")
        if name == "auction":  # the other class has width above 1
            found = iopea("learn", f"{name}.toml", *leader, *short)
            assert json.loads(found)["learner"] == "follow-the-leader"
        assert json.loads(iopea("learn", f"{name}.toml", "--rule", "rarer", *short))["runs"]
        assert json.loads(iopea("check-order", f"{name}.toml", "--json"))["holds"]
    compared = iopea(
        "compare", "auction.toml", "shop.toml", "--learners", "iopea,follow-the-leader",
        "--horizon", 500, "--seeds", 2, "--workers", 2,
    )  # fmt: skip
    assert "follow-the-leader" in compared
    table = (
        *("reproduce", "table1", "--only", "inventory-small-normal", "--seeds", 2),
        *("--profile", "as-stated", "--rows", "follow-the-leader", "--without", "problem-specific"),
    )
    with cluster_of(binaries, work) as address:
        on_cluster = iopea(*table, "--cluster", address, "--out", "cluster")
    here = iopea(*table, "--workers", 1, "--out", "here")
    assert "follow-the-leader" in here
    assert on_cluster == here
