"""Problem files with odd values, and damaged ones: refused in a sentence, or read as written."""

import datetime
import math
import tomllib
import zlib
from pathlib import Path

import numpy as np
import pytest

from fuzzing import check_sentence, limited
from iopea.demand import Empirical
from iopea.errors import InputError, IopeaError, shown
from iopea.problem_files import parse_order, parse_problem, problem_from, read_problem, tables_of

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(
    path
    for path in EXAMPLES.rglob("*.toml")
    if "large" not in path.stem and "uniform" not in path.stem
)
CONTENTS = {
    path.stem: tomllib.loads(path.read_text()) for path in FILES if path.parent.name != "orders"
}
ORDERS = {path.stem: path.read_text() for path in FILES if path.parent.name == "orders"}

DAY = datetime.date(2020, 1, 1)
#: What is right in no place with a number, a word, a truth value, a table or a list.
NO_NUMBER = (math.nan, math.inf, -math.inf, 10**400, 10**5000, "abc", "5", True, DAY, [], {}, [1.0])
NO_WORD = ("abc", "", "x" * 10_000, 3, -1, math.nan, True, DAY, [], {}, [[1.0]], ["abc"], "\0")
NO_SWITCH = (3, "true", math.nan, DAY, [], {})
NO_TABLE = (3, "abc", math.nan, True, DAY, [], {}, [{}], {"low": {"low": 0}}, {"abc": 1})
NO_LIST = (3, "abc", math.nan, DAY, {}, ["abc"], [math.nan], [[]], [[1.0], [2.0, 3.0]], [{}])
#: Keys that may be negative, and those that are text of any kind.
MAY_BE_NEGATIVE = {("demand", "mean")}


def leaves(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))


def altered(content, path, value):
    if not path:
        return value
    return {**content, path[0]: altered(content[path[0]], path[1:], value)}


def odd_values(path, value):
    if isinstance(value, bool):
        return NO_SWITCH
    if isinstance(value, int | float):
        normal = path in MAY_BE_NEGATIVE
        return NO_NUMBER if normal else (*NO_NUMBER, -1, -0.5)
    if isinstance(value, str):
        return NO_WORD
    return NO_TABLE if isinstance(value, dict) else NO_LIST


def refused(read, content):
    """The sentence of a refusal; None where the content is read."""
    with limited():
        try:
            read(content)
        except IopeaError as error:
            return str(error)
    return None


def as_written(content):
    """Refused in a sentence, or described as it was written."""
    with limited():
        try:
            problem, truth = problem_from(content)
        except IopeaError as error:
            check_sentence(str(error), content)
            return False
    described = tables_of(problem, truth.table())
    for name, table in content.items():
        if name == "order":
            continue
        for key, value in table.items():
            home = described.get(name, {})
            if key not in home:  # policies of the default family, and a truth in [problem]
                home = {**described["problem"], **described.get("policies", {})}
            if key == "kind" and name == "policies":
                continue
            if key == "zero_probability" and same(value, 0) and key not in home:
                continue  # none, as where it is not written
            assert same(home.get(key), value), (name, key, value, home.get(key))
    return True


