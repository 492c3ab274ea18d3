"""What really happened can be told: orders, arrivals, gaps, and data of any policy."""

import copy

import numpy as np
import pytest

import iopea
from iopea import IOPEA, InputError, LostSales, ModelMismatchError, Trajectory
from iopea.systems import PROBLEMS
from iopea.systems.lost_sales import kernel as kernels
from iopea.testing.twins import assert_same_state
from shop_floor import ShopFloor

#: Best levels of a shop with Poisson(8) demand, h = 1, p = 10, by 400,000 periods of each level.
BEST = {
    (2, 0, "down"): 29.0,
    (2, 6, "down"): 32.0,
    (2, 12, "up"): 26.0,
    (2, 24, "nearest"): 35.0,
    (1, 0, "down"): 21.0,
    (3, 0, "down"): 37.0,
    (4, 0, "down"): 45.0,
    (0, 0, "down"): 12.0,
}


def shop(lead_time=2, high=80.0, step=1.0, **more):
    levels = {"low": 0, "high": high} | ({} if step is None else {"step": step})
    return LostSales(lead_time=lead_time, holding_cost=1, lost_sales_cost=10, levels=levels, **more)


def told(learner):
    return " ".join(learner.warnings)


CASES = [
    ({"multiple": 6.0}, "multiples of 6"),
    ({"multiple": 12.0, "rounding": "up"}, "multiples of 12"),
    ({"multiple": 24.0, "rounding": "nearest"}, "multiples of 24"),
    ({"lead_time": 0}, "a lead time of 0, not 2"),
    ({"lead_time": 1}, "a lead time of 1, not 2"),
    ({"lead_time": 3}, "a lead time of 3, not 2"),
    ({"lead_time": 4}, "a lead time of 4, not 2"),
    ({"skipped": 0.05}, "missing after steps"),
    ({"evening": True}, "that of the evening"),
]


@pytest.mark.parametrize("play", ["maximal", "frugal"])
@pytest.mark.parametrize(("floor", "reason"), CASES)
def test_without_the_columns_nothing_is_eliminated_and_the_reason_is_named(floor, reason, play):
    for seed in range(3 if play == "maximal" else 1):
        learner = IOPEA(shop(), play=play, start=None if play == "maximal" else 20.0, horizon=600)
        if play == "frugal" and "evening" in floor:  # a low level sells more than is left over
            with pytest.raises(ModelMismatchError, match=reason):
                ShopFloor(seed=seed, **floor).teach(learner, 600)
            continue
        ShopFloor(seed=seed, **floor).teach(learner, 600)
        assert reason in told(learner)
        assert "nothing more is eliminated" in told(learner)
        if "skipped" not in floor:  # these are wrong from the first day
            assert learner.survivors == learner.count


@pytest.mark.parametrize("play", ["maximal", "frugal"])
@pytest.mark.parametrize(("floor", "reason"), CASES)
def test_with_the_columns_records_are_followed(floor, reason, play):
    """The best level of the shop as it is survives, and most others don't.

    It may be lost with a probability of 0.05: all of three runs with one of 1e-4.
    """
    best = BEST[
        (floor.get("lead_time", 2), floor.get("multiple", 0), floor.get("rounding", "down"))
    ]
    kept = []
    for seed in range(3 if play == "maximal" else 1):
        learner = IOPEA(shop(), play=play, horizon=600)
        ShopFloor(seed=seed, told=True, **floor).teach(learner, 600)
        kept.append(learner.survives(best))
        assert learner.survivors < (24 if play == "maximal" else learner.count)
        assert "nothing more is eliminated" not in told(learner)
        if "skipped" not in floor:
            assert reason in told(learner)
            assert "judged accordingly" in told(learner)
    assert any(kept)


def test_clean_records_are_judged_alike_with_and_without_the_columns():
    plain = ShopFloor(seed=4).teach(IOPEA(shop(), horizon=1500), 1500)
    told_more = ShopFloor(seed=4, told=True).teach(IOPEA(shop(), horizon=1500), 1500)
    assert not plain.warnings
    assert not told_more.warnings
    assert abs(plain.survivors - told_more.survivors) <= 2
    assert plain.recommend() == pytest.approx(told_more.recommend(), abs=1.0)


def replay_twin(demand, played, filled, level, lead_time, multiple, rounding, warm_up):
    """One level, one period after the other; the periods that told of it, and their cost."""
    floor = ShopFloor(lead_time=lead_time, multiple=multiple, rounding=rounding)
    costs = []
    for t in range(-warm_up, demand.size):
        if level > played[t]:
            continue
        order = floor.order(level)
        floor.pipeline.append(order)
        stock = floor.on_hand + filled[t] * floor.pipeline.pop(0)
        sales = min(stock, demand[t])
        floor.on_hand = stock - sales
        if t >= 0:
            costs.append(floor.on_hand - 10 * sales)
    return len(costs), sum(costs)


