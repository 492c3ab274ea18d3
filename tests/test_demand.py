import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import SeedSequence
from scipy import integrate, stats

from iopea.demand import LAWS, Demand, DemandStream, Empirical, Exponential, demand_from
from iopea.errors import InputError

DRAWS = 200_000
PERIODS = 300

TABLES: list[dict[str, object]] = [
    {"distribution": "exponential", "mean": 2.5},
    {"distribution": "normal", "mean": 2.0, "sd": 1.5},
    {"distribution": "normal", "mean": -1.0, "sd": 2.0},
    {"distribution": "uniform", "low": 0.5, "high": 4.0},
    {"distribution": "uniform", "low": 2.0, "high": 2.0},
    {"distribution": "gamma", "mean": 3.0, "shape": 0.4},
    {"distribution": "gamma", "mean": 3.0, "shape": 6.0},
    {"distribution": "lognormal", "mean": 3.0, "sd": 2.0},
    {"distribution": "poisson", "mean": 2.3},
    {"distribution": "poisson", "mean": 40.0},
    {"distribution": "geometric", "mean": 0.4},
    {"distribution": "geometric", "mean": 6.0},
    {"distribution": "negative-binomial", "mean": 3.0, "size": 0.7},
    {"distribution": "negative-binomial", "mean": 3.0, "size": 8.0},
    {"distribution": "negative-binomial", "mean": 2.0, "size": 1e9},
    {"distribution": "negative-binomial", "mean": 0.5, "size": 1e9},
    {"distribution": "empirical", "values": [0.0, 1.0, 1.0, 2.5, 7.0]},
    {"distribution": "constant", "value": 3.0},
    {"distribution": "constant", "value": 0.0},
]
LIMITS: list[dict[str, object]] = [
    {},
    {"maximum": 2.75},
    {"zero_probability": 0.3},
    {"maximum": 0.6, "zero_probability": 0.9},
    {"maximum": 5, "zero_probability": 1},
    {"maximum": 0},
]
every_law = pytest.mark.parametrize(
    "table", TABLES, ids=lambda t: "-".join(str(v) for v in t.values() if not isinstance(v, list))
)
every_limit = pytest.mark.parametrize(
    "limits", LIMITS, ids=lambda t: "-".join(f"{k}={v}" for k, v in t.items()) or "free"
)


def stream(demand: Demand, seed: int = 7) -> DemandStream:
    return demand.stream(SeedSequence(seed))


def test_every_law_is_tested_and_knows_its_name():
    assert {table["distribution"] for table in TABLES} == set(LAWS)
    assert all(law.distribution == name for name, law in LAWS.items())


# Six standard errors: for the 228 comparisons here, a false alarm has chance 1e-6 at most.
@every_law
@every_limit
def test_draws_agree_with_the_exact_mean_and_chance_of_zero(table, limits):
    demand = demand_from({**table, **limits})
    draws = stream(demand).draw(DRAWS)
    assert draws.dtype == np.float64
    assert draws.shape == (DRAWS,)
    assert draws.min() >= 0
    if demand.maximum is not None:
        assert draws.max() <= demand.maximum
    error = draws.std() / math.sqrt(DRAWS)
    assert abs(draws.mean() - demand.mean_demand()) <= 6 * error + 1e-12
    chance = demand.probability_zero()
    error = math.sqrt(chance * (1 - chance) / DRAWS)
    assert abs(np.mean(draws == 0) - chance) <= 6 * error + 1e-12


SIGMA = math.sqrt(math.log1p(4 / 9))
CONTINUOUS = {
    "exponential": ({"mean": 2.5}, stats.expon(scale=2.5)),
    "normal": ({"mean": 2.0, "sd": 1.5}, stats.norm(2.0, 1.5)),
    "uniform": ({"low": 0.5, "high": 4.0}, stats.uniform(0.5, 3.5)),
    "gamma": ({"mean": 3.0, "shape": 0.4}, stats.gamma(0.4, scale=7.5)),
    "lognormal": (
        {"mean": 3.0, "sd": 2.0},
        stats.lognorm(SIGMA, scale=3.0 * math.exp(-(SIGMA**2) / 2)),
    ),
}
COUNTS = {
    "poisson": ({"mean": 2.3}, stats.poisson(2.3)),
    "geometric": ({"mean": 6.0}, stats.geom(1 / 7, loc=-1)),
    "negative-binomial": ({"mean": 3.0, "size": 0.7}, stats.nbinom(0.7, 0.7 / 3.7)),
}


