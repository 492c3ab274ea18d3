"""Parsers of the command line's options."""

from __future__ import annotations

import typer


def whole_number(text: str) -> int:
    """A whole number, or a refusal in plain words."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


def number(text: str) -> float:
    """A number, or a refusal in plain words."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None