@pytest.mark.parametrize("lead_time", [0, 1, 3])
@pytest.mark.parametrize(
    ("multiple", "rounding"), [(0, "up"), (6, "up"), (6, "down"), (5, "nearest")]
)
def test_the_kernel_equals_its_twin(lead_time, multiple, rounding):
    rng = np.random.default_rng(lead_time)
    demand = rng.poisson(8, 200).astype(float)
    played = rng.choice([20.0, 40.0, 60.0], 200)
    filled = rng.choice([1.0, 0.5], 200)
    levels = np.array([0.0, 12.0, 20.0, 33.0, 60.0])
    sums, sizes = kernels.replay_orders(
        demand, played, filled, levels, np.array([50, 120, 200]), lead_time, float(multiple),
        rounding, (1.0, 10.0), 8,
    )  # fmt: skip
    for j, level in enumerate(levels):
        steps, cost = replay_twin(demand, played, filled, level, lead_time, multiple, rounding, 8)
        assert sizes[:, j].sum() == steps
        assert sums[:, j].sum() == pytest.approx(cost, abs=1e-9)


def test_a_cost_of_ones_own_is_charged_on_told_records():
    def per_order(stock, sales, order):
        return 5.0 if order > 0 else 0.0

    problem = shop(period_cost=per_order, cost_bound=5.0)
    path = ShopFloor(told=True).play(80.0, 300)
    dear, cheap = problem.evaluator(np.array([[30.0]])), shop().evaluator(np.array([[30.0]]))
    for evaluator in (dear, cheap):
        evaluator.observe(path, True)
    difference = dear.estimates().mean[0] - cheap.estimates().mean[0]
    assert 4.5 < difference <= 5.0  # something is ordered in nearly every period


def test_data_of_another_level_tells_of_levels_up_to_it():
    problem = shop()
    learner = IOPEA(problem, play="maximal")
    floor = ShopFloor(seed=2)
    learner.tell(floor.play(40.0, 400))
    assert learner.steps == 400
    estimates = learner.estimates()
    levels = learner.surviving[:, 0]
    assert np.isfinite(estimates.mean[levels <= 40]).all()
    assert np.isnan(estimates.mean[levels > 40]).all()
    assert learner.ask().policy == (80.0,)
    learner.tell(floor.play(80.0, learner.ask().steps))
    assert np.isfinite(learner.estimates().mean).all()


def test_data_that_tells_as_much_moves_the_epochs_on():
    learner = IOPEA(shop())
    floor = ShopFloor(seed=2)
    floor.teach(learner, 1000)
    (asked,) = learner.ask().policy
    epoch, steps = learner.epoch, learner.steps
    learner.tell(floor.play(min(asked + 3, 80.0), 3000))
    assert learner.epoch > epoch
    assert learner.steps == steps + 3000
    assert learner.survives(BEST[(2, 0, "down")])


@pytest.mark.parametrize("kind", sorted(PROBLEMS))
def test_any_policy_of_the_class_can_be_told(kind):
    problem, truth = PROBLEMS[kind].example()
    learner, system = IOPEA(problem), problem.simulator(truth, seed=3)
    rng = np.random.default_rng(1)
    for policy in problem.policy_class.sample(rng, 5):
        path = system.play(tuple(map(float, policy)), 20).trajectory
        learner.tell(path)
    assert learner.steps == 100
    result = iopea.run(learner, system, 200)
    assert len(result.costs) == 200


@pytest.mark.parametrize("floor", [{"told": True, "multiple": 6.0}, {"told": True, "skipped": 0.1}])
def test_told_records_resume_bit_for_bit_in_any_pieces(floor):
    path = ShopFloor(seed=1, **floor).play(80.0, 90)
    whole, pieces = IOPEA(shop(), first_epoch=100), IOPEA(shop(), first_epoch=100)
    whole.tell(path)
    for first, last in ((0, 1), (1, 7), (7, 60), (60, len(path))):
        pieces.tell(path.part(first, last))
        saved = copy.deepcopy(pieces.state_dict())
        pieces = IOPEA(shop(), first_epoch=100)
        pieces.load_state_dict(saved)
    assert_same_state(pieces.state_dict(), whole.state_dict())
    np.testing.assert_array_equal(pieces.estimates().sums, whole.estimates().sums)


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_short_deliveries_are_followed(share):
    """One delivery in ten, or two in five, is a fifth short; the shop orders it again."""
    floor = ShopFloor(seed=3, told=True, short=share)
    learner = floor.teach(IOPEA(shop(), play="maximal", horizon=1000), 1000)
    assert "deliveries were not what was ordered: candidates are delivered the same" in told(
        learner
    )
    assert "missing" not in told(learner)
    assert learner.survivors < 15
    blind = ShopFloor(seed=3, short=share).teach(IOPEA(shop(), horizon=1000), 1000)
    assert "ordered and received" in told(blind)
    assert "more of them will not help" in blind.outlook


