import json

import pytest

from iopea.learners import LEARNERS
from iopea.systems import PROBLEMS
from iopea.testing import twins


@pytest.mark.slow
def test_warmup(iopea):
    assert iopea("warmup")[1].startswith("Compiled in")


def test_version_and_help(iopea):
    assert iopea("--version")[1].strip() == "0.1.0"
    assert "learn" in iopea("--help")[1]


def test_bench_prints_one_json_object(iopea, monkeypatch):
    real = twins.replay_speed
    monkeypatch.setattr(twins, "replay_speed", lambda *which: real(*which, 64, 200))
    status, out, _ = iopea("bench", "--json")
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


def test_learners_are_listed_with_what_they_need(iopea, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    status, out, _ = iopea("learners")
    assert status == 0
    for name, learner in LEARNERS.items():
        assert name in out
        assert learner.needs.split()[0] in out
    status, out, _ = iopea("learners", "--json")
    rows = {row["name"]: row for row in json.loads(out)["learners"]}
    assert list(rows) == list(LEARNERS)
    assert rows["optimal"]["oracle"]
    assert rows["erm"]["about"].endswith(".")
    assert rows["random"]["fits"] == list(PROBLEMS)
