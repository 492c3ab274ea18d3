"""Seeds derived from the identity of a run, never from the worker or the time."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_for(*key: str | int) -> np.random.SeedSequence:
    """A seed derived from names and numbers; the same key gives the same seed on any machine.

    >>> seed_for("demand", 3).entropy == seed_for("demand", 3).entropy
    True
    >>> seed_for("demand", 3).entropy == seed_for("demand", 4).entropy
    False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.SeedSequence(int.from_bytes(digest, "little"))
