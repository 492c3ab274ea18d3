r"""Information orders: preorders on the policies 0, ..., n - 1.

"i informs j" is the paper's :math:`\pi_j \preceq \pi_i`: the cost of j can be estimated from data
collected under i. Every policy informs itself, and if i informs j and j informs k, then i informs
k. Policies that inform each other form one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from iopea.errors import InputError, shown
from iopea.model import is_whole, real_numbers
from iopea.types import Array, Indices, Mask

Policy = TypeVar("Policy")

MOST_POLICIES = 10**9
MOST_CLASSES = 4_000  # the width of keys with three or more components needs all pairs

ROWS_AT_ONCE = 512  # rows that the transitivity check multiplies at a time


class InformationOrder(ABC):
    """An immutable preorder on policies 0, ..., n - 1, made by one of its class methods.

    Examples
    --------
    A stock level informs every lower one, since it sells at least as much:

    >>> order = InformationOrder.from_key([3.0, 1.0, 2.0])
    >>> order.informs(0, 2), order.informs(1, 2)
    (True, False)
    >>> order.maximal(), order.maximal(among=[1, 2]), order.width()
    (array([0]), array([2]), 1)
    """

    @classmethod
    def from_key(cls, keys: ArrayLike) -> InformationOrder:
        """The order in which i informs j when ``keys[j] <= keys[i]`` in every component.

        Parameters
        ----------
        keys : array of shape (n,) or (n, m)
            Finite numbers, one or m for each policy. No n by n matrix is ever stored.

        Examples
        --------
        >>> order = InformationOrder.from_key([[0, 2], [1, 1], [2, 0], [1, 0]])
        >>> order.maximal(), order.cover(), order.width()
        (array([0, 1, 2]), array([0, 1, 2, 1]), 3)
        """
        return _KeyOrder(_checked_keys(keys))

    @classmethod
    def from_relation(
        cls, policies: Iterable[Policy], informs: Callable[[Policy, Policy], bool]
    ) -> InformationOrder:
        """The order in which a informs b when ``informs(a, b)``, called for every ordered pair.

        Examples
        --------
        >>> sets = [{1}, {2}, {1, 2}]
        >>> InformationOrder.from_relation(sets, lambda a, b: b <= a).maximal()
        array([2])
        """
        known = list(policies)
        answers = [[bool(informs(a, b)) for b in known] for a in known]
        return cls.from_matrix(np.array(answers, dtype=bool).reshape(len(known), len(known)))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> InformationOrder:
        """The order in which i informs j when ``matrix[i, j]`` is true.

        Examples
        --------
        >>> InformationOrder.from_matrix([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
        Traceback (most recent call last):
        iopea.errors.InputError: Not an order: 0 informs 1 and 1 informs 2, but 0 does not inform 2.
        """
        return _MatrixOrder(_checked_matrix(matrix))

    @classmethod
    def trivial(cls, n: int) -> InformationOrder:
        """The order in which each of n policies informs only itself.

        >>> InformationOrder.trivial(3).width()
        3
        """
        return _TrivialOrder(_checked_size(n))

    @classmethod
    def full_feedback(cls, n: int) -> InformationOrder:
        """The order in which each of n policies informs all others.

        >>> InformationOrder.full_feedback(3).maximal(prefer=[2.0, 1.0, 4.0])
        array([1])
        """
        return _KeyOrder(np.zeros((_checked_size(n), 1)))

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<InformationOrder on {len(self)} policies>"

    def informs(self, i: int, j: int) -> bool:
        """Whether data collected under policy i gives an estimate of the cost of policy j."""
        return bool(self._row(self._checked_among([i])[0], self._checked_among([j]))[0])

    def informed_by(self, i: int) -> Mask:
        """Which policies i informs, a bool array (n,).

        >>> InformationOrder.from_key([3.0, 1.0, 2.0]).informed_by(2)
        array([False,  True,  True])
        """
        return self._row(self._checked_among([i])[0], np.arange(len(self)))

    def informing(self, i: int) -> Mask:
        """Which policies inform i, a bool array (n,).

        >>> InformationOrder.from_key([3.0, 1.0, 2.0]).informing(2)
        array([ True, False,  True])
        """
        return self._column(self._checked_among([i])[0])

    def below(self, i: int) -> Mask:
        """Which policies i informs without being informed by them."""
        index = self._checked_index(i)
        return self._row(index, np.arange(len(self))) & ~self._column(index)

    def above(self, i: int) -> Mask:
        """Which policies inform i without being informed by it."""
        index = self._checked_index(i)
        return self._column(index) & ~self._row(index, np.arange(len(self)))

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether no policy is strictly below another, as far as known."""

    def _checked_index(self, i: int) -> np.intp:
        return np.intp(i) if 0 <= i < self._size else self._checked_among([i])[0]

    def maximal(self, among: ArrayLike | None = None, prefer: ArrayLike | None = None) -> Indices:
        """One policy of each maximal class: together they inform every policy of ``among``.

        Parameters
        ----------
        among : array of indices, optional
            The policies to consider, without repetition; all by default.
        prefer : array aligned with ``among``, optional
            A value for each policy, for example its estimated cost. The policy with the lowest
            value represents its class; NaN is the worst value. On ties, and by default, the
            lowest index represents it.

        Returns
        -------
        array of indices, ascending
        """
        among = self._checked_among(among)
        positions = self._representatives(among, _checked_prefer(prefer, among))
        return np.sort(among[positions])

    def cover(self, among: ArrayLike | None = None, prefer: ArrayLike | None = None) -> Indices:
        """For each policy of ``among``, the one of ``maximal(among, prefer)`` that informs it.

        Where several do, it is the one with the lowest ``prefer``, then the lowest index.

        Examples
        --------
        >>> order = InformationOrder.from_key([[0, 1], [1, 0], [0, 0]])
        >>> order.cover(), order.cover(prefer=[5.0, 4.0, 3.0])
        (array([0, 1, 0]), array([0, 1, 1]))
        """
        among = self._checked_among(among)
        values = _checked_prefer(prefer, among)
        positions = self._representatives(among, values)
        positions = positions[np.lexsort((among[positions], values[positions]))]
        return self._cover(among, positions)

    @abstractmethod
    def width(self) -> int:
        """The size of the largest set of policies none of which informs another."""

    def restrict(self, among: ArrayLike) -> InformationOrder:
        """The same order on the policies ``among``, numbered by their position in that list.

        >>> InformationOrder.from_key([1.0, 3.0, 2.0]).restrict([2, 1]).informs(0, 1)
        False
        """
        return self._restrict(self._checked_among(among))

    # Implemented by each representation, with indices and positions that are already checked.

    @abstractmethod
    def _row(self, i: np.intp, others: Indices) -> Mask:
        """Which of the others policy i informs."""

    @abstractmethod
    def _column(self, i: np.intp) -> Mask:
        """Which of all policies inform policy i."""

    @abstractmethod
    def _representatives(self, among: Indices, prefer: Array) -> Indices:
        """The positions in ``among`` of one policy of each maximal class."""

    @abstractmethod
    def _restrict(self, among: Indices) -> InformationOrder: ...

    def _cover(self, among: Indices, positions: Indices) -> Indices:
        """The first of the representatives at ``positions`` that informs each policy."""
        found = np.empty_like(among)
        left = np.arange(among.size)
        for representative in among[positions]:
            informed = self._row(representative, among[left])
            found[left[informed]] = representative
            left = left[~informed]
        return found

    def _sweep(self, among: Indices, rank: Indices) -> Indices:
        """Repeatedly take the first position of ``rank`` and drop all policies that it informs.

        ``rank`` lists policies after those that inform them, and a class by preference.
        """
        taken = []
        while rank.size:
            taken.append(rank[0])
            rank = rank[~self._row(among[rank[0]], among[rank])]
        return np.array(taken, dtype=np.intp)

    def _checked_among(self, among: ArrayLike | None) -> Indices:
        if among is None:
            return np.arange(len(self))
        given = np.asarray(among)
        if given.ndim != 1 or given.size == 0:
            raise InputError(f"The policies have shape {given.shape}: list one or more indices.")
        if given.dtype.kind not in "iu":
            raise InputError(f"Policy {given[0]} is not an index: use whole numbers.")
        outside = (given < 0) | (given >= len(self))
        if outside.any():
            raise InputError(f"Policy {given[outside][0]} is outside 0, ..., {len(self) - 1}.")
        indices: Indices = given.astype(np.intp)
        if not (np.diff(indices) > 0).all():
            ascending = np.sort(indices)
            twice = ascending[1:][ascending[1:] == ascending[:-1]]
            if twice.size:
                raise InputError(f"Policy {twice[0]} is listed twice: list each policy once.")
        return indices


class _KeyOrder(InformationOrder):
    """Finite keys of shape (n, m), compared component by component."""

    def __init__(self, keys: Array) -> None:
        super().__init__(len(keys))
        self._keys = keys
        self._keys.flags.writeable = False

    def _row(self, i: np.intp, others: Indices) -> Mask:
        informed: Mask = self._keys[others, 0] <= self._keys[i, 0]
        for component in range(1, self._keys.shape[1]):
            informed &= self._keys[others, component] <= self._keys[i, component]
        return informed

    def _column(self, i: np.intp) -> Mask:
        informing: Mask = (self._keys >= self._keys[i]).all(axis=1)
        return informing

    @property
    def symmetric(self) -> bool:
        return bool((self._keys == self._keys[0]).all())

    def _representatives(self, among: Indices, prefer: Array) -> Indices:
        keys = self._keys[among]
        if keys.shape[1] == 1:
            top = np.flatnonzero(keys[:, 0] == keys[:, 0].max())
            return top[[_best(among[top], prefer[top])]]
        # A key that is larger in every component is also larger in lexicographic order.
        rank = np.lexsort((among, prefer, *(-keys.T[::-1])))
        if keys.shape[1] > 2:
            return self._sweep(among, rank)
        second = keys[rank, 1]
        higher = second[1:] > np.maximum.accumulate(second)[:-1]
        return rank[np.concatenate(([True], higher))]

    def width(self) -> int:
        if self._keys.shape[1] <= 2:
            return 1 if self._keys.shape[1] == 1 else self._longest_descent()
        classes = np.unique(self._keys, axis=0)
        if len(classes) > MOST_CLASSES:
            raise InputError(
                f"The width of {len(classes)} distinct keys with {classes.shape[1]} components "
                f"compares all pairs: it is computed for at most {MOST_CLASSES}."
            )
        informs = np.ones((len(classes), len(classes)), dtype=bool)
        for column in classes.T:
            informs &= column[:, None] >= column
        return _largest_antichain(informs)

    def _longest_descent(self) -> int:
        """The longest chain of keys along which the first component rises and the second falls.

        By patience sorting.
        """
        rank = np.lexsort((self._keys[:, 1], self._keys[:, 0]))
        ends: list[float] = []  # ends[k]: the least last value of a rising chain of k + 1 values
        for value in (-self._keys[rank, 1]).tolist():
            place = bisect_left(ends, value)
            ends[place : place + 1] = [value]
        return len(ends)

    def _restrict(self, among: Indices) -> InformationOrder:
        return _KeyOrder(self._keys[among])


class _MatrixOrder(InformationOrder):
    """A reflexive and transitive boolean matrix."""

    def __init__(self, matrix: Mask) -> None:
        super().__init__(len(matrix))
        self._matrix = matrix
        self._matrix.flags.writeable = False
        self._informed = np.count_nonzero(matrix, axis=1)

    def _row(self, i: np.intp, others: Indices) -> Mask:
        informed: Mask = self._matrix[i, others]
        return informed

    def _column(self, i: np.intp) -> Mask:
        informing: Mask = self._matrix[:, i]
        return informing

    @property
    def symmetric(self) -> bool:
        return bool((self._matrix == self._matrix.T).all())

    def _representatives(self, among: Indices, prefer: Array) -> Indices:
        # By transitivity, a policy informs more policies than any that is strictly below it.
        return self._sweep(among, np.lexsort((among, prefer, -self._informed[among])))

    def width(self) -> int:
        # One representative of each class: the policy with the lowest index.
        same = self._matrix & self._matrix.T
        first = np.flatnonzero(same.argmax(axis=1) == np.arange(len(same)))
        return _largest_antichain(self._matrix[np.ix_(first, first)])

    def _restrict(self, among: Indices) -> InformationOrder:
        return _MatrixOrder(self._matrix[np.ix_(among, among)])


class _TrivialOrder(InformationOrder):
    """No policy informs another."""

    def _row(self, i: np.intp, others: Indices) -> Mask:
        informed: Mask = others == i
        return informed

    def _column(self, i: np.intp) -> Mask:
        return self._row(i, np.arange(self._size))

    @property
    def symmetric(self) -> bool:
        return True

    def _representatives(self, among: Indices, prefer: Array) -> Indices:
        return np.arange(among.size)

    def _cover(self, among: Indices, positions: Indices) -> Indices:
        return among

    def width(self) -> int:
        return self._size

    def _restrict(self, among: Indices) -> InformationOrder:
        return _TrivialOrder(among.size)


def _best(indices: Indices, prefer: Array) -> int:
    """The position of the lowest value, then of the lowest index; NaN comes last."""
    if np.isnan(prefer).all():
        return int(indices.argmin())
    lowest = np.flatnonzero(prefer == np.nanmin(prefer))
    return int(lowest[indices[lowest].argmin()])


def _largest_antichain(informs: Mask) -> int:
    """The size of the largest antichain, by Dilworth's theorem: a smallest cover by chains.

    The cover comes from a maximum matching. ``informs`` is transitive and antisymmetric.
    """
    above = informs.copy()
    np.fill_diagonal(above, False)
    matched = maximum_bipartite_matching(csr_array(above))
    return len(above) - int(np.count_nonzero(matched >= 0))


def _checked_size(n: Any) -> int:
    """The number of policies."""
    if not is_whole(n) or not 1 <= n <= MOST_POLICIES:
        raise InputError(
            f"An order needs a whole number of policies from 1 to {MOST_POLICIES}, not {shown(n)}."
        )
    return int(n)


def _checked_keys(keys: ArrayLike) -> Array:
    """Keys as an array (n, m) of finite numbers."""
    try:
        values = real_numbers(keys)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The keys {shown(keys)} are not numbers, the same count for each policy."
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


def _checked_prefer(prefer: ArrayLike | None, among: Indices) -> Array:
    """Preference values, aligned with the policies."""
    if prefer is None:
        return np.zeros(among.size)
    values = np.asarray(prefer, dtype=np.float64)
    if values.shape != among.shape:
        raise InputError(f"prefer has shape {values.shape}, but there are {among.size} policies.")
    return values


def _checked_matrix(matrix: ArrayLike) -> Mask:
    """A boolean matrix, checked to be reflexive and transitive."""
    try:
        given = real_numbers(matrix, flags=True)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"The matrix {shown(matrix)} is not one of zeros and ones, with rows of equal length."
        ) from None
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
