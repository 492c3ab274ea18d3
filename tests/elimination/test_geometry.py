import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage, stats

from iopea.elimination.critical import Shape, critical_value, shapes, studentise
from iopea.elimination.geometry import curvatures, exceedance, mesh
from iopea.elimination.paired import Paired
from iopea.elimination.rule import Setting
from iopea.types import Estimates

#: The probability with which a statistical test may fail although all is well.
FALSE_ALARM = 1e-6


def grid(rows, columns):
    """All points of a grid given by its values."""
    return np.array(list(itertools.product(rows, columns)), dtype=float)


def measured(policies, points):
    """The mesh of policies that lie at these points of a space, measured by straight lines."""
    edges, triangles = mesh(policies)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    return curvatures(len(policies), lengths, triangles)


def euler(policies):
    edges, triangles = mesh(policies)
    return len(policies) - len(edges) + len(triangles)


# The mesh


@given(st.integers(1, 7), st.integers(1, 7))
@settings(deadline=None)
def test_a_full_grid(m, n):
    policies = grid(range(m), range(n))
    edges, triangles = mesh(policies)
    assert len(edges) == m * (n - 1) + n * (m - 1) + (m - 1) * (n - 1)
    assert len(triangles) == 2 * (m - 1) * (n - 1)
    assert euler(policies) == 1


values = st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=6, unique=True)


@given(values, values, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_area_and_edge_of_a_flat_rectangle(rows, columns, order):
    """Whatever the distances of the values and the order of the policies."""
    policies = grid(rows, columns).tolist()
    order.shuffle(policies)
    policies = np.array(policies)
    height, width = np.ptp(policies, axis=0)
    expected = (1.0, height + width, height * width)
    # The height of a thin triangle is known less well from its sides.
    assert measured(policies, policies) == pytest.approx(expected, rel=1e-6, abs=1e-3)


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
@settings(deadline=None, max_examples=200)
def test_a_ragged_grid_is_what_its_definition_says(chosen):
    """Triangles of neighbouring values whose corners are all there, and their edges; no more."""
    policies = np.array(sorted(chosen), dtype=float)
    rows, columns = (sorted({p[axis] for p in chosen}) for axis in (0, 1))
    number = {(rows.index(i), columns.index(j)): k for k, (i, j) in enumerate(sorted(chosen))}
    triangles, edges = set(), set()
    for i, j in itertools.product(range(len(rows)), range(len(columns))):
        for corner in ((i, j + 1), (i + 1, j)):
            three = [(i, j), corner, (i + 1, j + 1)]
            if all(point in number for point in three):
                triangles.add(frozenset(number[point] for point in three))
            if (i, j) in number and corner in number:
                edges.add(frozenset((number[i, j], number[corner])))
    edges |= {frozenset(pair) for three in triangles for pair in itertools.combinations(three, 2)}
    seen, sides = mesh(policies)
    assert {frozenset(edge) for edge in seen.tolist()} == edges
    assert len(seen) == len(edges)
    assert {frozenset(seen[three].ravel().tolist()) for three in sides} == triangles
    assert len(sides) == len(triangles)


def test_known_shapes_have_their_euler_characteristic():
    full = grid(range(6), range(6))
    half = full[full[:, 0] <= full[:, 1]]  # dual-index policies with z_e <= z_r
    assert euler(half) == 1
    assert measured(half, half) == pytest.approx((1.0, 5 + math.sqrt(50) / 2, 12.5))
    hole = full[(full != 2).any(axis=1)]
    assert euler(hole) == 0
    assert measured(hole, hole)[0] == 1
    two = full[(full[:, 0] != full[:, 1]) & (np.abs(full[:, 0] - full[:, 1]) > 1)]
    assert euler(two) == 2
    line = grid([0.0], range(4))
    assert measured(line, line) == (1.0, 3.0, 0.0)
    single = np.zeros((1, 2))
    assert measured(single, single) == (1.0, 0.0, 0.0)


def drawing(policies):
    """A picture of the mesh, four pixels to a cell, with a free margin."""
    places = np.column_stack([np.unique(axis, return_inverse=True)[1] for axis in policies.T])
    edges, triangles = mesh(policies)
    picture = np.zeros(4 * places.max(axis=0) + 3, dtype=bool)
    for place in places:
        picture[tuple(4 * place + 1)] = True
    for first, second in places[edges]:
        for k in range(5):
            picture[tuple((4 - k) * first + k * second + 1)] = True
    for sides in triangles:
        a, b, c = places[np.unique(edges[sides])]
        for i, j in itertools.product(range(5), repeat=2):
            if i + j <= 4:
                picture[tuple((4 - i - j) * a + i * b + j * c + 1)] = True
    return picture


places = st.tuples(st.integers(0, 5), st.integers(0, 5))
whole_grid = frozenset(itertools.product(range(6), repeat=2))


@given(
    st.one_of(
        st.sets(places, min_size=1),
        st.sets(places, max_size=12).map(lambda gone: whole_grid - gone),
    )
)
@settings(deadline=None, max_examples=200)
def test_euler_characteristic_is_pieces_less_holes(chosen):
    policies = np.array(sorted(chosen), dtype=float)
    picture = drawing(policies)
    pieces = ndimage.label(picture, np.ones((3, 3)))[1]
    holes = ndimage.label(~picture)[1] - 1
    assert euler(policies) == pieces - holes
    # Holes must not make chance smaller.
    assert measured(policies, policies)[0] == max(pieces - holes, 1)


def test_a_row_that_is_gone_closes_up():
    policies = grid([0, 1, 5], [0, 2])
    gap = policies[policies[:, 0] != 1]
    assert measured(gap, gap) == pytest.approx((1.0, 7.0, 10.0))


def test_a_thread_counts_on_both_sides():
    # A unit square, and a line of two that hangs on it.
    policies = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [3, 0]], dtype=float)
    assert measured(policies, policies) == pytest.approx((1.0, 2.0 + 2.0, 1.0))


