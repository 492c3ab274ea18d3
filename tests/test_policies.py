import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopea.errors import InputError
from iopea.policies import MOST_POINTS, Box, Finite, PolicyClass, default_radius

ends = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
lengths = st.floats(0, 50).map(lambda x: round(x, 3))
radii = st.floats(0.02, 60)


@given(ends, lengths, radii, st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_every_point_of_an_interval_is_within_the_radius_of_its_net(low, length, radius, seed):
    box = Box(low, low + length)
    net = box.net(radius)[:, 0]
    assert net[0] == low
    assert net[-1] == low + length
    assert (np.diff(net) > 0).all()
    assert (np.diff(net) <= radius + 1e-9 * length + 1e-12 * 1e3).all()
    assert box.count(radius) == len(net)
    points = np.random.default_rng(seed).uniform(low, low + length, 50)
    assert (np.abs(points[:, None] - net).min(axis=1) <= radius).all()


@given(st.lists(st.tuples(ends, lengths), min_size=2, max_size=3), st.floats(6, 60), st.data())
@settings(max_examples=50, deadline=None)
def test_every_point_of_a_box_is_within_the_radius_of_its_net(axes, radius, data):
    low, length = np.array(axes).T
    box = Box(low, low + length)
    net = box.net(radius)
    assert net.shape == (box.count(radius), box.dimension)
    assert net.flags.c_contiguous
    assert len(np.unique(net, axis=0)) == len(net)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    points = rng.uniform(low, low + length, (50, len(low)))
    assert (np.abs(points[:, None] - net).max(axis=2).min(axis=1) <= radius).all()


@given(ends, st.integers(1, 500), st.floats(1e-3, 10), st.floats(-1e-10, 1e-10))
@settings(max_examples=200, deadline=None)
def test_steps_are_whole_multiples_up_to_high(low, whole, step, rounding):
    for high in (low + whole * step, low + (whole + rounding) * step):
        net = Box(low, high, step=step).net(0.123)[:, 0]
        assert len(net) == whole + 1
        assert np.allclose(net, low + step * np.arange(whole + 1), rtol=0, atol=1e-9)
        assert net[-1] <= high


@given(ends, st.integers(1, 500), st.floats(1e-3, 10), st.floats(1e-6, 1 - 1e-6))
@settings(max_examples=200, deadline=None)
def test_steps_that_miss_the_end_are_refused_with_ends_that_do(low, whole, step, beyond):
    with pytest.raises(InputError, match=r"in steps of .* end at") as refusal:
        Box(low, low + (whole + beyond) * step, step=step)
    for name, number in (("end at (.*):", 0), ("give high = (.*) or", 0), (r"or (.*)\.$", 1)):
        end = float(re.search(name, str(refusal.value))[1])
        assert Box(low, end, step=step).count(1.0) == whole + number + 1


@given(ends, st.floats(1e-3, 10), st.floats(1e-6, 1 - 1e-6))
@settings(max_examples=200, deadline=None)
def test_steps_longer_than_the_range_are_refused_with_ones_that_do(low, step, part):
    high = low + part * step
    with pytest.raises(InputError, match="are less than a step of") as refusal:
        Box(low, high, step=step)
    end = float(re.search("give high = (.*), or", str(refusal.value))[1])
    assert Box(low, end, step=step).count(1.0) == 2
    shorter = float(re.search(r"at most (.*)\.$", str(refusal.value))[1])
    assert Box(low, high, step=shorter).count(1.0) == 2


@pytest.mark.parametrize("upper", [300, 299.9995])
def test_fine_nets_do_not_gather_rounding(upper):
    net = Box(0, upper).net(1e-3)[:, 0]
    assert len(net) == 300_001
    assert (net[:-1] == 1e-3 * np.arange(300_000)).all()
    assert net[-1] == upper


@pytest.mark.parametrize(
    ("box", "radius", "expected"),
    [
        (Box(0, 1), 0.1, np.arange(11) / 10),
        (Box(0, 1), 0.3, [0, 0.3, 0.6, 0.9, 1]),
        (Box(0, 1), 1, [0, 1]),
        (Box(0, 1), 5, [0, 1]),
        (Box(-1, 0), 0.5, [-1, -0.5, 0]),
        (Box(2, 2), 0.1, [2]),
        (Box(2, 2, step=1), 0.1, [2]),
        (Box(0, 0.3, step=0.1), 5, [0, 0.1, 0.2, 0.3]),
        (Box(1, 4, step=3), 5, [1, 4]),
        (Box(1e6, 1e6 + 0.3, step=0.1), 5, 1e6 + np.arange(4) / 10),
        (Box(1e6, 1e6 + 1e-3), 2.5e-4, 1e6 + np.arange(5) * 2.5e-4),
    ],
)
def test_nets_of_intervals(box, radius, expected):
    net = box.net(radius)
    assert net.dtype == np.float64
    assert net.shape == (len(expected), 1) == (box.count(radius), 1)
    assert np.allclose(net[:, 0], expected, rtol=0, atol=1e-9)
    assert net.max() <= box.high[0]


def test_the_last_axis_moves_fastest():
    box = Box([0, -4, 7], [1, -2, 7])
    assert (box.dimension, box.bound, box.count(1)) == (3, 7, 6)
    assert box.net(1).tolist() == [[a, b, 7] for a in (0, 1) for b in (-4, -3, -2)]
    assert Box(0, [1, 4], step=[1, 2]).net(9).tolist() == [
        [a, b] for a in (0, 1) for b in (0, 2, 4)
    ]


def test_bound_counts_both_ends():
    assert Box(-5, 3).bound == 5
    assert Finite([[1, -9], [2, 3]]).bound == 9


def test_a_single_number_stands_for_all_axes():
    assert Box(0, [1, 2]) == Box([0, 0], np.array([1, 2])) != Box(0, 2)
    assert Box([0, 0], 1, step=0.5).step == (0.5, 0.5)
    assert repr(Box(0, 1)) == "Box(low=(0.0,), high=(1.0,), step=None)"


def test_a_box_cannot_be_changed():
    with pytest.raises(AttributeError):
        Box(0, 1).low = (5.0,)


@pytest.mark.parametrize(
    ("box", "radius"), [(Box(0, 300), 1e-9), (Box([0, 0], [7, 3]), 1e-5), (Box(0, [1] * 20), 0.5)]
)
def test_a_net_too_large_is_refused_with_a_radius_that_does(box, radius):
    assert box.count(radius) > MOST_POINTS
    with pytest.raises(InputError, match=f"has {box.count(radius)} points") as refusal:
        box.net(radius)
    better = float(re.search(r"use a radius of at least (\S+)\.", str(refusal.value))[1])
    assert box.count(better) <= MOST_POINTS
    assert better < 10 * max(radius, box.bound / MOST_POINTS ** (1 / box.dimension))


def test_nets_that_no_radius_makes_small():
    with pytest.raises(InputError, match="no radius is large enough for 26 axes"):
        Box(0, [1] * 26).net(0.5)
    with pytest.raises(InputError, match=r"box of steps \(1e-09,\) has .*: use larger steps"):
        Box(0, 1, step=1e-9).net(0.5)
    with pytest.raises(InputError, match=r"spacing of 1e-30 is too small.* use 2\.0e-08 or more"):
        Box(0, 1).net(1e-30)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((2, 1), r"low is 2\.0, above high, which is 1\.0"),
        (([0, 3], [1, 2]), r"low is 3\.0, above high"),
        ((math.nan, 1), "low must be a finite number or one for each axis, not nan"),
        ((0, math.inf), "high must be a finite number .* not inf"),
        ((0, "x"), "high must be a number .* not 'x'"),
        ((None, 1), "low must be a number or one for each axis, not None"),
        (([], 1), r"low must be a finite number .* not \[\]"),
        (([[0]], 1), r"low must be a finite number .* not \[\[0\]\]"),
        (([0, 0], [1, 1, 1]), "low has 2 numbers, but there are 3 axes"),
        ((0, 1, 0), r"step must be above 0, not 0\.0"),
        ((0, [1, 1], [1, -2]), r"step must be above 0, not -2\.0"),
        ((0, 1, math.nan), "step must be a finite number .* not nan"),
        ((0, 0.35, 0.1), r"from 0 to 0\.35 in steps of 0\.1 end at 0\.3: give high = 0\.3 or 0\.4"),
        ((0, [1, 7], [1, 2]), "from 0 to 7 in steps of 2 end at 6: give high = 6 or 8"),
        ((1, 2, 3), "from 1 to 2 are less than a step of 3 apart: give high = 4, or .* most 1"),
        ((-1e308, 1e308), "too long to measure"),
    ],
)
def test_boxes_refused(values, message):
    with pytest.raises(InputError, match=message):
        Box(*values)


