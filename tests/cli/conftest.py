import pytest

import iopea


@pytest.fixture(autouse=True)
def short_evaluation(monkeypatch):
    """A shorter search for the best in class: these tests are about the commands."""
    best_of = iopea.best_in_class
    monkeypatch.setattr(
        iopea, "best_in_class", lambda system, steps=400_000: best_of(system, steps)
    )
