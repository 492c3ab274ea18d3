"""Critical values over nets with three parameters, along a tree of the most similar policies."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iopea.elimination.critical import Shape, critical_value, shapes, studentise
from iopea.elimination.geometry import neighbours
from iopea.types import Estimates

#: The probability with which a statistical test may fail although all is well.
FALSE_ALARM = 1e-6


def lattice(*sizes):
    """All points of a grid, the last coordinate varying fastest."""
    return np.array(list(itertools.product(*map(range, sizes))), dtype=float)


def field(policies, waves):
    """Unit vectors in R^2k that are smooth in the parameters, an array (2k, n)."""
    phases = 2 * np.pi * np.array(waves) @ (policies / policies.max(axis=0)).T
    return np.vstack([np.cos(phases), np.sin(phases)]) / math.sqrt(len(waves))


WAVES = ((0.4, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 0.4), (0.2, 0.3, -0.2), (0.1, -0.2, 0.3))


def estimates_of(rng, batches, vectors):
    """Batch sums of policies that all cost the same."""
    return Estimates(rng.standard_normal((batches, len(vectors))) @ vectors, np.ones(batches))


def shape_of(estimates, reference, policies):
    """The shape of the differences of all policies to one."""
    (shape,) = shapes(estimates, reference, [np.ones(len(policies), dtype=bool)], policies)
    return shape


def along_the_list(estimates, reference, policies):
    """The shape as of a net with one parameter, each policy next to the one before it."""
    return shape_of(estimates, reference, np.arange(len(policies), dtype=float)[:, None])


# Neighbours

points = st.tuples(*[st.integers(0, 3)] * 3)
nets = st.sets(points, min_size=1, max_size=40).map(lambda some: np.array(sorted(some), float))


@given(nets)
@settings(deadline=None, max_examples=200)
def test_every_policy_but_the_first_is_second_of_a_pair(policies):
    pairs = neighbours(policies)
    assert set(pairs[:, 1].tolist()) == set(range(1, len(policies)))
    assert (pairs[:, 0] < pairs[:, 1]).all()


@given(nets)
@settings(deadline=None, max_examples=200)
def test_pairs_are_the_nearest_along_each_axis_and_the_next_in_the_list(policies):
    expected = {(i, i + 1) for i in range(len(policies) - 1)}
    for one, axis in itertools.product(range(len(policies)), range(3)):
        before = [
            other
            for other in range(len(policies))
            if policies[other, axis] < policies[one, axis]
            and np.array_equal(np.delete(policies[other], axis), np.delete(policies[one], axis))
        ]
        if before:
            expected.add((max(before, key=lambda other: policies[other, axis]), one))
    assert set(map(tuple, neighbours(policies).tolist())) == expected


def test_one_policy_has_no_neighbours():
    assert neighbours(np.zeros((1, 3))).shape == (0, 2)
    (shape,) = shapes(
        Estimates(np.ones((8, 1)), np.ones(8)), 0, [np.ones(1, dtype=bool)], np.zeros((1, 3))
    )
    assert shape.angles.size == 0


# Critical values


@given(nets.filter(lambda net: len(net) >= 4), st.integers(0, 10**6), st.data())
@settings(deadline=None, max_examples=100)
def test_along_the_tree_it_is_at_most_that_along_the_list(policies, seed, data):
    """And at least that of a single comparison, and at most Bonferroni's."""
    reference = data.draw(st.integers(0, len(policies) - 1))
    rng = np.random.default_rng(seed)
    vectors = field(np.maximum(policies, 0.0) + 1e-9, WAVES) if seed % 2 else np.eye(len(policies))
    estimates = estimates_of(rng, 24, vectors)
    for level in (0.1, 0.001):
        tree = critical_value([shape_of(estimates, reference, policies)], 23.0, level)
        listed = critical_value([along_the_list(estimates, reference, policies)], 23.0, level)
        assert tree <= listed * (1 + 1e-9)
        assert tree >= stats.t.isf(level, 23) * (1 - 1e-9)
        assert tree <= stats.t.isf(level / (len(policies) - 1), 23) * (1 + 1e-9)


