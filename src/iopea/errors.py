"""The errors of the library: three kinds, each with a message of one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class IopeaError(ValueError):
    """The base of all errors of the library."""


class InputError(IopeaError):
    """An invalid value; the message names it and says what is valid."""


class ModelMismatchError(IopeaError):
    """Data that contradict the model: observations that are impossible in this system."""


class ComputationError(IopeaError):
    """A computation that failed: no convergence, a killed worker, a full disk."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An error for an unknown name, which suggests the nearest known one.

    >>> str(unknown("rule", "pared", ["paired", "theorem"]))
    "Unknown rule 'pared': did you mean 'paired'?"
    >>> str(unknown("rule", "x", ["paired", "theorem"]))
    "Unknown rule 'x': use one of 'paired', 'theorem'."
    """
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return InputError(f"Unknown {kind} {name!r}: did you mean {near[0]!r}?")
    return InputError(f"Unknown {kind} {name!r}: use one of {', '.join(map(repr, known))}.")
