"""Regret over time: what is drawn of intervals that reach 0, and what is said of it."""

import numpy as np
import pytest

from iopea.comparison.figures import Curve, draw_regret, drawing, said_of_regret

STEPS = np.array([10.0, 100.0, 1000.0])
BAND = "The band is the 95 % interval of the mean"


def curve(*runs, name="iopea"):
    return Curve(name, STEPS, np.array(runs, dtype=float))


def drawn(*curves):
    """The axis of regret, and the lowest points of the bands."""
    with drawing(4, 3) as canvas:
        axes = canvas.subplots()
        draw_regret(axes, curves)
        canvas.draw_without_rendering()
        lows = [
            min((y for x, y in band.get_paths()[0].vertices if x == steps), default=np.inf)
            for band in axes.collections
            for steps in STEPS
        ]
        return axes.get_ylim(), lows, axes.get_yscale(), axes.get_ylabel()


def test_a_band_that_reaches_0_reaches_the_bottom_of_the_axis():
    (bottom, top), lows, scale, label = drawn(curve([1, 20, 100], [3, -10, 101]))
    assert scale == "log"
    assert label == "regret, mean and 95 % interval"
    assert lows[1] < bottom  # the mean is 5, and its interval holds 0
    assert bottom < lows[2] < 100  # that of 100.5 does not
    assert 0.01 < bottom < 2  # and the axis ends near the curve
    assert 100 < top < 5000


def test_a_band_that_does_not_reach_0_is_drawn_whole():
    one = curve([1, 20, 100], [1.1, 21, 101])
    (bottom, _), lows, _, _ = drawn(one)
    assert lows == pytest.approx((one.mean - one.half).tolist())
    assert all(low > bottom for low in lows[1:])


@pytest.mark.parametrize(
    ("curves", "said"),
    [
        ([curve([1, 2, 3])], []),
        ([curve([1, -2, 3])], ["Points at or below 0 are not drawn."]),
        ([curve([-1, -2, -3])], []),
        ([curve([-1, -2, -3], [-2, -3, -4])], [f"{BAND}."]),
        (
            [curve([1, 2, 3], [2, 3, 4])],
            [f"{BAND}, and goes on below the axis where it reaches its bottom."],
        ),
    ],
)
def test_the_caption_says_what_is_drawn(curves, said):
    assert said_of_regret(curves) == said
    *_, scale, label = drawn(*curves)
    assert (scale == "log") == any((each.mean > 0).any() for each in curves)
    assert ("interval" in label) == any(BAND in sentence for sentence in said)
