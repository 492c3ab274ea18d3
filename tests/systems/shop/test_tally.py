"""Counts of censored sales: the same distribution as from the records, in bounded memory."""

import json

import numpy as np
import pytest

from iopea.systems.shop.product_limit import ProductLimit
from iopea.systems.shop.tally import BLOCKS, CELLS, Law, Tally, strata


def records(periods, seed=0, most=12, continuous=False):
    """Stock in random amounts, and sales of a demand that is often larger."""
    rng = np.random.default_rng(seed)
    stock = rng.integers(1, most, periods).astype(float)
    demand = (
        rng.exponential(4.0, periods) if continuous else rng.poisson(4.0, periods).astype(float)
    )
    return stock, np.minimum(demand, stock)


def filled(stock, sales):
    tally = Tally(most=12)
    tally.add(stock, sales)
    return tally


@pytest.mark.parametrize("periods", [1, 7, 64, 65, 1000])
def test_whole_units_give_the_product_limit_estimate_exactly(periods):
    stock, sales = records(periods)
    law, exact = filled(stock, sales).law(scale=1.0), ProductLimit(sales, sales >= stock)
    known = np.isfinite(exact.values)  # the rest is at infinity
    np.testing.assert_array_equal(law.values, exact.values[known])
    np.testing.assert_allclose(np.diff(law.below), exact.probabilities[known], rtol=1e-12)
    assert law.beyond == pytest.approx(exact.beyond, abs=1e-12)


def test_continuous_demand_is_binned_so_finely_that_the_mean_hardly_changes():
    stock, sales = records(20_000, continuous=True)
    law, exact = filled(stock, sales).law(scale=1.0), ProductLimit(sales, sales >= stock)
    most = np.array([2.0, 5.0, 9.0])
    np.testing.assert_allclose(law.means(most), exact.means(most), rtol=2e-4)


@pytest.mark.parametrize("cut", [1, 37, 64, 100, 777])
def test_records_told_in_pieces_give_the_same_bits(cut):
    stock, sales = records(800, continuous=True)
    whole, parts = filled(stock, sales), Tally(most=12)
    for first in range(0, 800, cut):
        parts.add(stock[first : first + cut], sales[first : first + cut])
    one, other = whole.state_dict(), parts.state_dict()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_block_left_out_leaves_the_estimate_of_all_others():
    stock, sales = records(256)
    tally = filled(stock, sales)
    size = int(tally.sizes[0])
    without = np.arange(tally.sizes.size) == 2
    rest = np.ones(256, dtype=bool)
    rest[2 * size : 3 * size] = False
    expected = filled(stock[rest], sales[rest]).law(scale=1.0)
    law = tally.law(scale=1.0, without=without)
    np.testing.assert_array_equal(law.values, expected.values)
    np.testing.assert_allclose(law.below, expected.below, rtol=1e-12)


@pytest.mark.parametrize("up_to", [None, 4.0, 9.5])
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("periods", [2, 5, 64, 700])
def test_all_blocks_left_out_at_once_give_the_same_bits(periods, continuous, up_to):
    tally = filled(*records(periods, seed=periods, continuous=continuous))
    shares, blocks = np.sort(np.random.default_rng(1).random(200)), np.arange(tally.sizes.size)
    laws = [tally.law(None, blocks == block, up_to=up_to) for block in blocks]
    one_by_one = [law.at(shares, law.last if up_to is None else 1e6) for law in laws]
    np.testing.assert_array_equal(tally.left_out(shares, up_to, 1e6), one_by_one)


def test_neither_cells_nor_blocks_grow_with_the_age_of_the_shop():
    tally = Tally(most=12)
    sizes = []
    for seed in range(40):
        tally.add(*records(5_000, seed, continuous=True))
        sizes.append(len(tally.entries))
    assert tally.records == 200_000
    assert tally.sizes.sum() == 200_000
    assert tally.sizes.size <= BLOCKS
    assert max(sizes) <= BLOCKS * CELLS
    assert sizes[-1] < 3 * sizes[5]


def with_stock_of_4000(sold):
    """Values of demand before and after a record of far more stock than before."""
    tally = filled(*records(500))
    before = tally.law(scale=1.0).values
    tally.add(np.array([4000.0]), np.array([sold]))
    assert tally.records == 501
    assert tally.with_stock(np.array([0.0, 3999.0])).tolist() == [501, 1]
    return before, tally.law(scale=1.0).values


def test_a_much_larger_stock_loses_no_digit_of_demand():
    before, after = with_stock_of_4000(sold=3.0)
    np.testing.assert_array_equal(after, before)