@pytest.mark.parametrize("maximum", [0.25, 1.0, 2.75, 11.0])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_limited_mean_is_the_area_under_the_survival_function(name, maximum):
    fields, law = CONTINUOUS[name]
    points = [0.5, 4.0] if name == "uniform" and maximum > 4 else None
    area = integrate.quad(law.sf, 0, maximum, points=points, epsabs=1e-11)[0]
    assert LAWS[name](**fields, maximum=maximum).mean_demand() == pytest.approx(area, rel=1e-9)


@pytest.mark.parametrize("maximum", [0.25, 1.0, 2.75, 11.0])
@pytest.mark.parametrize("name", COUNTS)
def test_limited_mean_of_counts_is_a_sum(name, maximum):
    fields, law = COUNTS[name]
    total = sum(law.pmf(x) * min(x, maximum) for x in range(12)) + maximum * law.sf(11)
    assert LAWS[name](**fields, maximum=maximum).mean_demand() == pytest.approx(total, rel=1e-12)
    assert LAWS[name](**fields).probability_zero() == pytest.approx(law.pmf(0), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("other", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("exponential", None),
        ("poisson", None),
        ("geometric", None),
        ("gamma", "shape"),
        ("lognormal", "sd"),
        ("negative-binomial", "size"),
    ],
)
def test_laws_work_at_the_ends_of_their_range(name, second, scale, other):
    fields = {"mean": scale} | ({second: other} if second else {})
    assert LAWS[name](**fields).mean_demand() == pytest.approx(scale, rel=1e-12)
    assert LAWS[name](**fields, maximum=1e32).mean_demand() == pytest.approx(scale, rel=1e-12)
    draws = stream(LAWS[name](**fields)).draw(1000)
    assert np.isfinite(draws).all()
    assert draws.min() >= 0


def test_lognormal_has_the_standard_deviation_of_demand():
    draws = stream(demand_from({"distribution": "lognormal", "mean": 3.0, "sd": 1.0})).draw(DRAWS)
    assert draws.std() == pytest.approx(1.0, abs=0.05)


def test_negative_binomial_has_its_variance():
    table = {"distribution": "negative-binomial", "mean": 3.0, "size": 2.0}
    assert stream(demand_from(table)).draw(DRAWS).var() == pytest.approx(3 + 9 / 2, rel=0.05)


@every_law
@every_limit
def test_drawing_in_parts_gives_the_same_bits(table, limits):
    demand = demand_from({**table, **limits})
    whole = stream(demand).draw(PERIODS)
    cuts = np.random.default_rng(11)
    for _ in range(5):
        parts, left, part = [], PERIODS, stream(demand)
        while left:
            parts.append(min(left, int(cuts.integers(0, 40))))
            left -= parts[-1]
        drawn = np.concatenate([part.draw(n) for n in parts])
        assert drawn.tobytes() == whole.tobytes()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=70), st.lists(st.integers(0, 9)))
def test_empirical_parts_give_the_same_bits_for_any_number_of_values(values, parts):
    demand = Empirical(values=values, zero_probability=0.2)
    part = stream(demand)
    drawn = np.concatenate([np.empty(0), *(part.draw(n) for n in parts)])
    assert drawn.tobytes() == stream(demand).draw(sum(parts)).tobytes()


@every_law
def test_state_survives_json(table):
    demand = demand_from({**table, "zero_probability": 0.2})
    first = stream(demand)
    first.draw(37)
    saved = json.loads(json.dumps(first.state_dict()))
    expected = first.draw(101)
    second = stream(demand, seed=8)
    second.load_state_dict(saved)
    assert second.draw(101).tobytes() == expected.tobytes()


@pytest.mark.parametrize("part", ["law", "zero"])
@pytest.mark.parametrize("value", [None, 3, {}, {"bit_generator": "MT19937"}, "missing"])
def test_a_wrong_state_is_refused_and_changes_nothing(part, value):
    demand = Exponential(mean=1, zero_probability=0.5)
    changed, kept = stream(demand), stream(demand)
    state = stream(demand, seed=9).state_dict()
    if value == "missing":
        del state[part]
    else:
        state[part] = value
    with pytest.raises(InputError, match="missing or damaged"):
        changed.load_state_dict(state)
    assert changed.draw(50).tobytes() == kept.draw(50).tobytes()