def sphere(longitudes, latitudes):
    return np.column_stack(
        [
            np.cos(longitudes) * np.cos(latitudes),
            np.sin(longitudes) * np.cos(latitudes),
            np.sin(latitudes),
        ]
    )


@pytest.mark.parametrize(("east", "south", "north"), [(1.0, 0.0, 0.5), (2.5, -0.4, 0.9)])
def test_area_and_edge_of_a_patch_of_the_sphere(east, south, north):
    """Their errors fall with the square of the spacing."""
    area = east * (math.sin(north) - math.sin(south))
    edge = (2 * (north - south) + east * (math.cos(north) + math.cos(south))) / 2
    errors = []
    for n in (21, 41):
        policies = grid(np.linspace(0, east, n), np.linspace(south, north, n))
        edges, triangles = mesh(policies)
        points = sphere(*policies.T)
        chords = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
        sizes = curvatures(len(policies), 2 * np.arcsin(chords / 2), triangles)
        errors.append(np.abs(np.array(sizes) - (1.0, edge, area)))
    assert errors[1][0] == 0
    assert (errors[1][1:] < 2e-3 * np.array([edge, area])).all()
    assert (errors[1][1:] < 0.3 * errors[0][1:]).all()


# Chances


def family(n, waves=((0.5, 0.0), (0.0, 0.5), (0.3, 0.3))):
    """Unit vectors in R^2k, smooth in two parameters, an array (2k, n²), and their policies."""
    policies = grid(np.linspace(0, 1, n), np.linspace(0, 1, n))
    phases = 2 * np.pi * np.array(waves) @ policies.T
    return np.vstack([np.cos(phases), np.sin(phases)]) / math.sqrt(len(waves)), policies


def sizes_of(vectors, policies):
    edges, triangles = mesh(policies)
    chords = np.linalg.norm(vectors[:, edges[:, 0]] - vectors[:, edges[:, 1]], axis=0)
    return curvatures(len(policies), 2 * np.arcsin(chords / 2), triangles)


def within(count, draws, low, high):
    """Whether a count is one of a rate between low and high, at an error rate of 10^-6."""
    least = stats.binom.ppf(FALSE_ALARM / 2, draws, low)
    return least <= count <= stats.binom.isf(FALSE_ALARM / 2, draws, high)


