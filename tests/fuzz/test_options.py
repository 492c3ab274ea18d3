"""Odd options of every command: a sentence and status 2, at once, and nothing is written."""

import time

import pytest

from fuzzing import PATIENCE, check_sentence, limited

FILE = "examples/lost-sales.toml"
HUGE, ENDLESS = "1" + "0" * 20, "1" * 5000
#: Right in no place where a number is due.
NO_NUMBER = (
    "",
    "abc",
    "1e400x",
    "[1]",
    "{}",
    "nan",
    "0x",
    "1 2",
    "--",
    "١٢٣x",
    "1" * 400 + "x",
    "\x01",
)
NO_COUNT = (*NO_NUMBER, "-1", "1.5", "inf", "1e3", ENDLESS)
NO_SHARE = (*NO_NUMBER, "-0.1", "0", "1", "1.5", "inf", "-inf", ENDLESS)
NO_POSITIVE = (*NO_NUMBER, "-1", "0", "inf", "-inf")
NO_WORD = ("", "abc", "1", "[1]", "None", "x" * 10_000, "paired ", "\n")
NO_PAIR = (
    "",
    "abc",
    "=",
    "=1",
    "a=1",
    "rule",
    "rule=[1]",
    "rule={}",
    "rule=1",
    "rule=true",
    "rule=''",
    "horizon=1",
    "problem=1",
    "delta=abc",
    "delta=[0.1]",
    "delta=2",
    "delta=nan",
    "delta=1e400",
    "seed=1",
    "radius=-1",
    "radius=[1]",
    "threads=0",
    "threads=1.5",
    "threads=" + HUGE,
    "start=abc",
    "start=-1",
    "start=[1,2]",
    "start=1e400",
    "precision=float16",
    "precision=1",
    "memory=-1",
    "memory=abc",
    "first_epoch=0",
    "first_epoch=1.5",
    "play=abc",
    "play=[1]",
    "restart=abc",
    "state=abc",
    "state=[1]",
    "state=[-1,0,0]",
    "x" * 10_000 + "=1",
    "delta=" + "1" * 5000,
    "delta=" + "[" * 50_000,
)
NO_NUMBERS = (
    "",
    "abc",
    ",",
    "1,",
    "1,abc",
    "nan",
    "inf",
    "-1",
    "1,2,3,4,5",
    "[1]",
    "1e400",
    ENDLESS,
)

LEARN = {
    "--learner": NO_WORD,
    "--horizon": (*NO_COUNT, "0", HUGE),
    "--seeds": (*NO_COUNT, "0", HUGE),
    "--rule": NO_WORD,
    "--play": NO_WORD,
    "--restart": NO_WORD,
    "--start": NO_NUMBERS,
    "--state": (*NO_NUMBERS, "1", "1,2"),
    "--delta": NO_SHARE,
    "--radius": NO_POSITIVE,
    "--workers": (*NO_COUNT, HUGE),
    "--set": NO_PAIR,
    "--plot": ("", "picture", "picture.doc", "/dev/null/picture.png", "x" * 5000 + ".png"),
}
COMPARE = {
    "--learners": (*NO_WORD, ",", "iopea,abc", ",,,", "iopea optimal"),
    "--horizon": (*NO_COUNT, "0", HUGE),
    "--seeds": (*NO_COUNT, "0", HUGE),
    "--first-seed": (*NO_COUNT, "9" * 60),
    "--workers": (*NO_COUNT, HUGE),
    "--cluster": ("", "abc", "tcp://", "tcp://127.0.0.1:1", "x" * 1000),
    "--out": ("", "/dev/null/out", "x" * 5000, FILE),
}
REPRODUCE = {
    "--profile": NO_WORD,
    "--only": NO_WORD,
    "--rows": NO_WORD,
    "--without": NO_WORD,
    "--seeds": (*NO_COUNT, "0", HUGE),
    "--first-seed": (*NO_COUNT, "9" * 60),
    "--workers": (*NO_COUNT, HUGE),
    "--out": ("", "/dev/null/out", "x" * 5000, FILE),
    "--document": ("", "/dev/null/d.md", "x" * 5000),
}
VALIDATE = {
    "--workers": (*NO_COUNT, HUGE),
    "--out": ("", "/dev/null/out", "x" * 5000, FILE),
    "--document": ("", "/dev/null/d.md", "x" * 5000),
}
CHECK = {
    "--steps": (*NO_COUNT, "0", HUGE),
    "--replications": (*NO_COUNT, "0", HUGE),
    "--seed": NO_COUNT,
}
NO_FILES = ("", ".", "nowhere.toml", "/dev/null", "x" * 5000, "README.md", "\x01")
CASES = [
    *(("learn", FILE, option, odd) for option, values in LEARN.items() for odd in values),
    *(("compare", FILE, option, odd) for option, values in COMPARE.items() for odd in values),
    *(
        ("reproduce", "table1", option, odd)
        for option, values in REPRODUCE.items()
        for odd in values
    ),
    *(("validate", "alpha", option, odd) for option, values in VALIDATE.items() for odd in values),
    *(("check-order", FILE, option, odd) for option, values in CHECK.items() for odd in values),
    *((command, odd) for command in ("learn", "compare", "check-order") for odd in NO_FILES),
    *((command, odd) for command in ("reproduce", "validate") for odd in NO_WORD),
    *((odd,) for odd in ("abc", "lern", "--abc", "-x", "learn=1", "x" * 10_000)),
    *(
        (command, option)
        for command in (
            "learn",
            "compare",
            "reproduce",
            "validate",
            "check-order",
            "warmup",
            "bench",
            "learners",
        )
        for option in ("--abc", "-x", "--seedz", "--jsno", "--=")
    ),
]


def test_there_are_many_cases():
    assert len(CASES) > 400


@pytest.mark.parametrize("group", range(20))
def test_an_odd_option_ends_with_a_sentence_and_status_2(
    group, iopea, tmp_path, monkeypatch, request
):
    root = request.config.rootpath
    (tmp_path / "examples").symlink_to(root / "examples")
    (tmp_path / "README.md").symlink_to(root / "README.md")
    monkeypatch.chdir(tmp_path)
    wrong = []
    for case in CASES[group::20]:
        shown = [part[:40] for part in case]
        begin = time.perf_counter()
        try:
            with limited(PATIENCE):
                status, _, err = iopea(*case)
        except BaseException as error:
            wrong.append((shown, type(error).__name__, str(error)[:200]))
            continue
        if status != 2 or "Traceback" in err:
            wrong.append((shown, status, err[-300:]))
            continue
        try:
            check_sentence(err.strip(), shown)
        except AssertionError as error:
            wrong.append((shown, str(error)[:300]))
        assert time.perf_counter() - begin < PATIENCE, shown
    assert not wrong, "\n".join(map(str, wrong))
    assert {path.name for path in tmp_path.iterdir()} == {"examples", "README.md"}
