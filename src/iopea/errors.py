"""The errors of the library: three kinds, each with a message of one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from reprlib import Repr

#: Most characters of a value in a message, and most digits of a whole number.
_MOST_SHOWN, _MOST_DIGITS = 80, 40
#: Most characters of a path in a message.
_LONGEST_PATH = 300
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _MOST_SHOWN


class IopeaError(ValueError):
    """The base of all errors of the library."""


class InputError(IopeaError):
    """An invalid value; the message names it and says what is valid."""


class ModelMismatchError(IopeaError):
    """Data that contradict the model: observations that are impossible in this system."""


class ComputationError(IopeaError):
    """A computation that failed: no convergence, a killed worker, a full disk."""


def shown(value: object) -> str:
    """A value as it stands in a message: its repr, shortened in the middle if it is long.

    >>> shown(3), shown("x"), shown(10**5000)
    ('3', "'x'", 'a whole number of about 5001 digits')
    """
    if isinstance(value, int) and abs(value) >= 10**_MOST_DIGITS:
        # Python refuses to write out numbers of very many digits.
        return f"a whole number of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # the repr of a user's object may raise anything
        text = " at 0x"
    if " at 0x" in text:  # an address says nothing
        return f"a {getattr(value, '__name__', type(value).__name__)}"
    return text


def shown_path(path: object) -> str:
    """A path as it stands in a message: shortened if it is long, and on one line.

    >>> shown_path("shop.toml"), len(shown_path("x" * 5000))
    ('shop.toml', 303)
    """
    text = str(path)
    if len(text) > _LONGEST_PATH:
        text = f"{text[: _LONGEST_PATH // 2]}...{text[-_LONGEST_PATH // 2 :]}"
    return text if text.isprintable() else repr(text)[1:-1]


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for an unknown name, which suggests the nearest known one.

    >>> str(unknown("rule", "pared", ["paired", "theorem"]))
    "Unknown rule 'pared': did you mean 'paired'?"
    >>> str(unknown("rule", "x", ["paired", "theorem"]))
    "Unknown rule 'x': use one of 'paired', 'theorem'."
    """
    known = sorted(set(known))
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return InputError(f"Unknown {kind} {shown(name)}: did you mean {near[0]!r}?")
    return InputError(f"Unknown {kind} {shown(name)}: use one of {', '.join(map(repr, known))}.")
