"""Sales tables are read as they are meant, or refused item by item in a sentence."""

import datetime
import math

import numpy as np
import pandas
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fuzzing import check_sentence
from iopea.errors import InputError
from iopea.tables import generate_sales, read_sales

DAYS = [datetime.date(2024, 3, 1) + datetime.timedelta(days=k) for k in range(6)]


def history(**columns):
    rows = len(next(iter(columns.values())))
    return {"unique_id": ["a"] * rows, "ds": DAYS[:rows], **columns}


def states(**columns):
    """What each period tells: s(een), c(ensored), or - for nothing."""
    sales = read_sales(history(**columns))
    return "".join(
        "-" if not told else "c" if out else "s"
        for told, out in sales.history.select("told", "censored").iter_rows()
    )


def test_what_a_period_tells_of_demand():
    assert states(sales=[3, 5, 0, 4, -1, None], stock=[5, 5, 0, 3, 5, 5]) == "sc----"
    assert states(sales=[3, 5, 0, 4], stockout=[0, 1, 1, None]) == "sc--"
    assert states(sales=[3, 5, 0], hours_out=[0, 4, 24]) == "sc-"
    assert states(sales=[3, 5, 2], stockout=[0, 0, 1], hours_out=[0, 4, 4]) == "s-c"
    assert states(sales=[3, 5, 3], stock=[5, 5, 9], hours_out=[0, 4, 4]) == "sc-"


def test_what_tells_nothing_is_counted():
    sales = read_sales(history(sales=[-1, -2, 4, None, 0, 3], stock=[5, 5, 3, 5, 0, 9]))
    assert sales.notes == {
        "a": "2 periods with negative sales (returns); 1 period with more sales than stock; "
        "1 period without sales or stock; 1 period without any stock"
    }
    assert not sales.refused


def test_gaps_are_no_zeros():
    some = {"unique_id": ["a", "a", "b"], "ds": [DAYS[0], DAYS[3], DAYS[1]], "sales": [1, 2, 3],
            "stockout": [0, 0, 0]}  # fmt: skip
    found = read_sales(some).history
    assert found.height == 3
    assert found["gap"].to_list() == [0, 2, 0]


@pytest.mark.parametrize(
    ("dates", "frequency", "gaps"),
    [
        (["2024-03-01", "2024-03-02", "2024-03-04"], "day", [0, 0, 1]),
        (["2024-03-04", "2024-03-11", "2024-04-01"], "week", [0, 0, 2]),
        (["2024-01-31", "2024-02-29", "2024-05-31"], "month", [0, 0, 2]),
        (["2023-12-01", "2024-01-01", "2024-03-01"], "month", [0, 0, 1]),
    ],
)
def test_days_weeks_and_months_are_seen_from_the_dates(dates, frequency, gaps):
    sales = read_sales(
        {"unique_id": ["a"] * 3, "ds": dates, "sales": [1, 2, 3], "stockout": [0] * 3}
    )
    assert sales.frequency == frequency
    assert sales.history["gap"].to_list() == gaps


def test_a_frequency_can_be_given():
    given = history(sales=[1, 2], stockout=[0, 0])
    assert read_sales(given, frequency="day").frequency == "day"
    off = read_sales(given, frequency="week")
    assert "the weeks of this table begin on a Friday" in off.refused["a"]
    with pytest.raises(InputError, match="frequency"):
        read_sales(given, frequency="hour")


