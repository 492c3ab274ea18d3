import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import iopea.information_order
from iopea.errors import InputError
from iopea.information_order import ROWS_AT_ONCE, InformationOrder

few = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0])
worth = st.sampled_from([0.0, 1.0, 2.0, np.inf, -np.inf, np.nan])


def closure(matrix):
    """The smallest preorder that holds a relation (Warshall)."""
    matrix = matrix | np.eye(len(matrix), dtype=bool)
    for k in range(len(matrix)):
        matrix = matrix | (matrix[:, [k]] & matrix[[k], :])
    return matrix


def matrix_of(order):
    n = len(order)
    return np.array([[order.informs(i, j) for j in range(n)] for i in range(n)])


def key_matrix(keys):
    keys = np.asarray(keys, dtype=float).reshape(len(keys), -1)
    return np.array([[bool((b <= a).all()) for b in keys] for a in keys])


def is_better(prefer, i, j):
    """Whether i is to be chosen rather than j: lower value, not-a-number last, lower index."""
    worst = np.isnan(prefer[i]), np.isnan(prefer[j])
    if worst[0] != worst[1]:
        return worst[1]
    if not worst[0] and prefer[i] != prefer[j]:
        return prefer[i] < prefer[j]
    return i < j


def best_of(prefer, candidates):
    return next(i for i in candidates if all(i == j or is_better(prefer, i, j) for j in candidates))


def maximal_by_definition(matrix, among, prefer):
    tops = [i for i in among if all(matrix[i, j] for j in among if matrix[j, i])]
    return sorted({best_of(prefer, [j for j in tops if matrix[i, j]]) for i in tops})


def cover_by_definition(matrix, among, prefer):
    tops = maximal_by_definition(matrix, among, prefer)
    return [best_of(prefer, [i for i in tops if matrix[i, j]]) for j in among]


def width_by_definition(matrix):
    n = len(matrix)
    return next(
        size
        for size in range(n, 0, -1)
        for chosen in combinations(range(n), size)
        if not any(matrix[i, j] or matrix[j, i] for i, j in combinations(chosen, 2))
    )


@st.composite
def preorders(draw, most=8):
    n = draw(st.integers(1, most))
    density = draw(st.sampled_from([0.05, 0.15, 0.4]))
    seed = draw(st.integers(0, 2**32 - 1))
    return closure(np.random.default_rng(seed).random((n, n)) < density)


@st.composite
def key_arrays(draw, most=8):
    n, m = draw(st.integers(1, most)), draw(st.integers(1, 4))
    return draw(hnp.arrays(np.float64, (n, m), elements=few))


@st.composite
def choices(draw, n):
    """Some policies in any order, a value for each, and the values by policy."""
    among = draw(st.permutations(range(n)))[: draw(st.integers(1, n))]
    values = draw(st.lists(worth, min_size=len(among), max_size=len(among)))
    by_policy = np.full(n, np.nan)
    by_policy[among] = values
    return among, values, by_policy


def check_choice(order, matrix, data):
    among, values, by_policy = data.draw(choices(len(matrix)))
    tops = order.maximal(among, values)
    assert tops.dtype == np.intp
    assert tops.tolist() == maximal_by_definition(matrix, among, by_policy)
    assert order.cover(among, values).tolist() == cover_by_definition(matrix, among, by_policy)
    even = np.zeros(len(matrix))
    assert order.maximal(among).tolist() == maximal_by_definition(matrix, among, even)
    everyone = range(len(matrix))
    assert order.maximal().tolist() == maximal_by_definition(matrix, everyone, even)
    assert order.cover().tolist() == cover_by_definition(matrix, everyone, even)


def check_neighbours(order, matrix):
    """Who informs a policy, and who is strictly above or below it, by the definition."""
    n = len(matrix)
    for i in range(n):
        above = [bool(matrix[j, i] and not matrix[i, j]) for j in range(n)]
        below = [bool(matrix[i, j] and not matrix[j, i]) for j in range(n)]
        assert order.informing(i).tolist() == matrix[:, i].tolist()
        assert order.informed_by(i).tolist() == matrix[i].tolist()
        assert order.above(i).tolist() == above
        assert order.below(i).tolist() == below
        for mask in (order.informing(i), order.above(i), order.below(i)):
            assert mask.dtype == np.bool_
            assert mask.shape == (n,)


