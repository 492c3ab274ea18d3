"""Counterfactual costs of policies of any family, simulated on demand drawn from its estimate.

The records are kept as counts (:mod:`iopea.systems.shop.tally`), so that neither time nor memory
grows with the age of the shop. Candidates are simulated on common paths of demand drawn from the
product-limit estimate: which of them is best is found by halving, on paths that double in length.

For a *choice* of what to play the estimate is completed. Beyond all stock ever held it has an
exponential tail, and a few periods' worth of prior demand is mixed in, enough for one sale: demand
to which the policy in force at the start would be the best reply. For a *test* neither is used:
there, candidates whose cost depends on unseen demand have no estimate.

Where demand is not independent with one distribution, a shuffled path forgets it: then candidates
are simulated on the last few thousand periods in the order in which they were seen, with lost
demand filled in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from iopea.policies import Box
from iopea.problems.base import Choice, Problem
from iopea.seeds import seed_for
from iopea.state import Part, numbers, optional, parts, shaped
from iopea.systems.shop.dependence import dependence
from iopea.systems.shop.product_limit import ProductLimit, shares_of
from iopea.systems.shop.simulated import (
    FEWEST_GROUPS,
    NEGLIGIBLE,
    REACHED,
    ROUNDING,
    Simulated,
    lower_limit,
)
from iopea.systems.shop.tally import Law, Tally, strata
from iopea.types import Array, Estimates, Indices, Mask, Policy, Trajectory

#: Latest periods that are kept in order.
RECENT = 4096
#: Periods of prior demand that are mixed in for a choice: so many, and where a policy was in force
#: enough for so many sales, up to a limit.
PRIOR_PERIODS, _PRIOR_SALES, _MOST_PRIOR = 3.0, 1.0, 64.0
#: Stock and sales count up to so many times the largest inventory position: what is more informs no
#: candidate, and would only blur what is less.
_COUNTED = 2.0
#: Doubt in what few records tell of large demand, for a choice.
_DOUBT = 1.0
#: Records that may have had larger demand than they could show, log(1/δ) for δ = 0.05, or for 1/n
#: after n records, if that is less: with a fixed δ some shops would never see it. And how large at
#: least demand then was, as multiples of all stock held, for a bold choice.
_HIDDEN, _FURTHER = 3.0, (1.05, 2.0, 4.0)
#: Growth of the records from one choice to the next, about; and the fewest from which demand is
#: taken to have been much larger.
_BETWEEN, _MUCH_FROM = 1.1, 500
#: Least gain of a bold choice if demand was so large, as a share of its extra cost by estimate:
#: 1/√n after n records, and at most this.
_WORTH = 0.25
#: Multiples of the best policy that are tried beside a net of several parameters.
_SOMEWHAT = np.array([1.02, 1.05, 1.1, 1.2])
#: Least and largest length of the first path of a search, and policy-periods of each of its rounds.
_SHORT_PATH, _FIRST_PATH, _ROUND = 256, 1024, 2**19
#: Candidates compared on the last path.
FINALISTS = 32
#: Least and largest length of a long path, its length in records, and policy-periods on it at most.
_LEAST_PATH, _MOST_PATH, _PER_RECORD, _MOST_WORK = 4096, 2**20, 4, 2**28
#: Length of paths on which blocks are left out.
_JACKKNIFE_PATH = 2048
#: Batches of a path from which the error of a gain is found.
_BATCHES = 32
#: Most levels whose error is computed; those between them are interpolated.
_MOST_LEVELS = 256
#: Jackknife groups of blocks, and how many there must be for the error of a gain, unless the shop
#: was sold out: of two equal records either can be left out without any effect.
_GROUPS, _FEWEST_TO_LEAVE = 16, 4
#: Scales of demand that are tried as a prior, as shares of the largest inventory position.
_SCALES = 2.0 ** -np.arange(0.0, 16.5, 0.5)
#: Candidates beside the start to which it is compared there, those near multiples of it, and the
#: length of the path.
_COMPARED, _MULTIPLES, _PRIOR_PATH = 128, 2.0 ** np.arange(-4.0, 4.25, 0.25), 1024
#: Where play begins without a start: one part of so many of each range.
_FIRST_SHARE = 16
#: Periods without sales in which a policy shows whether it holds stock.
_UNSOLD = 4
#: Periods that must have had a stock beyond which demand counts as unseen: so many, and a share.
_FEWEST_BOUND, _SHARE_BOUND = 32, 0.1

#: Standardised dependence of demand from which nothing is eliminated, as it may be no noise.
_SUSPICIOUS = 1.5

#: What is ordered can't be undone, and shows its effect after the lead time only: errors of a gain
#: are increased as if so large a share of the memory was missing in the records.
_COMMITMENT = 0.25

#: Draws a path of demand of a length.
Draw = Callable[[int], Array]


class LawSimulation(Simulated):
    """Simulates candidates on demand drawn from the product-limit estimate of all records.

    Tests use a jackknife: the distribution is estimated again without each block of records, and
    candidates are simulated on the same quantiles. The error that is due to the length of the path
    is added.
    """

    sees_beyond = True
    assumes_law = True
    saved = parts(
        tally=Part, recent=shaped(2, -1), scale=optional(float), weight=float, in_order=bool,
        empty=int, played=optional(numbers),
    )  # fmt: skip

    def __init__(
        self, problem: Problem, policies: Array, threads: int = 1, precision: str = "float64"
    ) -> None:
        super().__init__(problem, policies, threads, precision)
        self._tally = Tally(self._bound)
        self._recent = np.empty((2, 0))
        self._scale: float | None = None
        self._weight = PRIOR_PERIODS
        self._in_order = False
        self._empty = 0  # periods since there was stock under the policy in force
        self._played: Policy | None = None
        self._known: Estimates | None = None
        self._limit: float | None = None
        self._some: Mask | None = None
        self._least: Policy | None = None

    def observe(self, trajectory: Trajectory, evaluate: bool) -> int:
        """Add observed periods, all of which count."""
        sales, stock = self._seen(trajectory)
        self._follow(trajectory, evaluate)
        if not evaluate:
            return 0
        self._count_empty(trajectory, stock)
        counted = np.minimum([stock, sales], _COUNTED * self._bound)
        self._tally.add(*counted)
        self._recent = np.hstack([self._recent, counted])[:, -RECENT:]
        self._known = self._limit = None
        return len(trajectory)

    def _count_empty(self, trajectory: Trajectory, stock: Array) -> None:
        """Count periods since there was stock under the policy in force."""
        if trajectory.policy != self._played:
            self._played, self._empty = trajectory.policy, 0
        some = np.flatnonzero(stock > 0)
        if some.size:
            self._empty = -int(some[-1]) - 1
        self._empty += stock.size

    def _follow(self, trajectory: Trajectory, evaluate: bool) -> None:
        """Follow the real shop."""
        self._real.add(trajectory)

    def begin(self, start: Policy | None) -> Policy:
        """Take a policy as the best reply to prior demand, whose scale follows from it.

        Without one, or if it holds no stock, it is the policy at a 16th of each range, or the
        nearest to it that holds some.
        """
        self._least = self._least_stock()
        in_force = start is not None and bool(self._holds(np.array([start])).any())
        first = start if start is not None and in_force else self._low()
        self._scale = self._scale_for(first)
        if in_force and self._unit is not None:
            enough = _PRIOR_SALES * (1 + self._unit / self._scale)
            self._weight = min(max(PRIOR_PERIODS, enough), _MOST_PRIOR)
        return first

    def _low(self) -> Policy:
        """The policy at a 16th of each range, or the nearest that holds stock."""
        low, high = self._policies.min(axis=0), self._policies.max(axis=0)
        reach = np.where(high > low, high - low, 1.0)
        apart = np.abs((self._policies - low) / reach - 1 / _FIRST_SHARE).max(axis=1)
        some = self._holds(self._policies)
        nearest = np.where(some | ~some.any(), apart, np.inf).argmin()
        return tuple(map(float, self._policies[nearest]))

    def _least_stock(self) -> Policy | None:
        """The policy that holds least of those that hold stock, where nothing is sold."""
        held = self._stock_of(np.zeros(_UNSOLD), self._policies)
        if not (held > 0).any():
            return None
        return tuple(map(float, self._policies[np.where(held > 0, held, np.inf).argmin()]))

    @property
    def blind(self) -> bool:
        """Whether none of the policies ever holds stock."""
        return not self._stocked.any()

    def _holds(self, policies: Array) -> Mask:
        """Policies that order something for an empty shop in which nothing is sold."""
        return np.asarray(self._stock_of(np.zeros(_UNSOLD), policies) > 0)

    def _stock_of(self, demand: Array, policies: Array) -> Array:
        """Sums of the stock of policies on one path."""
        end = np.array([demand.size], dtype=np.intp)
        return np.asarray(self._simulate(demand[None], end, policies, stock=True)[0, 0])

    def _scale_for(self, start: Policy) -> float:
        """The mean of prior demand to which a policy is the best reply."""
        known = self._problem.policy_class
        per_axis = max(2, int(_COMPARED ** (1 / known.dimension)))
        others = known.thinned(per_axis, known.extent / per_axis or 1.0)
        policies = np.vstack([others, self._near_multiples(start), start])
        order = np.random.default_rng(seed_for("prior")).permutation(_PRIOR_PATH)
        paths = (
            self._prior_demand(scale, strata(_PRIOR_PATH))[order] for scale in self._bound * _SCALES
        )
        costs = np.array([self._means(path, policies) for path in paths])
        least = costs.min(axis=1)
        extra = (costs[:, -1] - least) / np.maximum(np.ptp(costs, axis=1), 1e-300)
        best = np.flatnonzero(extra <= extra.min() * (1 + 1e-9))
        # The highest policy is the best reply to all large demand, the lowest to all small demand.
        place = best.size // 2
        if best[0] == 0:
            place = -1
        elif best[-1] == _SCALES.size - 1:
            place = 0
        return float(self._bound * _SCALES[best[place]])

    def _near_multiples(self, start: Policy) -> Array:
        """The policies nearest to multiples of a policy."""
        low, high = self._policies.min(axis=0), self._policies.max(axis=0)
        reach = np.where(high > low, high - low, 1.0)
        wanted = np.clip(np.array(start) * _MULTIPLES[:, None], low, high)
        nearest = [np.abs((self._policies - each) / reach).max(axis=1).argmin() for each in wanted]
        return np.asarray(self._policies[np.unique(nearest)])

    def _prior_demand(self, mean: float, shares: Array) -> Array:
        """Quantiles of prior demand: geometric in steps of the class, exponential without them."""
        surprise = -np.log1p(-shares)
        if self._unit is None:
            return np.asarray(mean * surprise)
        return np.asarray(self._unit * np.floor(surprise / math.log1p(self._unit / mean)))

    @property
    def _unit(self) -> float | None:
        """The step of the class, in which demand is taken to come before there are records."""
        known = self._problem.policy_class
        return max(known.step) if isinstance(known, Box) and known.step else None

    def doubt(self) -> None:
        """Simulate the last periods in the order in which they were seen, from now on."""
        self._in_order, self._known = True, None

    @property
    def suspicious(self) -> bool:
        """Whether demand may depend on the demand before it, by the last periods."""
        return dependence(*self._recent) > _SUSPICIOUS

    @property
    def _periods(self) -> int:
        return self._tally.records

    def _means(self, demand: Array, policies: Array) -> Array:
        """Mean cost of policies on a path, or on several consecutive ones (k, periods)."""
        periods = demand.shape[-1]
        end = np.array([periods], dtype=np.intp)
        means = self._simulate(demand.reshape(-1, periods), end, policies)[:, 0] / periods
        return np.asarray(means[0] if demand.ndim == 1 else means)

    def choose(self, current: Policy | None = None) -> Choice | None:
        """The estimated best policy among the candidates; None without records."""
        among = self._candidates()
        patience = _UNSOLD + self._problem.constants.memory
        if self._played is not None and self._empty > patience and self._orders(self._played):
            higher = self._higher(among, self._played)
            return Choice(higher, math.inf, 0.0, holds_more=True)
        if not self._periods:
            return None
        rng = np.random.default_rng(seed_for("choice", self._periods))
        law = self._tally.law(self._prior, doubt=_DOUBT)
        draw = self._path(law, rng)
        finalists, costs = self._search(among, draw, current)
        best = tuple(map(float, finalists[costs.argmin()]))
        gain, error, more = 0.0, 0.0, False
        if current is not None and costs[-1] > costs.min():
            gain = float(costs[-1] - costs.min())
            both, path = np.array([current, best]), draw(_LEAST_PATH)
            held = self._stock_of(path, both)
            more = bool(held[1] > held[0])
            error = self._error_of_gain(gain, both, path, more)
            error *= math.sqrt(1 + _COMMITMENT * self._problem.constants.memory / self._periods)
        bolder = None
        if not self._holds(np.array([best])).any():
            bolder = self._showing(best, draw, rng)
        elif not self._in_order:
            bolder = self._bolder(among, best, draw, rng)
        return Choice(best, gain, error, bolder, more, self._periods)

    def _orders(self, policy: Policy) -> bool:
        """Whether stock is missed where there is none: it was ordered, or there are no records."""
        return not self._periods or bool(self._holds(np.array([policy])).any())

    def _higher(self, policies: Array, policy: Policy) -> Policy:
        """The policy that holds least of those that hold twice as much as this one, or the most.

        Under this one nothing arrived: its orders are too small to be delivered.
        """
        nothing = np.zeros(_UNSOLD)
        held = self._stock_of(nothing, policies)
        twice = held >= 2 * self._stock_of(nothing, np.array([policy]))[0]
        best = np.where(twice, held, np.inf).argmin() if twice.any() else held.argmax()
        return tuple(map(float, policies[best]))

    @property
    def _prior(self) -> float:
        return self._bound / 2 if self._scale is None else self._scale

    @property
    def _stocked(self) -> Mask:
        """Which of the policies ever hold stock."""
        if self._some is None:
            self._some = self._holds(self._policies)
        return self._some

    def _candidates(self) -> Array:
        """Survivors that may be chosen; of those that hold no stock, which are alike, the first."""
        among = self._stocked.copy()
        stable = self.may_play
        if stable is not None and (among & stable).any():
            among &= stable
        among[np.flatnonzero(~self._stocked)[:1]] = True
        return self._policies[among]

    def _path(self, law: Law, rng: np.random.Generator) -> Draw:
        """Draws paths of demand for a choice."""
        if self._in_order:
            return self._as_seen()

        def draw(periods: int) -> Array:
            return self._completed(law, rng.permutation(periods))

        return draw

    def _completed(self, law: Law, order: Indices, far: float | None = None) -> Array:
        """A path of the estimate mixed with prior demand: its quantiles in this order."""
        prior = self._weight / (self._periods + self._weight) if self._scale else 0.0
        shares = strata(order.size)
        mixed = int(np.searchsorted(shares, prior))
        first = self._prior_demand(self._prior, shares[:mixed] / (prior or 1.0))
        return np.append(first, law.at((shares[mixed:] - prior) / (1 - prior), far))[order]

    def _as_seen(self) -> Draw:
        stock, sales = self._recent
        out = sales >= stock
        demand = ProductLimit(sales, out).demand(shares_of(sales.size)) if out.any() else sales
        demand = np.where(np.isinf(demand), sales.max(), demand)
        return lambda periods: np.resize(demand, periods)

    def _search(
        self, policies: Array, draw: Draw, current: Policy | None = None
    ) -> tuple[Array, Array]:
        """The best policies by halving, and their mean costs; the last one is the current one."""
        longest = self._path_length(FINALISTS)
        periods = int(np.clip(_ROUND // len(policies), _SHORT_PATH, _FIRST_PATH))
        while len(policies) > FINALISTS:
            costs = self._means(draw(min(periods, longest)), policies)
            kept = max(FINALISTS, len(policies) // 2)
            policies = policies[np.sort(np.argpartition(costs, kept - 1)[:kept])]
            periods *= 2
        if current is not None:
            policies = np.vstack([policies, current])
        return policies, self._means(draw(longest), policies)

    def _path_length(self, policies: int) -> int:
        """Length of a path on which so many policies are compared."""
        most = min(max(_MOST_WORK // max(policies, 1), _JACKKNIFE_PATH), _MOST_PATH)
        return int(np.clip(_PER_RECORD * self._periods, _LEAST_PATH, most))

    def _error_of_gain(self, gain: float, both: Array, demand: Array, more: bool) -> float:
        """Standard error of the difference of two policies: the lesser of two.

        One is that of as many periods of the estimated demand. The other is found by a jackknife,
        which is wild where nearly all periods were sold out, and left out where the gain exceeds
        the first, or where there are few records.
        """
        ends = np.arange(1, _BATCHES + 1, dtype=np.intp) * (demand.size // _BATCHES)
        costs = self._simulate(demand[None, : ends[-1]], ends, both)[0]
        error = float((costs[:, 0] - costs[:, 1]).std() / math.sqrt(ends[0] * self._periods))
        groups = _groups(self._tally.sizes.size)
        fewest = 2 if more and self._sold_out_lately() > 0 else _FEWEST_TO_LEAVE
        if gain > error or groups[-1] < fewest - 1 or self._in_order:
            return error
        order = np.random.default_rng(seed_for("gain")).permutation(_JACKKNIFE_PATH)
        laws = (
            self._tally.law(self._prior, groups == group, doubt=_DOUBT)
            for group in range(groups[-1] + 1)
        )
        costs = self._means(np.array([self._completed(law, order) for law in laws]), both)
        return min(error, float((costs[:, 0] - costs[:, 1]).std() * math.sqrt(groups[-1])))

    def _bolder(
        self, policies: Array, best: Policy, draw: Draw, rng: np.random.Generator
    ) -> Policy | None:
        """A policy that holds more than the best one, and pays if demand was larger than was seen.

        A low stock hides what exceeds it, and few records with more stock may have missed it. If
        demand was as large as these few allow, this policy gains the share 1/√n of what it costs
        if demand is as estimated. The more records could have shown it, the less it gains.

        How much larger demand was does not matter where costs are proportional to stock: then a
        little more shows as well whether it pays. Where the shop has a cost of its own, a rent of
        more stock, say, it is asked now and then whether it pays if demand was much larger.
        """
        law = self._tally.law(None, hidden=self._unseen)
        if not law.beyond > 0 or not law.values.size:
            return None
        unit = max(np.diff(law.values).min(initial=law.last), self._tally.width)
        if policies.shape[1] > 1:
            policies = np.vstack([policies, self._somewhat_above(best)])
        for reach in _FURTHER if self._looks_far else _FURTHER[:1]:
            far = max(law.last + unit, reach * law.end)
            bolder = self._best_reply(policies, best, law, far, draw, rng)
            if bolder is not None:
                return bolder
        return None

    def _best_reply(
        self,
        policies: Array,
        best: Policy,
        law: Law,
        far: float,
        draw: Draw,
        rng: np.random.Generator,
    ) -> Policy | None:
        """The best policy if what exceeds the law is this far, if it holds more and that pays."""

        def larger(periods: int) -> Array:
            return self._completed(law, rng.permutation(periods), far)

        finalists, costs = self._search(policies, larger, best)
        bolder = finalists[costs.argmin()]
        both, path = np.array([best, bolder]), draw(_LEAST_PATH)
        before, after = self._means(path, both)
        if costs[-1] - costs.min() <= max(self._worth * (after - before), 0.0):
            return None
        held = self._stock_of(path, both)
        return tuple(map(float, bolder)) if held[1] > held[0] else None

    @property
    def _looks_far(self) -> bool:
        """Whether records of a shop with an own cost have doubled since about the last choice."""
        if self._periods < _MUCH_FROM or getattr(self._problem.system, "own_cost", None) is None:
            return False
        before = self._periods / _BETWEEN
        return math.floor(math.log2(self._periods)) > math.floor(math.log2(before))

    @property
    def _unseen(self) -> float:
        """Records that may have had larger demand than they could show."""
        return max(_HIDDEN, math.log(self._periods))

    @property
    def _worth(self) -> float:
        """Least gain of a bold choice, as a share of its extra cost by estimate."""
        return min(_WORTH, 1 / math.sqrt(self._periods))

    def _showing(self, best: Policy, draw: Draw, rng: np.random.Generator) -> Policy | None:
        """The policy that holds least, if that may pay, where holding nothing seems best.

        Without stock no demand is seen. As above, some records more may have had any demand.
        """
        if self._least is None or len(self._policies) < 2:
            return None
        both, path = np.array([best, self._least]), draw(_LEAST_PATH)
        before, after = self._means(path, both)
        share = self._unseen / (self._periods + self._unseen)
        at = rng.permutation(path.size)[: round(path.size * share)]
        path[at] = self._endless
        nothing, least = self._means(path, both)
        return self._least if nothing - least > max(self._worth * (after - before), 0.0) else None

    def _somewhat_above(self, best: Policy) -> Array:
        """Policies of the class above one of a net, whose next points may be too far to pay."""
        known = self._problem.policy_class
        low, high = self._policies.min(axis=0), self._policies.max(axis=0)
        points = np.clip(np.array(best) * _SOMEWHAT[:, None], low, np.maximum(high, best))
        if isinstance(known, Box) and known.step:
            start = np.array(known.low)
            points = start + known.step * np.ceil((points - start) / known.step - ROUNDING)
        return np.array([best, *(point for point in points if known.contains(point))])

    def means_of(self, policies: Array) -> Array:
        """Estimated costs of any policies from all records."""
        if not self._periods:
            return np.full(len(policies), np.nan)
        rng = np.random.default_rng(seed_for("means", self._periods))
        draw = self._path(self._tally.law(self._prior), rng)
        return self._means(draw(self._path_length(len(policies))), policies)

    def estimates(self) -> Estimates:
        """Costs by block of all candidates; computed once for the same records."""
        if self._known is None:
            self._known = self._estimate()
        return self._known

    def _estimate(self) -> Estimates:
        count = len(self._policies)
        sizes = self._tally.sizes.astype(np.float64)
        if not sizes.size:
            return Estimates(np.empty((0, count)), np.empty(0))
        return self._of_stable(lambda some: some._of_all(sizes))

    def _of_all(self, sizes: Array) -> Estimates:
        records, policies = self._periods, self._policies
        rng = np.random.default_rng(seed_for("test", records))
        law = self._tally.law(self._prior)
        periods = self._path_length(len(policies))
        ends = np.arange(1, sizes.size + 1, dtype=np.intp) * max(periods // sizes.size, 1)
        order = rng.permutation(ends[-1])
        low = _path_at(law, order, law.last)
        sums, means = self._sums(sizes, low, ends, policies)
        sums += self._law_error(sizes, rng)
        held = self._mean_stock(low[:_LEAST_PATH])
        effective, effect = self._effective_steps(held), self._effect(held)
        unsure = np.zeros(len(policies))
        told = np.ones(len(policies), dtype=np.bool_)
        if law.beyond > 0:
            change = np.abs(self._means(_path_at(law, order, self._endless), policies) - means)
            error = np.sqrt(((sums - sizes[:, None] * means) ** 2).sum(axis=0)) / records
            told = change <= np.maximum(NEGLIGIBLE * error, self._tolerance)
            unsure = np.where(change > self._tolerance, change, 0.0)
        self._bound_unseen(sizes, order, ends, rng, means, sums, effective, unsure, told)
        return Estimates(
            sums * told,
            sizes if told.all() else sizes[:, None] * told,
            effective_steps=effective,
            effect=effect,
            unsure=unsure if unsure.any() else None,
        )

    def _sums(
        self, sizes: Array, demand: Array, ends: Indices, policies: Array
    ) -> tuple[Array, Array]:
        """Batch costs on a path, each for as many periods as a block has, and mean costs."""
        batches = self._simulate(demand[None], ends, policies)[0] / ends[0]
        return sizes[:, None] * batches, batches.mean(axis=0)

    def _bound_unseen(
        self,
        sizes: Array,
        order: Indices,
        ends: Indices,
        rng: np.random.Generator,
        means: Array,
        sums: Array,
        effective: Array,
        unsure: Array,
        told: Mask,
    ) -> None:
        """Bound the cost of policies that hold more stock than was held, in place.

        That demand exceeded a stock is seen in all periods that had it, however large it was. So
        the cost of such a policy is at least what it is if all demand beyond that stock is endless,
        and that of the best one at most what it is if none exceeds it. As a bound is no estimate,
        policies whose bound is below the estimated best cost are left without one.
        """
        enough = max(_FEWEST_BOUND, _SHARE_BOUND * self._periods)
        most = self._tally.held_by(enough)
        few = (effective < enough) | ~told
        judged = told & ~few
        if most <= 0 or not few.any() or not judged.any():
            return
        law = self._tally.law(self._prior, up_to=most)
        best = np.flatnonzero(judged)[means[judged].argmin()]
        least_path, path = (_path_at(law, order, far) for far in (most, self._endless))
        dearer = self._means(least_path, self._policies[[best]])[0] - means[best]
        other = self._with(self._policies[few])
        bounds, least = other._sums(sizes, path, ends, other._policies)
        bounds += other._law_error(sizes, rng, most)
        above = least > means[best]
        told[few] = above
        sums[:, few] = bounds
        effective[few] = enough
        unsure[few] = np.where(above, max(float(dearer), 0.0), 0.0)

    def _law_error(
        self, sizes: Array, rng: np.random.Generator, up_to: float | None = None
    ) -> Array:
        """Deviations of the cost sums of each block, by a jackknife; they add up to 0.

        With ``up_to``, all demand beyond this stock is endless; otherwise as small as possible.
        """
        if sizes.size < 2:
            return np.zeros((sizes.size, len(self._policies)))
        some, spread = self._some_of_all()
        order = rng.permutation(_JACKKNIFE_PATH)
        demands = self._tally.left_out(strata(_JACKKNIFE_PATH), up_to, self._endless)
        costs = self._means(demands[:, order], self._policies[some])
        change = (sizes.sum() - sizes)[:, None] * (costs.mean(axis=0) - costs)
        change -= sizes[:, None] * (change.sum(axis=0) / sizes.sum())
        return spread(change)

    def _some_of_all(self) -> tuple[Indices, Callable[[Array], Array]]:
        """Candidates whose errors are computed, and what makes of them the errors of all.

        Levels are interpolated between some of them, since errors are a smooth function of the
        level; other policies have the error of the nearest.
        """
        count, dimension = self._policies.shape
        if dimension > 1 or count <= _MOST_LEVELS:
            some, nearest = self._representatives()
            return some, lambda errors: np.asarray(errors[:, nearest])
        some = np.unique(np.linspace(0, count - 1, _MOST_LEVELS).round().astype(np.intp))
        levels = self._policies[:, 0]
        return some, lambda errors: np.array(
            [np.interp(levels, levels[some], block) for block in errors]
        )

    @property
    def _latest(self) -> tuple[Array, Array]:
        return self._recent[0], self._recent[1]

    def _with_stock(self, sizes: Array) -> Indices:
        return self._tally.with_stock(sizes)

    def _surely(self) -> float:
        if self._limit is None:
            self._limit = self._lower_limit()
        return self._limit

    def _lower_limit(self) -> float:
        used = self._tally.sizes.size
        groups = min(_GROUPS, used)
        if groups < FEWEST_GROUPS:
            return 0.0
        of_block = _groups(used)
        most = np.unique(self._tally.stock_quantiles(np.array(REACHED)))
        left_out = np.array(
            [self._tally.law(None, of_block == group).means(most) for group in range(groups)]
        )
        return lower_limit(self._tally.law(None).means(most), left_out)

    def forget(self) -> None:
        """Drop all records."""
        self._tally, self._recent = Tally(self._bound), np.empty((2, 0))
        self._known = self._limit = None

    def keep(self, mask: Mask) -> None:
        """Keep only these policies."""
        self._policies = self._policies[mask]
        self._known = self._some = None

    def _loaded(self) -> None:
        self._known = self._limit = self._some = None


def _groups(used: int) -> Indices:
    """The jackknife group of each of so many blocks."""
    return np.arange(used) * min(_GROUPS, used) // used


def _path_at(law: Law, order: Indices, far: float) -> Array:
    """A path of the law, its quantiles in this order, with all demand beyond its end at ``far``."""
    return np.asarray(law.at(strata(order.size), far)[order])