def test_much_larger_demand_joins_cells():
    before, after = with_stock_of_4000(sold=3999.0)
    assert after.size < before.size
    assert after[-1] == 3999.0


def test_the_tail_of_a_stock_that_always_sells_out_does_not_grow_with_time():
    """Its mean excess is at most twice the stock, or the prior scale."""
    for days in (3, 30, 300):
        tally = filled(np.full(days, 5.0), np.full(days, 5.0))
        assert tally.law(scale=1.0).excess <= 10.0
        assert tally.law(scale=40.0).excess <= 40.0


def test_periods_without_stock_say_nothing():
    tally = filled(np.array([0.0, 3.0]), np.array([0.0, 1.0]))
    assert tally.records == 1


def test_periods_are_counted_by_their_stock():
    tally = filled(np.array([2.0, 5.0, 5.0, 9.0]), np.array([1.0, 5.0, 2.0, 2.0]))
    assert tally.with_stock(np.array([0.0, 2.0, 5.0, 6.0, 10.0, 1e9])).tolist() == [
        4,
        4,
        3,
        1,
        0,
        0,
    ]


def test_a_stock_of_the_largest_demand_seen_hides_larger_demand():
    """Ten of 100 periods had more stock than 2; in five of these demand was 2."""
    stock = np.array([4.0] * 10 + [2.0] * 90)
    sales = np.array([1.0, 2.0] * 50)
    tally = filled(stock, sales)
    assert tally.law(scale=1.0).beyond == 0
    law = tally.law(scale=1.0, hidden=3.0)
    # 2.7 more records than these five may have had more; all records could show demand of 1.
    assert law.beyond == pytest.approx(0.5 * 2.7 / (5 + 2.7))
    assert law.below.tolist() == pytest.approx([0.0, 0.5, 1 - law.beyond])


def test_what_all_records_could_show_is_not_hidden():
    tally = filled(np.array([4.0, 4.0, 4.0]), np.array([1.0, 1.0, 3.0]))
    assert tally.law(scale=1.0, hidden=3.0).beyond == 0


def test_stock_sold_out_at_the_next_unit_tells_nothing_of_the_tail():
    """Up to 12 units were seen, 13 sold out: in whole units nothing is missing between them."""
    stock, sales = np.full(90, 13.0), np.array([*range(1, 13), 13.0, 13.0, 13.0] * 6)
    assert filled(stock, sales).law(scale=2.0).excess < 5
    assert filled(stock + 20, np.where(sales > 12, 33.0, sales)).law(scale=2.0).excess == 66


def test_rare_demand_beyond_all_stock_reaches_three_times_as_far():
    law = Law(np.array([1.0]), np.array([0.0, 0.95]), 0.05, 10.0, 0.1)
    assert law.at(np.array([0.95, 0.975, 0.99999])).round(2).tolist() == [10.0, 20.0, 30.0]
    often = Law(np.array([1.0]), np.array([0.0, 0.5]), 0.5, 10.0, 0.1)
    assert often.at(np.array([0.75])).round(2).tolist() == [10.07]


def test_the_tail_is_that_of_exponential_demand():
    """In most runs; a gap below the stock, as long as by chance, makes it longer in a few."""
    stock = np.full(4000, 5.0)
    laws = [
        filled(stock, np.minimum(np.random.default_rng(seed).exponential(4.0, 4000), stock)).law(
            1.0
        )
        for seed in range(15)
    ]
    assert np.mean([law.beyond for law in laws]) == pytest.approx(np.exp(-5 / 4), abs=0.01)
    assert np.median([law.excess for law in laws]) == pytest.approx(4.0, rel=0.15)


def test_rare_demand_far_above_all_that_was_seen_has_a_long_tail():
    """Five of a hundred periods are sold out at 30, all others sell up to 4."""
    stock, sales = np.full(100, 30.0), np.tile([0.0, 1.0, 2.0, 3.0, 4.0], 20)
    sales[::20] = 30.0
    assert filled(stock, sales).law(scale=1.0).excess > 50


def test_a_state_survives_json():
    tally, other = filled(*records(300, continuous=True)), Tally(most=12)
    state = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in tally.state_dict().items()
    }
    other.load_state_dict(json.loads(json.dumps(state)))
    for each in (tally, other):
        each.add(*records(50, 9))
    one, two = tally.law(scale=1.0), other.law(scale=1.0)
    np.testing.assert_array_equal(one.below, two.below)
    np.testing.assert_array_equal(one.values, two.values)


def test_shares_cover_every_part_once():
    shares = strata(1000)
    assert ((shares * 1000).astype(int) == np.arange(1000)).all()
    assert (np.diff(shares) > 0).all()