@given(preorders())
@settings(max_examples=100, deadline=None)
def test_neighbours_in_matrix_orders(matrix):
    order = InformationOrder.from_matrix(matrix)
    check_neighbours(order, matrix)
    assert order.symmetric == all(not order.below(i).any() for i in range(len(order)))


@given(key_arrays())
@settings(max_examples=100, deadline=None)
def test_neighbours_in_key_orders(keys):
    order = InformationOrder.from_key(keys)
    check_neighbours(order, key_matrix(keys))
    nobody_below = all(not order.below(i).any() for i in range(len(order)))
    # Of several keys it is only known where all are the same.
    assert order.symmetric <= nobody_below
    assert order.symmetric == bool((keys == keys[0]).all())
    if keys.shape[1] == 1:
        assert order.symmetric == nobody_below


@pytest.mark.parametrize("n", [1, 2, 5])
def test_neighbours_in_extreme_orders(n):
    for order, matrix in (
        (InformationOrder.trivial(n), np.eye(n, dtype=bool)),
        (InformationOrder.full_feedback(n), np.ones((n, n), dtype=bool)),
    ):
        check_neighbours(order, matrix)
        assert order.symmetric
        check_neighbours(order.restrict(range(n)), matrix)


@given(preorders(), st.data())
@settings(max_examples=60, deadline=None)
def test_neighbours_in_restricted_orders(matrix, data):
    among, _, _ = data.draw(choices(len(matrix)))
    order = InformationOrder.from_matrix(matrix).restrict(among)
    check_neighbours(order, matrix[np.ix_(among, among)])
    keys = matrix.sum(axis=1).astype(float)
    order = InformationOrder.from_key(keys).restrict(among)
    check_neighbours(order, key_matrix(keys[among]))


@pytest.mark.parametrize("method", ["informing", "informed_by", "above", "below"])
def test_neighbours_of_no_policy_are_refused(method):
    for order in (InformationOrder.from_key([1.0, 2.0]), InformationOrder.trivial(2)):
        with pytest.raises(InputError, match=re.escape("Policy 2 is outside 0, ..., 1")):
            getattr(order, method)(2)


@given(preorders(), st.data())
@settings(max_examples=150, deadline=None)
def test_matrix_orders_meet_the_definitions(matrix, data):
    order = InformationOrder.from_matrix(matrix)
    assert len(order) == len(matrix)
    assert (matrix_of(order) == matrix).all()
    assert order.width() == width_by_definition(matrix)
    check_choice(order, matrix, data)


@given(key_arrays(), st.data())
@settings(max_examples=150, deadline=None)
def test_key_orders_are_their_matrices(keys, data):
    order, matrix = InformationOrder.from_key(keys), key_matrix(keys)
    assert (matrix_of(order) == matrix).all()
    assert (closure(matrix) == matrix).all()
    assert order.width() == width_by_definition(matrix)
    check_choice(order, matrix, data)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("levels", [4, 1000])
def test_width_of_keys_is_that_of_the_matching(m, levels):
    keys = np.random.default_rng(m).integers(0, levels, (150, m)).astype(float)
    expected = InformationOrder.from_matrix(key_matrix(keys)).width()
    assert InformationOrder.from_key(keys).width() == expected


@given(preorders(), st.data())
@settings(max_examples=60, deadline=None)
def test_restriction_keeps_the_order(matrix, data):
    among, _, _ = data.draw(choices(len(matrix)))
    order = InformationOrder.from_matrix(matrix).restrict(among)
    assert (matrix_of(order) == matrix[np.ix_(among, among)]).all()


@pytest.mark.parametrize(
    "order",
    [
        InformationOrder.from_key([3.0, 1.0, 2.0, 2.0]),
        InformationOrder.from_key([[0, 1], [1, 0], [2, 2], [0, 0]]),
        InformationOrder.trivial(4),
        InformationOrder.full_feedback(4),
    ],
)
def test_restriction_of_other_orders(order):
    among = [3, 0, 2]
    assert (matrix_of(order.restrict(among)) == matrix_of(order)[np.ix_(among, among)]).all()


