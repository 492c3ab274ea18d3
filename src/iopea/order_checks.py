"""Checks of what an information order is made from."""

from __future__ import annotations

from reprlib import repr as short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iopea.errors import InputError
from iopea.types import Array, Indices, Mask

ROWS_AT_ONCE = 512  # the transitivity check multiplies this many rows at a time


def checked_size(n: Any) -> int:
    """The number of policies."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"An order needs a whole number of policies of at least 1, not {n!r}.")
    return int(n)


def checked_keys(keys: ArrayLike) -> Array:
    """Keys as an array (n, m) of finite numbers."""
    try:
        values = np.array(keys, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"The keys {short(keys)} are not numbers, as many for each policy."
        ) from None
    if values.ndim not in (1, 2) or values.size == 0:
        raise InputError(
            f"The keys have shape {values.shape}: use (n,) or (n, m), with n and m above 0."
        )
    values = values.reshape(len(values), -1)
    finite = np.isfinite(values)
    if not finite.all():
        policy, component = np.argwhere(~finite)[0]
        raise InputError(f"The key of policy {policy} is {values[policy, component]}: not finite.")
    values += 0.0  # makes -0.0 the same key as 0.0
    return values


def checked_prefer(prefer: ArrayLike | None, among: Indices) -> Array:
    """What is preferred, aligned with the policies."""
    if prefer is None:
        return np.zeros(among.size)
    values = np.asarray(prefer, dtype=np.float64)
    if values.shape != among.shape:
        raise InputError(f"prefer has shape {values.shape}, but there are {among.size} policies.")
    return values


def checked_matrix(matrix: ArrayLike) -> Mask:
    """A matrix that is an order."""
    given = np.asarray(matrix)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or given.size == 0:
        raise InputError(f"A matrix of shape {given.shape}: use (n, n), with n above 0.")
    unclear = (given != 0) & (given != 1)
    if unclear.any():
        raise InputError(f"The matrix holds {given[unclear][0]}, neither true nor false.")
    informs: Mask = given.astype(bool)
    alone = np.flatnonzero(~informs.diagonal())
    if alone.size:
        raise InputError(f"Not an order: policy {alone[0]} does not inform itself.")
    # Counts of policies between two others, exact in single precision up to 2**24 policies.
    counts = informs.astype(np.float32)
    for start in range(0, len(informs), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        missing = np.argwhere((counts[rows] @ counts > 0) & ~informs[rows])
        if missing.size:
            i, k = int(missing[0, 0]) + start, int(missing[0, 1])
            j = int((informs[i] & informs[:, k]).argmax())
            raise InputError(
                f"Not an order: {i} informs {j} and {j} informs {k}, but {i} does not inform {k}."
            )
    return informs
