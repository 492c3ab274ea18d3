"""Boxes whose axes have as many points each, and whose first coordinates ascend."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea import InputError
from iopea.policies import Box

#: Ends that binary numbers represent exactly, so that no comparison depends on rounding.
ends = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda two: sorted(two))


@st.composite
def boxes(draw, in_steps=True, most_axes=4):
    """A box with up to four axes, perhaps in steps, perhaps ascending."""
    axes = draw(st.integers(1, most_axes))
    low, high = np.array([draw(ends) for _ in range(axes)], dtype=float).T / 4
    step = None
    if in_steps and draw(st.booleans()):
        parts = np.array([draw(st.sampled_from([1, 2, 4])) for _ in range(axes)])
        step = np.where(high > low, high - low, 1.0) / parts
    ascending = draw(st.integers(2, axes)) if axes > 1 and draw(st.booleans()) else 0
    if ascending > 2 or (ascending == 2 and low[0] > high[1]):
        low, step = np.zeros(axes), None  # otherwise nothing might ascend
    return Box(low, high, step, proportional=draw(st.booleans()), ascending=ascending)


radii = st.sampled_from([0.25, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0])


def ascends(points, number):
    first = points[:, :number]
    return (first[:, :-1] <= first[:, 1:] + 1e-9).all(axis=1)


@given(boxes(), radii)
@settings(deadline=None, max_examples=200)
def test_the_count_is_that_of_the_net(box, radius):
    net = box.net(radius)
    assert box.count(radius) == len(net)
    assert len(np.unique(net, axis=0)) == len(net)
    assert ascends(net, box.ascending).all()


@given(boxes(), radii)
@settings(deadline=None, max_examples=100)
def test_the_net_is_the_grid_without_what_does_not_ascend(box, radius):
    free = Box(box.low, box.high, box.step, proportional=box.proportional)
    grid = free.net(radius)
    np.testing.assert_array_equal(box.net(radius), grid[ascends(grid, box.ascending)])
    sizes = [np.unique(axis).size for axis in grid.T]
    assert len(grid) == np.prod(sizes)
    if box.proportional and box.step is None:
        # As many points along each axis, apart from those of a single value.
        assert len({size for size in sizes if size > 1}) <= 1
    np.testing.assert_array_equal(grid.min(axis=0), box.low)
    np.testing.assert_array_equal(grid.max(axis=0), box.high)


@given(boxes(), radii)
@settings(deadline=None, max_examples=100)
def test_it_contains_its_net_and_nothing_beyond(box, radius):
    for point in box.net(radius)[:50]:
        assert box.contains(point)
        for axis in range(box.dimension):
            for beyond in (box.low[axis] - 0.01, box.high[axis] + 0.01):
                other = point.copy()
                other[axis] = beyond
                assert not box.contains(other)
        if box.ascending and point[0] < point[box.ascending - 1]:
            other = point.copy()
            other[: box.ascending] = other[: box.ascending][::-1]
            assert not box.contains(other)
    assert not box.contains([*box.low, 0.0])


@given(boxes(in_steps=False, most_axes=2), radii, st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_the_net_has_a_policy_near_every_policy(box, radius, seed):
    drawn = box.sample(np.random.default_rng(seed), 20)
    apart = np.abs(box.net(radius)[:, None] - drawn).max(axis=2).min(axis=0)
    assert apart.max() <= radius * (1 + 1e-9)


def test_a_value_between_two_steps_is_not_in_it():
    box = Box([0, 0, 1], [4, 4, 3], [1, 2, 1], ascending=2)
    assert box.contains((1, 2, 3))
    assert box.contains((2, 2, 1))
    assert not box.contains((1, 1, 3))
    assert not box.contains((3, 2, 3))
    assert not box.contains((1, 2, 1.5))
    # The third coordinate is free.
    assert box.contains((4, 4, 1))


@given(boxes(), st.integers(1, 60), st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_what_is_drawn_is_in_it(box, number, seed):
    drawn = box.sample(np.random.default_rng(seed), number)
    assert drawn.shape == (number, box.dimension)
    assert all(box.contains(point) for point in drawn)


def test_draws_are_uniform_on_what_ascends():
    """Each of 6 pairs is drawn about 1000 times; 6 standard deviations are 173."""
    box = Box([0, 0], [2, 2], step=1, ascending=2)
    drawn = box.sample(np.random.default_rng(1), 6000)
    found, times = np.unique(drawn, axis=0, return_counts=True)
    np.testing.assert_array_equal(found, box.net(1.0))
    assert np.abs(times - 1000).max() <= 173


def test_hardly_any_combination_may_be_one():
    # One of a million pairs.
    box = Box([0, 0], [999, 999], step=1, ascending=2)
    narrow = Box([999, 0], [1998, 999], step=1, ascending=2)
    assert narrow.count(1.0) == 1
    drawn = narrow.sample(np.random.default_rng(0), 5)
    np.testing.assert_array_equal(drawn, np.full((5, 2), 999.0))
    assert box.count(1.0) == 1000 * 1001 // 2


@given(boxes(), radii, st.floats(0.1, 2.0), st.integers(1, 3), st.integers(0, 10**6))
@settings(deadline=None, max_examples=150)
def test_points_near_centres_are_those_of_the_net(box, radius, reach, number, seed):
    centres = box.sample(np.random.default_rng(seed), number)
    net = box.net(radius)
    apart = (np.abs(net[:, None] - centres) / box.scales).max(axis=2)
    expected = net[(apart <= reach).any(axis=1)]
    unclear = np.abs(apart - reach).min(initial=1.0) < 1e-12
    found = box.near(centres, reach, radius)
    if not unclear:
        np.testing.assert_array_equal(found, np.unique(expected, axis=0))
    assert {tuple(point) for point in found} <= {tuple(point) for point in net}


def test_scales_are_shares_of_the_longest_axis():
    long = Box([0, 5, 2], [8, 7, 2], proportional=True)
    np.testing.assert_array_equal(long.scales, [1.0, 0.25, 1.0])
    np.testing.assert_array_equal(Box([0, 5], [8, 7]).scales, [1.0, 1.0])
    np.testing.assert_array_equal(Box([3, 3], [3, 3], proportional=True).scales, [1.0, 1.0])
    # A radius applies to the longest axis, and a net has as many points along each.
    assert long.count(2.0) == 5 * 5
    assert Box([0, 5], [8, 7]).count(2.0) == 5 * 2


@given(boxes(), st.integers(2, 6))
@settings(deadline=None, max_examples=60)
def test_a_thinned_net_has_few_values_and_only_policies_of_the_class(box, per_axis):
    thin = box.thinned(per_axis, 0.25)
    assert all(np.unique(axis).size <= per_axis for axis in thin.T)
    assert all(box.contains(point) for point in thin)


def test_neighbours_ascend_too():
    box = Box([0, 0, 0], [2, 2, 1], step=1, ascending=2)
    found = box.neighbours(np.array([1.0, 1.0, 0.0])).tolist()
    assert found == [[1, 1, 0], [0, 1, 0], [1, 2, 0], [1, 1, 1]]
    every = {tuple(point) for point in box.net(1.0)}
    for point in every:
        alike = {
            other for other in every if sum(a != b for a, b in zip(point, other, strict=True)) <= 1
        }
        assert {tuple(other) for other in box.neighbours(np.array(point))} == alike


def test_ranges_in_which_nothing_ascends_are_refused():
    with pytest.raises(InputError, match=r"parameter 1 is at least 3.*highest parameter 2"):
        Box([3, 0], [5, 2], ascending=2)
    labels = ("low one", "high one")
    with pytest.raises(InputError, match=r"low one is at least 3\.0, above the highest high one"):
        Box([3, 0], [5, 2], ascending=2, labels=labels)
    # Though each pair of neighbours could ascend.
    with pytest.raises(InputError, match=r"parameter 1 is at least 2.*highest parameter 3"):
        Box([2, 0, 0], [3, 3, 1], ascending=3)
    # Only the first coordinates are to ascend.
    assert Box([0, 1, 0], [1, 2, 0], step=1, ascending=2).count(1.0) == 4


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=4))
@settings(deadline=None, max_examples=60)
def test_ascending_coordinates_are_counted_as_by_hand(axes):
    axes = [sorted(axis) for axis in axes]
    low, high = np.array(axes, dtype=float).T
    number = len(axes)
    values = [np.arange(least, most + 1) for least, most in axes]
    every = [
        each
        for each in itertools.product(*values)
        if all(a <= b for a, b in itertools.pairwise(each))
    ]
    if not every:
        with pytest.raises(InputError, match="above the highest"):
            Box(low, high, step=1, ascending=number)
        return
    box = Box(low, high, step=1, ascending=number)
    assert box.count(1.0) == len(every)
    np.testing.assert_array_equal(box.net(1.0), np.array(every, dtype=float).reshape(-1, number))