@given(preorders(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_relation_that_is_no_order_is_refused_with_a_true_triple(matrix, data):
    i, j = data.draw(st.tuples(*[st.integers(0, len(matrix) - 1)] * 2))
    changed = matrix.copy()
    changed[i, j] = ~changed[i, j]
    if (closure(changed) == changed).all():
        assert (matrix_of(InformationOrder.from_matrix(changed)) == changed).all()
        return
    with pytest.raises(InputError) as refusal:
        InformationOrder.from_matrix(changed)
    if i == j:
        assert str(refusal.value) == f"Not an order: policy {i} does not inform itself."
        return
    a, b, b2, c, a2, c2 = map(int, re.findall(r"\d+", str(refusal.value)))
    assert (a, b, c) == (a2, b2, c2)
    assert changed[a, b]
    assert changed[b, c]
    assert not changed[a, c]


def test_a_triple_beyond_the_first_rows_is_found():
    n = ROWS_AT_ONCE + 20
    matrix = np.eye(n, dtype=bool)
    matrix[n - 3, n - 2] = matrix[n - 2, n - 1] = True
    with pytest.raises(InputError, match=f"{n - 3} informs {n - 2} and {n - 2} informs {n - 1}, "):
        InformationOrder.from_matrix(matrix)


def test_relation_is_asked_about_the_policies():
    words = ["a", "ab", "b", "abc"]
    order = InformationOrder.from_relation(iter(words), lambda a, b: b in a)
    assert matrix_of(order).tolist() == [[b in a for b in words] for a in words]
    with pytest.raises(InputError, match="0 informs 1 and 1 informs 2, but 0 does not inform 2"):
        InformationOrder.from_relation(range(3), lambda a, b: b - a in (0, 1))
    with pytest.raises(InputError, match="policy 3 does not inform itself"):
        InformationOrder.from_relation(range(5), lambda a, b: a == b != 3)


def test_ties_have_the_preferred_representative():
    order = InformationOrder.from_key([2.0, 5.0, 5.0, 5.0])
    assert order.maximal().tolist() == [1]
    assert order.maximal(prefer=[0.0, 3.0, 1.0, 1.0]).tolist() == [2]
    assert order.maximal([3, 2, 0], prefer=[1.0, 1.0, 0.0]).tolist() == [2]
    assert order.maximal(prefer=[0.0, np.nan, np.inf, np.nan]).tolist() == [2]
    assert order.maximal(prefer=[0.0, np.nan, np.nan, np.nan]).tolist() == [1]
    assert order.cover(prefer=[0.0, 3.0, 2.0, 1.0]).tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_extreme_orders(n):
    trivial, full = InformationOrder.trivial(n), InformationOrder.full_feedback(n)
    assert (matrix_of(trivial) == np.eye(n)).all()
    assert matrix_of(full).all()
    assert (trivial.width(), full.width()) == (n, 1)
    assert trivial.maximal().tolist() == trivial.cover().tolist() == list(range(n))
    assert full.cover(prefer=-np.arange(n)).tolist() == [n - 1] * n
    backwards = np.arange(n)[::-1]
    assert trivial.cover(backwards).tolist() == backwards.tolist()
    assert trivial.maximal(backwards).tolist() == list(range(n))


def test_large_orders_need_no_matrix():
    n = 300_000  # a matrix would take 90 GB
    rng = np.random.default_rng(1)
    order = InformationOrder.from_key(np.arange(n) / 1000)
    among = np.flatnonzero(rng.random(n) < 0.5)
    assert order.maximal(among).tolist() == [among[-1]]
    assert (order.cover(among, rng.random(among.size)) == among[-1]).all()
    assert order.width() == 1
    grid = InformationOrder.from_key(np.indices((400, 500)).reshape(2, -1).T)
    assert grid.maximal().tolist() == [len(grid) - 1]
    assert grid.width() == 400
    trivial = InformationOrder.trivial(n)
    assert (trivial.cover() == np.arange(n)).all()
    assert trivial.maximal().size == trivial.width() == n
    assert InformationOrder.full_feedback(n).maximal(prefer=rng.random(n)).size == 1


def test_an_order_does_not_change_with_what_it_was_made_from():
    keys, matrix = np.array([1.0, 2.0]), np.eye(2, dtype=bool)
    orders = InformationOrder.from_key(keys), InformationOrder.from_matrix(matrix)
    keys[:], matrix[:] = 0, False
    assert [order.maximal().tolist() for order in orders] == [[1], [0, 1]]
    orders[0].cover()[:] = 7
    assert orders[0].cover().tolist() == [1, 1]
    trivial, among = InformationOrder.trivial(2), np.array([1, 0])
    trivial.cover(among)[:] = 7
    assert among.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[True, False]], r"shape \(1, 2\)"),
        ([], r"shape \(0,\)"),
        (np.ones((2, 2, 2), dtype=bool), r"shape \(2, 2, 2\)"),
        ([[1, 2], [0, 1]], "holds 2.0, neither true nor false"),
        ([[1, np.nan], [0, 1]], "holds nan"),
        ([[1, 0], [0, 0]], "policy 1 does not inform itself"),
    ],
)
def test_matrices_refused(matrix, message):
    with pytest.raises(InputError, match=message):
        InformationOrder.from_matrix(matrix)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], r"shape \(0,\)"),
        (np.empty((3, 0)), r"shape \(3, 0\)"),
        (3.0, r"shape \(\)"),
        ([1.0, np.nan], "key of policy 1 is nan"),
        ([[1.0, 2.0], [3.0, -np.inf]], "key of policy 1 is -inf"),
        (["x"], r"keys \['x'\] are not numbers"),
        ([[1], [2, 3]], "are not numbers, the same count for each policy"),
    ],
)
def test_keys_refused(keys, message):
    with pytest.raises(InputError, match=message):
        InformationOrder.from_key(keys)


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3"])
@pytest.mark.parametrize("make", [InformationOrder.trivial, InformationOrder.full_feedback])
def test_sizes_refused(make, n):
    with pytest.raises(InputError, match=f"from 1 to 1000000000, not {n!r}"):
        make(n)