@pytest.mark.parametrize("critical", [2.0, 2.5, 3.0])
def test_exceedance_of_gaussian_fields(critical):
    """The true chance is within 7 % of the formula, the grid in place of the surface included."""
    vectors, policies = family(20)
    chance = exceedance(critical, 1e8, sizes_of(vectors, policies))
    rng, draws = np.random.default_rng(1), 30_000
    largest = (rng.standard_normal((draws, len(vectors))) @ vectors).max(axis=1)
    assert within((largest > critical).sum(), draws, 0.93 * chance, 1.07 * chance)
    # The largest of all at once: far more than one alone.
    assert chance > 2.5 * stats.norm.sf(critical)


@pytest.mark.parametrize(("batches", "critical"), [(8, 3.0), (16, 2.5), (32, 2.5)])
def test_exceedance_of_fields_with_an_error_of_their_own(batches, critical):
    """The true chance is within 10 % of the formula."""
    vectors, policies = family(12)
    chance = exceedance(critical, batches - 1.0, sizes_of(vectors, policies))
    rng, draws = np.random.default_rng([2, batches]), 4000
    count = 0
    for _ in range(draws):
        sums = rng.standard_normal((batches, len(vectors))) @ vectors
        error = sums.std(axis=0, ddof=1) / math.sqrt(batches)
        count += (sums.mean(axis=0) / error).max() > critical
    assert within(count, draws, 0.9 * chance, 1.1 * chance)


def test_exceedance_of_one_policy_is_a_t_test():
    for freedom in (1.0, 7.0, 63.5):
        for critical in (0.0, 1.0, 4.0):
            single = exceedance(critical, freedom, (1.0, 0.0, 0.0))
            assert single == pytest.approx(stats.t.sf(critical, freedom), rel=1e-9)


@pytest.mark.parametrize("critical", [0.5, 2.0, 4.0])
def test_exceedance_of_all_directions_is_a_chi_distribution(critical):
    """The largest of u·g over all directions u of R^2 or R^3 is the length of g.

    A great circle has no end, L_0 = 0, and the length 2π; a sphere has L_0 = 2 and the area 4π.
    """
    circle, sphere = (0.0, 2 * math.pi, 0.0), (2.0, 0.0, 4 * math.pi)
    assert exceedance(critical, 1e9, circle) == pytest.approx(stats.chi.sf(critical, 2), rel=1e-6)
    assert exceedance(critical, 1e9, sphere) == pytest.approx(stats.chi.sf(critical, 3), rel=1e-6)


