"""Odd values, what is right in which place, and what must happen in each case of the fuzz tests.

A case is a call with one odd value. If the value is right there, the call must go through;
otherwise it must be refused in a sentence of the library, at once.
"""

import datetime
import math
import signal
import time
import warnings
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

import numpy as np

from iopea.errors import IopeaError
from iopea.model import LARGEST, LEAST

#: Seconds after which a case hangs.
PATIENCE = 5
#: Fewest characters of a sentence, and words of other libraries that none may have.
SENTENCE, FOREIGN = 25, ("Input should", "validation error", "ufunc", "object at 0x", "NoneType")

ODD = {
    "nan": math.nan,
    "infinite": math.inf,
    "below everything": -math.inf,
    "minus one": -1,
    "minus a half": -0.5,
    "zero": 0,
    "one": 1,
    "one and a half": 1.5,
    "beyond double range": 10**400,
    "of 5,000 digits": 10**5000,
    "nearly infinite": 1e308,
    "nearly nothing": 1e-320,
    "beyond 64 bits": 2**70,
    "a word": "abc",
    "digits": "5",
    "bytes": b"5",
    "true": True,
    "none": None,
    "complex": 1j,
    "a date": datetime.date(2020, 1, 1),
    "a NumPy date": np.datetime64("2020-01-01"),
    "a span of time": np.timedelta64(5, "D"),
    "no list": [],
    "no table": {},
    "ragged": [[1], [2, 3]],
    "masked": np.ma.masked,
    "partly masked": np.ma.masked_array([1.0, 2.0], [True, False]),
    "an object": object(),
    "a class": int,
    "a function": lambda: 1,
    "a decimal": Decimal(1),
    "a list of nan": np.array([math.nan]),
    "a NumPy nan": np.float64("nan"),
    "words": np.array(["a"]),
    "a set": {1},
    "a range": range(3),
    "a pair": (1, 2),
    "a square": np.ones((2, 2)),
    "a fraction": Fraction(3, 2),
    "a NumPy integer": np.int64(3),
    "single precision": np.float32(2.5),
}


def real(low=-LARGEST, high=LARGEST):
    """Numbers in a range."""

    def right(value):
        if not isinstance(value, Real) or isinstance(value, bool | np.timedelta64):
            return False
        value = float(value) if isinstance(value, np.floating) else value
        return bool(low <= value <= high)

    return right


def whole(low=0, high=math.inf):
    """Integers in a range."""

    def right(value):
        if not isinstance(value, Integral) or isinstance(value, bool | np.timedelta64):
            return False
        return low <= value <= high

    return right


POSITIVE, NONNEGATIVE, ANY = real(LEAST), real(0), real()
SHARE, PROBABILITY = real(LEAST, math.nextafter(1, 0)), real(0, 1)
SEED, HORIZON = whole(0, 2**128 - 1), whole(1, 10**18)


def optional(right):
    """What is right, or None."""
    return lambda value: value is None or right(value)


def among(*values):
    """These values alone, and equal ones of the same kind."""
    return lambda value: any(type(value) is type(each) and value == each for each in values)


def on_grid(low, high, step):
    """Integers and other numbers on a grid."""
    inside = real(low, high)
    return lambda value: inside(value) and abs(value / step - round(value / step)) < 1e-9


def nothing(value):
    """No odd value is right here."""
    return False


class HangError(BaseException):
    """Nothing may catch it, as an ``except OSError`` would a time-out."""


@contextmanager
def limited(seconds=PATIENCE):
    """A case that takes longer hangs."""

    def end(*_):
        raise HangError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check_sentence(text, where):
    assert len(text) >= SENTENCE, (where, text)
    assert len(text) < 700, (where, text[:200])
    assert text.count("\n") == 0, (where, text)
    assert not any(words in text for words in FOREIGN), (where, text)


def outcome(call, value):
    """The sentence with which a call is refused; None if it goes through."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("error")
            call(value)
    except IopeaError as error:
        return str(error)
    return None


def check_case(call, right, value, where):
    """One case: the call goes through if the value is right, and is refused otherwise."""
    begin = time.perf_counter()
    try:
        refused = outcome(call, value)
    except (Exception, HangError) as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
    assert time.perf_counter() - begin < PATIENCE, where
    if refused is None:
        assert right(value), f"{where} is taken"
    else:
        assert not right(value), f"{where} is refused: {refused}"
        check_sentence(refused, where)