def test_empty_relation_refused():
    with pytest.raises(InputError, match=r"shape \(0, 0\)"):
        InformationOrder.from_relation([], lambda a, b: True)


@pytest.mark.parametrize(
    ("among", "prefer", "message"),
    [
        ([0, 3], None, r"Policy 3 is outside 0, \.\.\., 2"),
        ([-1], None, "Policy -1 is outside"),
        ([2, 1, 2], None, "Policy 2 is listed twice"),
        ([True, False, True], None, "Policy True is not an index"),
        ([0.5], None, r"Policy 0\.5 is not an index"),
        ([], None, r"shape \(0,\)"),
        (1, None, r"shape \(\)"),
        ([0, 1], [1.0], r"prefer has shape \(1,\), but there are 2 policies"),
    ],
)
def test_choices_refused(among, prefer, message):
    order = InformationOrder.from_key([1.0, 2.0, 3.0])
    for method in (order.maximal, order.cover):
        with pytest.raises(InputError, match=message):
            method(among, prefer)
    if prefer is None:
        with pytest.raises(InputError, match=message):
            order.restrict(among)


def test_pairs_refused():
    order = InformationOrder.trivial(2)
    for pair in [(2, 0), (0, 2)]:
        with pytest.raises(InputError, match="Policy 2 is outside"):
            order.informs(*pair)


def test_width_of_too_many_keys_is_refused_with_their_number(monkeypatch):
    monkeypatch.setattr(iopea.information_order, "MOST_CLASSES", 3)
    keys = [[0, 0, 0], [0, 0, 0], [1, 2, 3], [3, 2, 1], [2, 2, 2]]
    with pytest.raises(InputError, match=r"width of 4 distinct keys .* at most 3"):
        InformationOrder.from_key(keys).width()
    assert InformationOrder.from_key(keys[:4]).width() == 2


def test_shown_by_its_size():
    assert repr(InformationOrder.trivial(3)) == "<InformationOrder on 3 policies>"