@pytest.mark.parametrize("radius", [0, -1.0, math.nan, math.inf, True])
def test_radii_refused(radius):
    for method in (Box(0, 1).net, Box(0, 1).count):
        with pytest.raises(InputError, match=f"(above 0|must be a finite number), not {radius!r}"):
            method(radius)


def test_finite_policies_are_their_own_net():
    points = np.array([[3.0, 1.0], [0.0, 2.0]])
    policies = Finite(points)
    points[:] = 7
    net = policies.net(0.5)
    assert net.tolist() == policies.points.tolist() == [[3, 1], [0, 2]]
    assert (policies.dimension, policies.count(0.5)) == (2, 2)
    net[:] = 7
    assert policies.points.max() == 3
    assert Finite(range(3)).net(9).tolist() == [[0], [1], [2]]
    assert repr(Finite([1, 2])) == "Finite([[1.0], [2.0]])"
    with pytest.raises(ValueError, match="read-only"):
        policies.points[0, 0] = 1


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], r"shape \(0,\)"),
        (5, r"shape \(\)"),
        ([[[1]]], r"shape \(1, 1, 1\)"),
        ([1, 2, 1], r"Policy 1\.0 is given twice, at positions 0 and 2"),
        (
            [[0, 0], [1, 2], [-0.0, 0]],
            r"Policy \(0\.0, 0\.0\) is given twice, at positions 0 and 2",
        ),
        ([1, math.inf], "Policy inf at position 1 is not finite"),
        ([[1, 2], [math.nan, 2]], r"Policy \(nan, 2\.0\) at position 1 is not finite"),
        ([[1], [1, 2]], "are not rows of numbers"),
        (["x"], "are not rows of numbers"),
    ],
)
def test_finite_policies_refused(points, message):
    with pytest.raises(InputError, match=message):
        Finite(points)


def test_a_class_of_ones_own_is_counted_by_its_net():
    class Coin(PolicyClass):
        dimension = 1
        bound = 1.0
        extent = 1.0

        def net(self, radius):
            return np.array([[0.0], [1.0]])

    assert Coin().count(0.1) == 2


def test_default_radius():
    assert default_radius(7.0) == default_radius(7.0, 1) == 7 / 2000
    assert default_radius(7.0, np.int64(4_000_000)) == 7 / 2000
    assert default_radius(7.0, 16_000_000) == 7 / 4000
    # Of a single policy any radius makes the same net.
    assert default_radius(0.0) == default_radius(0.0, 10**8) == 1.0
    for horizon in (0, -3, 0.5, math.nan, math.inf):
        with pytest.raises(InputError, match=f"horizon .* at least 1, not {horizon!r}"):
            default_radius(7.0, horizon)
    for extent in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match=f"extent .* at least 0, not {extent!r}"):
            default_radius(extent)