@pytest.mark.parametrize("critical", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("freedom", [3.0, 7.0, 40.0])
def test_exceedance_of_all_directions_is_hotellings(critical, freedom):
    """The same with an error of each direction's own: T² = k ν/(ν+1-k) F_{k, ν+1-k}."""
    for k, sizes in ((2, (0.0, 2 * math.pi, 0.0)), (3, (2.0, 0.0, 4 * math.pi))):
        rest = freedom + 1 - k
        exact = stats.f.sf(critical**2 * rest / (k * freedom), k, rest)
        assert exceedance(critical, freedom, sizes) == pytest.approx(exact, rel=1e-9)


# The rule


def equals(rng, batches, vectors):
    """Batch sums of policies that all cost the same."""
    return Estimates(rng.standard_normal((batches, len(vectors))) @ vectors, np.ones(batches))


def differences_of(estimates, reference):
    error = studentise(estimates, reference).error
    others = np.arange(error.size) != reference
    return (estimates.mean[reference] - estimates.mean)[others] / error[others]


def shape_of(estimates, reference, policies):
    """The shape of the differences of all policies to one."""
    (shape,) = shapes(estimates, reference, [np.ones(len(policies), dtype=bool)], policies)
    return shape


WAVES = ((0.5, 0.0), (0.0, 0.5), (0.3, 0.3), (0.4, -0.6))


@pytest.mark.parametrize(
    ("batches", "reference", "level"), [(64, 0, 0.1), (24, 55, 0.1), (12, 99, 0.05), (24, 4, 0.02)]
)
def test_the_error_rate_over_a_net_of_two_parameters(batches, reference, level):
    """How often any policy looks better than an equally good one: at most the level.

    And at least a third of it: little is wasted.
    """
    vectors, policies = family(10, WAVES)
    rng, draws, count = np.random.default_rng([3, batches, reference]), 1000, 0
    for _ in range(draws):
        estimates = equals(rng, batches, vectors)
        shape = shape_of(estimates, reference, policies)
        critical = critical_value([shape], batches - 1.0, level)
        count += differences_of(estimates, reference).max() > critical
    assert count <= stats.binom.isf(FALSE_ALARM, draws, level)
    assert count >= stats.binom.ppf(FALSE_ALARM, draws, level / 3)


@pytest.mark.parametrize("index", [0, 44])
def test_a_fixed_policy_among_equals_is_rarely_dropped(index):
    """At most at the level of the epoch."""
    vectors, policies = family(10, WAVES)
    rule = Paired(
        Setting(policies=100, width=1, span=1.0, cost_range=1.0, lipschitz=0.0, delta=0.5)
    )
    epoch = rule.silent + 1
    rng, draws, count = np.random.default_rng([4, index]), 1000, 0
    for _ in range(draws):
        count += not rule.eliminate(equals(rng, 16, vectors), policies, epoch).keep[index]
    assert count <= stats.binom.isf(FALSE_ALARM, draws, rule.level(epoch))


def test_a_surface_needs_less_than_a_path_through_it():
    """Row after row the path jumps back, and a finer net would cost ever more."""
    rng, criticals = np.random.default_rng(5), []
    for n in (10, 20):
        vectors, policies = family(n, WAVES)
        estimates = equals(np.random.default_rng(6), 32, vectors)
        shape = shape_of(estimates, 0, policies)
        surface = critical_value([shape], 31.0, 0.01)
        assert surface < critical_value([Shape(shape.angles)], 31.0, 0.01)
        assert surface > stats.t.isf(0.01, 31)
        criticals.append(surface)
    assert criticals[1] == pytest.approx(criticals[0], rel=0.03)
    # Of policies that have nothing to do with each other, Bonferroni's inequality is the least.
    loose = Estimates(rng.standard_normal((32, 100)), np.ones(32))
    critical = critical_value([shape_of(loose, 0, family(10)[1])], 31.0, 0.01)
    assert critical <= stats.t.isf(0.01 / 99, 31) * (1 + 1e-9)


@pytest.mark.parametrize("rows", [(0, 10), (0, 4), (3, 8)])
def test_the_shape_of_a_family_is_that_of_its_mesh(rows):
    """Directions of batch differences, measured by angles, of these policies alone."""
    vectors, policies = family(10, WAVES)
    estimates = equals(np.random.default_rng(7), 20, vectors)
    among = np.zeros((10, 10), dtype=bool)
    among[rows[0] : rows[1], ::2] = True
    among = among.ravel()
    (shape,) = shapes(estimates, 57, [among], policies)
    among[57] = False  # never differs from itself
    deviations = estimates.sums - estimates.sums.mean(axis=0)
    units = deviations - deviations[:, [57]]
    units = units[:, among] / np.linalg.norm(units[:, among], axis=0)
    assert shape.sizes == pytest.approx(sizes_of(units, policies[among]), rel=1e-9)
    chords = np.linalg.norm(np.diff(units, axis=1), axis=0)
    np.testing.assert_allclose(shape.angles, 2 * np.arcsin(chords / 2), rtol=1e-9)
    for critical in (1.0, 3.0, 5.0):
        single = stats.t.sf(critical, 19)
        overlap = (1 + critical**2 / 19) ** (-9.0) / (2 * math.pi)
        along = single + np.minimum(single, shape.angles * overlap).sum()
        expected = min(along, exceedance(critical, 19.0, shape.sizes))
        assert shape.probability(critical, single, 19.0) == pytest.approx(expected, rel=1e-9)