BAD = {
    "text": ({"sales": [1, 2, "many"]}, "sales in row 3 is 'many': give a finite number"),
    "a decimal comma": ({"sales": ["1", "2,5", "3"]}, "sales in row 2 is '2,5'"),
    "infinite": ({"sales": [1, math.inf, 3]}, "sales in row 2 is 'inf'"),
    "beyond all": ({"sales": [1, 1e301, 3]}, "sales in row 2 is '1e+301'"),
    "a flag of 2": ({"stockout": [0, 2, 0]}, "stockout in row 2 is '2': give 0 or 1"),
    "hours below 0": (
        {"hours_out": [0, -1, 0]},
        "hours_out in row 2 is '-1': give a number of at least 0",
    ),
    "no date": ({"ds": ["2024-03-01", "1.3.2024", "2024-03-03"]}, "ds in row 2 is '1.3.2024'"),
    "a day that is none": ({"ds": ["2024-02-30", "2024-03-01", "2024-03-02"]}, "ds in row 1"),
    "two rows for a day": ({"ds": [DAYS[0], DAYS[0], DAYS[1]]}, "different rows for the day"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_item_is_refused_and_the_others_go_on(name):
    change, words = BAD[name]
    bad = {**history(sales=[1, 2, 3], stockout=[0, 0, 1]), **change}
    bad = {key: [*map(str, values)] for key, values in bad.items()}
    good = {"unique_id": ["b"] * 3, "ds": [*map(str, DAYS[:3])], "sales": ["1", "2", "3"],
            "stockout": ["0", "0", "1"], "hours_out": ["0", "0", "1"]}  # fmt: skip
    both = {key: values + good[key] for key, values in bad.items()}
    sales = read_sales(both)
    assert list(sales.refused) == ["a"]
    check_sentence(sales.refused["a"], name)
    assert words in sales.refused["a"]
    only = read_sales({key: good[key] for key in both})
    assert_frame_equal(sales.history.drop("period"), only.history.drop("period"))


WHOLE = {
    "no column of sales": (lambda: {"unique_id": ["a"], "ds": [DAYS[0]]}, "no column 'sales'"),
    "another spelling": (
        lambda: {"Unique ID": ["a"], "ds": [DAYS[0]], "sales": [1]},
        "rename 'Unique ID'",
    ),
    "nothing of stock": (lambda: history(sales=[1, 2]), "what sold out is unknown"),
    "no rows": (lambda: history(sales=[], stock=[]), "has no rows"),
    "a number": (lambda: 3, "give a file"),
    "another file": (lambda: "table.xlsx", r"ends in \.csv"),
    "no file": (lambda: "nowhere.csv", "There is no file"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_table_that_cannot_be_read_is_refused(name):
    make, words = WHOLE[name]
    with pytest.raises(InputError, match=words) as refusal:
        read_sales(make())
    check_sentence(str(refusal.value), name)


def test_columns_may_have_other_names():
    given = {"item": ["a"], "day": [DAYS[0]], "qty": [3], "stock": [5]}
    names = {"unique_id": "item", "ds": "day", "sales": "qty"}
    assert read_sales(given, columns=names).history["sales"].to_list() == [3.0]
    with pytest.raises(InputError, match="did you mean 'qty'"):
        read_sales(given, columns={**names, "sales": "qyt"})


ITEMS = {"unique_id": ["a"], "lead_time": [2], "holding_cost": [1.0], "lost_sales_cost": [9.0]}
BAD_ITEMS = {
    "lead_time": [(1.5, "a whole number from 0 to 1000"), (-1, "0 to 1000"), (None, "0 to 1000")],
    "holding_cost": [(-1, "at least 0"), ("x", "at least 0")],
    "order_multiple": [(-6, "at least 0")],
    "step": [(0, "above 0")],
    "review_period": [(0, "from 1 to 1000")],
    "level": [(-3, "at least 0"), (math.inf, "at least 0")],
}


def test_items_have_defaults():
    sales = read_sales(history(sales=[1, 2], stock=[5, 5]), ITEMS)
    row = sales.items.row(0, named=True)
    assert (row["lead_time"], row["fixed_order_cost"], row["review_period"]) == (2, 0.0, 1)
    assert row["level"] is row["group"] is row["order_multiple"] is None


@pytest.mark.parametrize("name", BAD_ITEMS)
def test_a_bad_cell_of_an_item_is_named(name):
    for value, words in BAD_ITEMS[name]:
        sales = read_sales(history(sales=[1, 2], stock=[5, 5]), {**ITEMS, name: [value]})
        assert sales.items.is_empty()
        assert sales.history.is_empty()
        assert words in sales.refused["a"], value
        assert f"{name} in row 1 of the items is" in sales.refused["a"]


def test_gaps_and_contradictions_are_noted_and_slips_in_names_remarked():
    some = {"unique_id": ["a"] * 3, "ds": [DAYS[0], DAYS[2], DAYS[5]], "sales": [1, 2, 3],
            "stock": [9, 9, 9], "stockout": [0, 1, 0], "holidays": [0, 0, 1]}  # fmt: skip
    sales = read_sales(some, {**ITEMS, "order_multipl": [6]})
    assert "1 period marked sold out although stock was left" in sales.notes["a"]
    assert "3 periods without a row" in sales.notes["a"]
    assert "rename it to 'holiday'" in sales.remarks[0]
    assert "rename it to 'order_multiple'" in sales.remarks[1]
    renamed = read_sales(
        history(sales=[1], stock=[5]), {**ITEMS, "pack": [6]}, columns={"order_multiple": "pack"}
    )
    assert renamed.items["order_multiple"].to_list() == [6]


def test_one_odd_date_neither_changes_the_frequency_nor_stops_the_others():
    weeks = [datetime.date(2024, 3, 4) + datetime.timedelta(weeks=k) for k in range(20)]
    early = [weeks[0] - datetime.timedelta(days=1), *weeks[1:]]
    rows = {"unique_id": ["a"] * 20 + ["b"] * 20 + ["c"] * 20, "ds": [*weeks, *early, *weeks],
            "sales": [1] * 60, "stock": [5] * 60}  # fmt: skip
    sales = read_sales(rows)
    assert sales.frequency == "week"
    assert set(sales.refused) == {"b"}
    assert "begin on a Monday" in sales.refused["b"]
    late = read_sales({**rows, "ds": [*weeks, *weeks[:-1], datetime.date(9999, 12, 27), *weeks]})
    assert "1900 to 2200" in late.refused["b"]


def test_items_and_history_must_meet():
    more = {name: values * 2 for name, values in ITEMS.items()} | {"unique_id": ["b", "c"]}
    sales = read_sales(history(sales=[1], stock=[5]), more)
    assert list(sales.refused) == ["b", "c"]
    assert "no row in the history" in sales.refused["b"]
    assert sales.remarks == (
        "1 item of the history not in the table of items: left out, such as 'a'.",
    )
    twice = {name: values * 2 for name, values in ITEMS.items()}
    assert "several rows" in read_sales(history(sales=[1], stock=[5]), twice).refused["a"]


def test_names_are_text():
    given = {"unique_id": [17.0, 17.5], "ds": DAYS[:2], "sales": [1, 2], "stock": [5, 5]}
    assert read_sales(given).history["unique_id"].to_list() == ["17", "17.5"]


MADE = generate_sales(items=6, periods=40, seed=3)


def test_every_format_and_order_gives_the_same(tmp_path):
    wanted = read_sales(MADE.history, MADE.items)
    MADE.history.write_csv(tmp_path / "h.csv")
    MADE.items.write_csv(tmp_path / "i.csv")
    MADE.history.write_parquet(tmp_path / "h.parquet")
    MADE.history.write_ipc(tmp_path / "h.arrow")
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "h.csv").read_bytes())
    shuffled = MADE.history.sample(fraction=1, shuffle=True, seed=1)
    twice = pl.concat([MADE.history, MADE.history.head(30)])
    for given in (
        tmp_path / "h.csv",
        str(tmp_path / "h.parquet"),
        tmp_path / "h.arrow",
        tmp_path / "bom.csv",
        shuffled,
        twice,
        MADE.history.lazy(),
        MADE.history.to_dict(as_series=False),
        Arrow(MADE.history),
        pandas_of(MADE.history),
        pandas_of(MADE.history).convert_dtypes(),
    ):
        for items in (MADE.items, tmp_path / "i.csv"):
            found = read_sales(given, items)
            assert_frame_equal(found.history, wanted.history)
            assert_frame_equal(found.items, wanted.items)
            assert found.notes == wanted.notes


def pandas_of(frame):
    return pandas.DataFrame(frame.to_dict(as_series=False))


class Arrow:
    """A table that offers the Arrow interface alone."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, schema=None):
        return self._frame.__arrow_c_stream__(schema)


def damaged(frame, rng):
    """A history with some cells of some items damaged, and these items."""
    rows = frame.with_columns(pl.all().cast(pl.String)).to_dicts()
    items = sorted({row["unique_id"] for row in rows})
    victims = set(rng.choice(items, rng.integers(1, 4), replace=False).tolist())
    own = [k for k, row in enumerate(rows) if row["unique_id"] in victims]
    for k in rng.choice(own, rng.integers(1, 6), replace=False):
        row = rows[k]
        match rng.integers(6):
            case 0:
                row[rng.choice(["sales", "stock"])] = str(
                    rng.choice(["", "nan", "-3", "1e400", "abc", "12,5", "0x1F", "1" * 400, "NULL"])
                )
            case 1:
                row["ds"] = str(rng.choice(["", "2024-13-01", "01/02/2024", "today", "20240301"]))
            case 2:
                rows.append({**row, "sales": "77777"})
            case 3:
                rows.append(dict(row))
            case 4:
                row["stock"] = "-5"
            case 5:
                row["sales"], row["stock"] = row["stock"], row["sales"]
    rng.shuffle(rows)
    return pl.DataFrame(rows), victims


def test_damaged_tables_are_read_rightly_or_refused_item_by_item(cases):
    wanted = {item[0]: rows.drop("period") for item, rows in
              read_sales(MADE.history).history.group_by("unique_id")}  # fmt: skip
    for seed in range(max(100, cases)):
        frame, victims = damaged(MADE.history, np.random.default_rng(seed))
        sales = read_sales(frame)
        assert set(sales.refused) <= victims
        for sentence in sales.refused.values():
            check_sentence(sentence, seed)
        found = {item[0]: rows.drop("period") for item, rows in
                 sales.history.group_by("unique_id")}  # fmt: skip
        assert set(found) | set(sales.refused) == set(wanted)
        for item, rows in found.items():
            if item not in victims:
                assert_frame_equal(rows, wanted[item])
                continue
            given = frame.filter(pl.col("unique_id") == item).select(
                pl.col("ds").str.to_date(strict=False),
                pl.col("sales", "stock").cast(pl.Float64, strict=False),
            )
            told = rows.filter("told")
            assert told.join(given, on=["ds", "sales", "stock"], how="anti").is_empty()
            assert (told["sales"] >= 0).all()
            assert (told["sales"] <= told["stock"]).all()


CUT = ["", "\0", "unique_id", "unique_id,ds,sales,stock\n", "unique_id,ds,sales,stock\na,b\n",
       "unique_id,ds,sales,stock\na,2024-01-01,1,2,3,4\n", 'unique_id,ds,sales,stock\n"a,1,2,3\n',
       "a" * 100_000, "unique_id,ds,sales,stock\n" + "\n" * 50, "\xff\xfe"]  # fmt: skip


@pytest.mark.parametrize("text", CUT, ids=range(len(CUT)))
def test_files_that_are_no_tables_are_refused(text, tmp_path):
    for suffix in (".csv", ".parquet", ".arrow", ".feather"):
        path = tmp_path / f"table{suffix}"
        path.write_bytes(text.encode("latin-1"))
        try:
            sales = read_sales(path)
        except InputError as error:
            check_sentence(str(error).replace(str(path), "FILE"), text[:40])
            continue
        assert sales.history.is_empty(), text[:40]
        assert sales.refused or sales.remarks


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"unique_id;ds;sales;stock\na;2024-01-01;1,5;2\n", "semicolons"),
        (b"unique_id\tds\tsales\tstock\na\t2024-01-01\t1\t2\n", "tabs"),
        ("unique_id,ds,sales,stock\na,2024-01-01,1,2\n".encode("utf-16"), "UTF-8"),
    ],
)
def test_csv_of_another_kind_is_named(content, words, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_sales(path)


def days_of_pandas(**column):
    return pandas.DataFrame({"unique_id": ["a"] * 6, "sales": 1, "stock": 3, **column})


@pytest.mark.parametrize(
    "when",
    [
        pandas.Series(DAYS).astype("datetime64[s]"),
        pandas.Series(pandas.to_datetime(DAYS)).dt.tz_localize("Europe/Berlin"),
        pandas.Series([pandas.Timestamp(day, tz="Europe/Berlin") for day in DAYS], dtype=object),
    ],
    ids=["seconds", "zone", "objects"],
)
def test_days_of_pandas_are_those_of_its_clock(when):
    assert read_sales(days_of_pandas(ds=when)).history["ds"].to_list() == DAYS


def test_days_of_polars_are_those_of_its_clock():
    frame = pl.DataFrame({"unique_id": "a", "ds": DAYS, "sales": 1, "stock": 3})
    zone = pl.col("ds").cast(pl.Datetime).dt.replace_time_zone("Europe/Berlin")
    assert read_sales(frame.with_columns(zone)).history["ds"].to_list() == DAYS
    later = pl.col("ds").cast(pl.Datetime) + pl.duration(hours=8)
    assert "give a date" in read_sales(frame.with_columns(later)).refused["a"]


def test_missing_cells_of_nullable_columns_are_missing():
    out = pandas.array([True, None, False, None, False, False], dtype="boolean")
    cells = pandas.Series([1, pandas.NA, 2, None, 3, float("nan")], dtype=object)
    frame = days_of_pandas(ds=DAYS, stockout=out, sales=cells).drop(columns="stock")
    rows = read_sales(frame).history
    assert rows["told"].to_list() == [True, False, True, False, True, False]
    ids = pl.DataFrame(
        {"unique_id": [1.0] * 5 + [float("nan")], "ds": DAYS, "sales": 1, "stock": 2}
    )
    assert read_sales(ids).history["unique_id"].unique().to_list() == ["1"]


def test_only_rows_of_the_same_day_count_once():
    frame = pl.DataFrame({"unique_id": "a", "ds": DAYS, "sales": 1, "stock": 3})
    assert "different rows for the month" in read_sales(frame, frequency="month").refused["a"]


def test_names_of_files_are_no_patterns(tmp_path):
    frame = pl.DataFrame({"unique_id": "a", "ds": DAYS, "sales": 1, "stock": 3})
    for suffix in ("csv", "parquet", "arrow"):
        odd = tmp_path / f"[x]*.{suffix}"
        frame.write_ipc(odd) if suffix == "arrow" else getattr(frame, f"write_{suffix}")(odd)
        assert read_sales(odd).history.height == 6
        with pytest.raises(InputError, match="no file"):
            read_sales(tmp_path / f"*.{suffix}")
        (tmp_path / f"folder.{suffix}").mkdir()
        with pytest.raises(InputError, match="folder"):
            read_sales(tmp_path / f"folder.{suffix}")


def test_two_columns_of_one_name_are_refused_and_names_can_be_exchanged(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("unique_id,ds,sales,stock,stock\na,2024-01-01,1,2,99\n")
    with pytest.raises(InputError, match="two columns 'stock'"):
        read_sales(path)
    frame = pl.DataFrame({"unique_id": "a", "ds": DAYS, "sales": 3, "stock": 1})
    rows = read_sales(frame, columns={"sales": "stock", "stock": "sales"}).history
    assert rows["sales"].to_list() == [1] * 6
    with pytest.raises(InputError, match="give text or numbers"):
        read_sales(frame.with_columns(unique_id=pl.Series([object()] * 6, dtype=pl.Object)))
    with pytest.raises(InputError, match="Cannot read the history"):
        read_sales(frame.lazy().select("none"))