def test_a_history_may_be_longer_than_what_was_asked_for():
    learner = IOPEA(shop())
    learner.tell(ShopFloor(seed=2).play(80.0, 1000))
    assert learner.steps == 1000
    assert learner.epoch > 10
    assert learner.survives(BEST[(2, 0, "down")])
    assert learner.survivors < 20
    back = IOPEA(shop(), restart="return")
    with pytest.raises(InputError, match="Cannot tell 1000 steps"):
        back.tell(ShopFloor(seed=2).play(80.0, 1000))


@pytest.mark.parametrize("evening", [False, True])
def test_a_change_of_demand_is_noticed_on_told_records(evening):
    floor = ShopFloor(seed=1, told=True, evening=evening)
    learner = floor.teach(IOPEA(shop(), horizon=3000), 1000)
    assert "seems to have changed" not in told(learner)
    floor.mean = 3.0
    floor.teach(learner, 1000)
    assert "seems to have changed" in told(learner)


def test_records_before_the_columns_count_if_they_fit():
    learner = IOPEA(shop(), play="maximal")
    floor = ShopFloor(seed=5)
    floor.teach(learner, 300)
    before = learner.estimates().steps.max()
    floor.told = True
    floor.teach(learner, 300)
    assert learner.estimates().steps.max() == before + 300
    wrong = IOPEA(shop(), play="maximal")
    floor = ShopFloor(seed=5, multiple=12.0)
    floor.teach(wrong, 300)
    floor.told = True
    floor.teach(wrong, 300)
    assert wrong.estimates().steps.max() == 300


BAD = [
    ({"received": [-1.0, 2.0]}, "received is -1.0 at step 0: it can't be negative"),
    ({"received": [np.nan, 2.0]}, "received is nan at step 0"),
    ({"ordered": [1.0]}, "differ in length"),
    ({"ordered": [0.0, -2.0]}, "ordered is -2.0 at step 1: it can't be negative"),
    ({"gap": [0.0, 0.5]}, "gap is 0.5 at step 1: give the number of periods"),
    ({"gap": [0.0, -1.0]}, "gap is -1.0 at step 1"),
    ({"gap": [2.0**63, 0.0]}, "at most 100,000"),
    ({"delivered": [0.0, 0.0]}, "may have ordered, received, gap"),
]


@pytest.mark.parametrize(("columns", "words"), BAD)
def test_bad_columns_are_refused_and_change_nothing(columns, words):
    learner = IOPEA(shop())
    before = copy.deepcopy(learner.state_dict())
    with pytest.raises(InputError, match=words):
        learner.tell(Trajectory(80.0, stock=[80.0, 70.0], sales=[3.0, 1.0], **columns))
    assert_same_state(learner.state_dict(), before)


def test_sales_above_the_stock_are_refused_with_a_hint_at_the_evening():
    learner = IOPEA(shop())
    with pytest.raises(ModelMismatchError, match=r"above the 2\.0 in stock: .* evening"):
        learner.tell(Trajectory(80.0, stock=[2.0], sales=[9.0]))
    learner.tell(Trajectory(80.0, stock=[2.0], sales=[9.0], received=[11.0]))
    assert learner.steps == 1


def test_two_suppliers_say_why_records_do_not_fit():
    levels = {"low": 0, "high": 60, "step": 1}
    common = {
        "holding_cost": 1, "lost_sales_cost": 10, "expedited_cost": 0.5,
        "expedited_levels": levels, "regular_levels": levels, "expedited_lead_time": 0,
    }  # fmt: skip
    believed = iopea.DualSourcing(regular_lead_time=3, **common)
    true = iopea.DualSourcing(regular_lead_time=4, **common)
    law = iopea.demand.Poisson(mean=4)
    for problem, evening, reason in (
        (true, False, "a lead time of 4 for regular orders, not 3"),
        (believed, True, "that of the evening"),
        (believed, False, None),
    ):
        system = problem.simulator(law, seed=1)
        learner = IOPEA(believed, play="maximal", radius=6.0)
        while learner.steps < 300:
            play = learner.ask()
            path = system.play(play.policy, play.steps).trajectory
            stock = path["stock"] - path["sales"] if evening else path["stock"]
            sales = np.minimum(path["sales"], stock)
            learner.tell(Trajectory(play.policy, stock=stock, sales=sales))
        if reason is None:
            assert learner.survivors < learner.count
            assert not learner.warnings
        else:
            assert reason in told(learner)
            assert learner.survivors == learner.count