def same(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        return all(same(one.get(key), value) for key, value in other.items())
    if isinstance(one, list | tuple) or isinstance(other, list | tuple):
        return np.array_equal(np.ravel(np.array(one, float)), np.ravel(np.array(other, float)))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def test_there_are_many_cases():
    number = sum(
        len(odd_values(path, value))
        for content in CONTENTS.values()
        for path, value in leaves(content)
        if path
    )
    assert number > 1500


@pytest.mark.parametrize("name", CONTENTS)
def test_an_odd_value_in_any_place_is_refused(name):
    content = CONTENTS[name]
    assert as_written(content)
    for path, value in leaves(content):
        if not path:
            continue
        for odd in odd_values(path, value):
            sentence = refused(problem_from, altered(content, path, odd))
            assert sentence is not None, (path, shown(odd))
            check_sentence(sentence, (path, shown(odd)))
        for more in ("abc", "Kind", "x" * 1000, ""):
            if isinstance(value, dict):
                sentence = refused(problem_from, altered(content, path, {**value, more: 1}))
                assert sentence is not None, (path, more)
                check_sentence(sentence, (path, more))
    for table in ("abc", "demands", "x" * 1000):
        check_sentence(refused(problem_from, {**content, table: {}}), table)
    for table in content:
        less = {key: part for key, part in content.items() if key != table}
        assert refused(problem_from, less) or table == "policies"


def mutations(text, rng, number):
    """Damaged texts: cut off, letters changed, pieces left out, doubled or moved."""
    for _ in range(number):
        letters = list(text)
        match int(rng.integers(6)):
            case 0:
                letters = letters[: rng.integers(len(letters))]
            case 1:
                for _ in range(rng.integers(1, 4)):
                    letters[rng.integers(len(letters))] = chr(int(rng.integers(1, 300)))
            case 2:
                first = int(rng.integers(len(letters)))
                del letters[first : first + int(rng.integers(1, 30))]
            case 3:
                lines = text.splitlines(keepends=True)
                lines.insert(int(rng.integers(len(lines))), lines[int(rng.integers(len(lines)))])
                letters = lines
            case 4:
                lines = text.splitlines(keepends=True)
                letters = [lines[i] for i in rng.permutation(len(lines))]
            case 5:
                first, second = rng.integers(len(letters), size=2)
                letters[first], letters[second] = letters[second], letters[first]
        yield "".join(letters)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_damaged_file_is_refused_or_read_as_written(path, cases):
    text = path.read_text()
    rng = np.random.default_rng(zlib.crc32(path.stem.encode()))
    for damaged in mutations(text, rng, cases // 20):
        try:
            content = tomllib.loads(damaged)
        except (tomllib.TOMLDecodeError, RecursionError):
            for parse in (parse_problem, parse_order):
                sentence = refused(parse, damaged)
                assert sentence is not None, damaged
                assert len(sentence) < 1000, damaged
            continue
        as_written(content)
        refused(parse_order, damaged)


ODD_TEXTS = {
    "nothing": "",
    "a null": "\0",
    "a byte-order mark": "\ufeff[problem]\nkind = 'lost-sales'",
    "deep": "a = " + "[" * 100_000 + "]" * 100_000,
    "deep tables": "a = " + "{a = " * 20_000 + "1" + "}" * 20_000,
    "dotted": ".".join(["a"] * 100_000) + " = 1",
    "dotted table": "[" + ".".join(["a"] * 100_000) + "]",
    "a long number": "a = " + "1" * 5000,
    "a very long number": "a = " + "1" * 1_000_000,
    "many keys": "[problem]\n" + "\n".join(f"k{i} = 1" for i in range(20_000)),
    "a long key": "[problem]\n" + "k" * 1_000_000 + " = 1",
    "a long line": "# " + "x" * 5_000_000,
}


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_an_odd_text_is_refused_at_once(name, tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text(ODD_TEXTS[name], encoding="utf-8")
    sentence = refused(read_problem, path)
    assert sentence is not None
    assert str(path) in sentence
    check_sentence(sentence.replace(str(path), ""), name)


@pytest.mark.parametrize(
    "odd", [b"\xff\xfe[\x00p\x00", b"\x80\x81", bytes(range(256)), b"\xed\xa0\x80"]
)
def test_bytes_that_are_no_text_are_refused(odd, tmp_path):
    path = tmp_path / "problem.toml"
    path.write_bytes(odd)
    check_sentence(refused(read_problem, path), odd)


def test_names_that_are_no_files_are_refused(tmp_path):
    for name in ("x" * 5000, "a\0b", "", ".", "/", "x/" * 3000, tmp_path, "\ud800"):
        check_sentence(refused(read_problem, name), name)


RAGGED = {
    "a longer row": ("sold\n1\n2,3\n", "2 cells"),
    "a shorter row": ("day,sold\n1,2\n3\n", "1 cell,"),
    "no cells": ("sold\n\n\n", "is empty"),
    "twice": ("sold,sold\n1,2\n", "2 columns"),
    "text": ("sold\nabc\n", "'abc'"),
    "negative": ("sold\n-1\n", "'-1'"),
    "infinite": ("sold\ninf\n", "'inf'"),
    "another column": ("sales\n1\n", "did you mean|use one of"),
    "a huge cell": ("sold\n" + "9" * 200_000 + "\n", "Cannot read|finite"),
    "a null": ("sold\n\0\n", "finite number|Cannot read"),
}


@pytest.mark.parametrize("name", RAGGED)
def test_a_ragged_table_of_demand_is_refused(name, tmp_path):
    text, words = RAGGED[name]
    path = tmp_path / "sold.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        Empirical(file=path, column="sold")


def test_a_table_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "sold.csv"
    path.write_text("sold,day\n3,1\n5,2\n", encoding="utf-8-sig")
    assert Empirical(file=path, column="sold").values == (3.0, 5.0)