def test_the_tree_saves_much_where_the_list_jumps_back():
    policies = lattice(6, 6, 6)
    estimates = estimates_of(np.random.default_rng(1), 32, field(policies, WAVES))
    tree, listed = (
        critical_value([of(estimates, 100, policies)], 31.0, 0.01)
        for of in (shape_of, along_the_list)
    )
    assert tree < listed
    single = stats.t.isf(0.01, 31)
    bonferroni = stats.t.isf(0.01 / 215, 31)
    assert single < tree < bonferroni


@pytest.mark.parametrize("reference", [0, 57, 124])
def test_angles_are_those_to_the_most_similar_policy_before(reference):
    policies = lattice(5, 5, 5)
    estimates = estimates_of(np.random.default_rng(2), 20, field(policies, WAVES))
    shape = shape_of(estimates, reference, policies)
    assert shape.sizes is None
    deviations = estimates.sums - estimates.sums.mean(axis=0)
    units = np.delete(deviations - deviations[:, [reference]], reference, axis=1)
    units /= np.linalg.norm(units, axis=0)
    nearest = np.full(units.shape[1], np.inf)
    for one, other in neighbours(np.delete(policies, reference, axis=0)):
        chord = np.linalg.norm(units[:, one] - units[:, other])
        nearest[other] = min(nearest[other], 2 * math.asin(min(chord / 2, 1.0)))
    np.testing.assert_allclose(shape.angles, nearest[1:], rtol=1e-6, atol=1e-9)


def differences_of(estimates, reference):
    error = studentise(estimates, reference).error
    others = np.arange(error.size) != reference
    return (estimates.mean[reference] - estimates.mean)[others] / error[others]


@pytest.mark.parametrize(
    ("batches", "reference", "level"), [(64, 0, 0.1), (24, 62, 0.1), (12, 124, 0.05)]
)
def test_the_error_rate_over_a_net_of_three_parameters(batches, reference, level):
    """How often any policy looks better than an equally good one: at most the level."""
    policies = lattice(5, 5, 5)
    vectors = field(policies, WAVES)
    rng, draws, count = np.random.default_rng([3, batches, reference]), 800, 0
    for _ in range(draws):
        estimates = estimates_of(rng, batches, vectors)
        shape = shape_of(estimates, reference, policies)
        critical = critical_value([shape], batches - 1.0, level)
        count += differences_of(estimates, reference).max() > critical
    assert count <= stats.binom.isf(FALSE_ALARM, draws, level)
    # Critical values of one comparison alone would be exceeded far more often than that.
    assert count > 0


def test_the_error_rate_would_be_exceeded_by_a_single_comparison():
    policies = lattice(5, 5, 5)
    vectors, rng, draws, count = field(policies, WAVES), np.random.default_rng(4), 300, 0
    single = stats.t.isf(0.1, 63)
    for _ in range(draws):
        count += differences_of(estimates_of(rng, 64, vectors), 0).max() > single
    assert count > stats.binom.isf(FALSE_ALARM, draws, 0.1)


def test_independent_policies_need_bonferroni_and_equal_ones_a_single_comparison():
    policies = lattice(3, 3, 3)
    loose = Estimates(np.random.default_rng(5).standard_normal((32, 27)), np.ones(32))
    critical = critical_value([shape_of(loose, 0, policies)], 31.0, 0.01)
    assert critical <= stats.t.isf(0.01 / 26, 31) * (1 + 1e-9)
    assert critical >= stats.t.isf(0.01 / 13, 31)
    noise = np.random.default_rng(6).standard_normal((32, 2))
    same = Estimates(np.column_stack([noise[:, [0]], np.tile(noise[:, [1]], (1, 26))]), np.ones(32))
    shape = shape_of(same, 0, policies)
    np.testing.assert_allclose(shape.angles, 0.0, atol=1e-6)
    assert critical_value([shape], 31.0, 0.01) == pytest.approx(stats.t.isf(0.01, 31), rel=1e-4)
    assert Shape(np.zeros(3)).probability(2.0, 0.02, 31.0) == pytest.approx(0.02)