def test_the_seed_alone_decides_and_is_left_unchanged():
    demand = Exponential(mean=1, zero_probability=0.5)
    seed = SeedSequence(5, spawn_key=(1,))
    first = demand.stream(seed).draw(20)
    assert seed.n_children_spawned == 0
    np.random.seed(0)  # noqa: NPY002 -- global random state must not matter
    assert demand.stream(seed).draw(20).tobytes() == first.tobytes()
    assert demand.stream(SeedSequence(5, spawn_key=(2,))).draw(20).tobytes() != first.tobytes()
    assert demand.stream(SeedSequence(6, spawn_key=(1,))).draw(20).tobytes() != first.tobytes()


def test_zeros_and_maximum_leave_the_other_draws_alone():
    free = stream(Exponential(mean=1)).draw(500)
    thinned = stream(Exponential(mean=1, zero_probability=0.5)).draw(500)
    assert np.all((thinned == free) | (thinned == 0))
    assert np.array_equal(stream(Exponential(mean=1, maximum=2)).draw(500), np.minimum(free, 2))


def test_no_draws_and_less_than_none():
    assert stream(Exponential(mean=1)).draw(0).shape == (0,)
    with pytest.raises(InputError, match=r"^Cannot draw -1 demands: .*at least 0\.$"):
        stream(Exponential(mean=1)).draw(-1)


@every_law
@every_limit
def test_table_gives_the_law_back(table, limits):
    demand = demand_from({**table, **limits})
    assert demand_from(json.loads(json.dumps(demand.table()))) == demand
    assert set(table) <= set(demand.table())


def test_demand_is_abstract_and_frozen():
    with pytest.raises(TypeError, match="abstract"):
        Demand()
    with pytest.raises(ValueError, match="frozen"):
        Exponential(mean=1).mean = 2


WRONG_NUMBERS = [
    (str(table["distribution"]), key, value)
    for table in {str(table["distribution"]): table for table in TABLES}.values()
    for key in [*table, "maximum", "zero_probability"]
    for value in ["two", None, True, math.nan, math.inf, -3.5, -1e300]
    if key not in ("distribution", "values")
    and (key, value) != ("maximum", None)  # no maximum
    and (table["distribution"], key, value) != ("normal", "mean", -3.5)  # clipped at 0
]


@pytest.mark.parametrize(("name", "key", "value"), WRONG_NUMBERS)
def test_a_wrong_number_is_refused_in_a_sentence(name, key, value):
    table = next(table for table in TABLES if table["distribution"] == name)
    pattern = rf"^{key} .*{re.escape(repr(value))}.*\.$"
    with pytest.raises(InputError, match=pattern) as caught:
        demand_from({**table, key: value})
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize(
    "table",
    [
        {"distribution": "exponential", "mean": 0},
        {"distribution": "normal", "mean": 1, "sd": 0},
        {"distribution": "gamma", "mean": 1, "shape": 0},
        {"distribution": "lognormal", "mean": 1, "sd": 0},
        {"distribution": "poisson", "mean": 0},
        {"distribution": "geometric", "mean": 0},
        {"distribution": "negative-binomial", "mean": 1, "size": 0},
    ],
    ids=lambda table: table["distribution"],
)
def test_zero_is_refused_where_the_law_needs_more(table):
    key = list(table)[-1]
    with pytest.raises(InputError, match=rf"^{key} must be a finite number above 0, not 0\.$"):
        demand_from(table)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"mean": 1}, "A demand needs a 'distribution': one of 'exponential', "),
        ({"distribution": "expnential"}, "Unknown distribution 'expnential': did you mean 'exp"),
        ({"distribution": "zzz"}, "Unknown distribution 'zzz': use one of 'constant', "),
        ({"distribution": 3}, "distribution must be one of 'exponential', 'normal', "),
        ({"distribution": "poisson"}, "Poisson needs 'mean', which is missing."),
        (
            {"distribution": "exponential", "maen": 1},
            "Unknown key in Exponential 'maen': did you mean 'mean'?",
        ),
        (
            {"distribution": "gamma", "mean": 1, "shape": 1, "zero_probabilty": 1},
            "Unknown key in Gamma 'zero_probabilty': did you mean 'zero_probability'?",
        ),
        (
            {"distribution": "empirical", "file": "a.csv", "colum": "b"},
            "Unknown key in Empirical 'colum': did you mean 'column'?",
        ),
        (
            {"distribution": "uniform", "low": 3, "high": 1},
            "Uniform needs low <= high, not low=3.0, high=1.0.",
        ),
        (
            {"distribution": "exponential", "mean": 1, "zero_probability": 1.5},
            "zero_probability must lie between 0 and 1, not 1.5.",
        ),
        (
            {"distribution": "poisson", "mean": 1e12},
            "mean must be a number of at most 1e+09, not 1000000000000.0",
        ),
        (
            {"distribution": "empirical", "values": []},
            "values must be a list with at least one value, not []",
        ),
        ({"distribution": "empirical", "values": 3}, "values must be a list"),
        (
            {"distribution": "empirical", "values": [1, -2]},
            "values.1 must be a finite number of at",
        ),
        (
            {"distribution": "empirical", "values": ["x"]},
            "values.0 must be a finite number, not 'x'",
        ),
        (
            {"distribution": "empirical"},
            "Empirical needs 'values', or 'file' and 'column', not none of them.",
        ),
        (
            {"distribution": "empirical", "file": "a.csv"},
            "Empirical needs 'values', or 'file' and 'column', not 'file'.",
        ),
        (
            {"distribution": "empirical", "values": [1], "file": "a.csv"},
            "Empirical needs 'values', or 'file' and 'column', not 'values' and 'file'.",
        ),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(table, sentence):
    with pytest.raises(InputError, match="^" + re.escape(sentence)):
        demand_from(table)


def from_csv(path: Path, column: str = "demand") -> Demand:
    return demand_from(
        {"distribution": "empirical", "file": path.name, "column": column}, path.parent
    )


def test_a_csv_file_gives_its_values(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text('day,demand\n1,4\n2,0.5\n\n"3",1e1\n', encoding="utf-8-sig")
    demand = from_csv(path)
    assert demand == Empirical(values=[4, 0.5, 10])
    assert demand == Empirical(file=path, column="demand")
    assert demand.values == (4.0, 0.5, 10.0)
    assert demand.table() == {"distribution": "empirical", "values": [4.0, 0.5, 10.0]}
    table = {"distribution": "empirical", "file": str(path), "column": "day"}
    assert demand_from(table, Path("elsewhere")).mean_demand() == 2.0  # the path is absolute
    assert set(stream(demand).draw(200)) == {0.5, 4.0, 10.0}


@pytest.mark.parametrize("cell", ["1_000", "٥", "one", ""])
def test_a_cell_that_is_no_plain_number_is_refused(tmp_path, cell):
    path = tmp_path / "sales.csv"
    path.write_text(f"day,demand\n1, 3 \n2,{cell}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"must have a finite number of at least 0, not '{cell}'"):
        from_csv(path)


def test_one_cell_too_few_is_counted_in_words_that_fit(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("day,demand\n1\n")
    with pytest.raises(InputError, match="has 1 cell, but the header has 2"):
        from_csv(path)


def test_a_relative_file_without_a_directory_starts_here(tmp_path, monkeypatch):
    (tmp_path / "sales.csv").write_text("demand\n2\n")
    monkeypatch.chdir(tmp_path)
    table = {"distribution": "empirical", "file": "sales.csv", "column": "demand"}
    assert demand_from(table).mean_demand() == 2.0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "There is no file 'PATH': give a CSV file with a header."),
        (b"day,demnd\n1,2\n", "Unknown column of 'PATH' 'demand': did you mean 'demnd'?"),
        (b"", "The column 'demand' of 'PATH' is empty: give at least one number."),
        (b"demand\n", "The column 'demand' of 'PATH' is empty: give at least one number."),
        (b"\xff\xfe\x00\n", "Cannot read 'PATH' as CSV text: "),
        (
            b"demand\n1\nfew\n",
            "Row 3 of 'PATH' must have a finite number of at least 0, not 'few'.",
        ),
        (b"demand\n1\n-4\n", "Row 3 of 'PATH' must have a finite number of at least 0, not '-4'."),
        (b"demand\nnan\n", "Row 2 of 'PATH' must have a finite number of at least 0, not 'nan'."),
        (
            b"demand\n1e999\n",
            "Row 2 of 'PATH' must have a finite number of at least 0, not '1e999'.",
        ),
        (b"day,demand\n1\n", "Row 2 of 'PATH' has 1 cell, but the header has 2."),
    ],
)
def test_a_wrong_csv_file_is_refused_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "sales.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="^" + re.escape(sentence.replace("PATH", str(path)))):
        from_csv(path)


def test_a_directory_is_no_csv_file(tmp_path):
    with pytest.raises(InputError, match=r"^Cannot read .* as CSV text: "):
        from_csv(tmp_path)
