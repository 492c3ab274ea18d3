"""Realistic sales tables whose truth is known: what was wanted, not only what was sold.

Demand of item i in period t has a negative binomial law with mean

    scale_i · (1 + trend_i · t/T) · (1 + season_i · sin(2π (t - peak_g) / year)) · weekday,

where g is the group of the item and t runs from 0 to T: items of a group peak together. A third of
the parameters is that of slow items, which sell nothing in most periods, a third that of fast ones.
Stock is the result of a policy that somebody had in force, and so are the stock-outs.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from iopea.demand import NegativeBinomial
from iopea.errors import InputError
from iopea.model import check_choice, check_count, check_nonnegative, check_seed
from iopea.seeds import seed_for
from iopea.systems.lost_sales import LostSales
from iopea.tables.reading import Frequency
from iopea.types import Array

Policy = Literal["cover", "level"]

#: Periods of a year, and days of a period, by frequency.
_YEAR = {"day": 365.25, "week": 365.25 / 7, "month": 12.0}
_FIRST = datetime.date(2022, 1, 3)  # a Monday
#: Ranges of the mean and of the size parameter of demand, by kind of item; drawn evenly in logs.
KINDS = {
    "slow": ((0.1, 0.8), (0.3, 1.0)),
    "usual": ((2.0, 20.0), (2.0, 10.0)),
    "fast": ((20.0, 200.0), (3.0, 20.0)),
}
_LEAD_TIMES, _PENALTIES = (0, 1, 2, 3), (4.0, 20.0)
#: Factors of the days of a week, Monday first: shops sell more before and on weekends.
_WEEKDAYS = np.array([0.8, 0.8, 0.85, 0.95, 1.2, 1.4, 1.0])
#: Largest strength of these factors.
_MOST_WEEKDAY = 10.0
_GROUPS = 10
#: Policy "cover": periods of past sales that are averaged.
_WINDOW = 8
#: Policy "level": steps of the path on which the best level is found, and the highest level as a
#: multiple of the mean demand of a lead time, plus so many standard deviations.
_SEARCH, _SPREAD = 20_000, 6.0


@dataclass(frozen=True)
class Generated:
    """A generated history, its items, and the truth behind them.

    Attributes
    ----------
    history, items : DataFrame. By the convention of :mod:`iopea.tables.reading`.
    truth : DataFrame. ``unique_id, ds, demand, mean``: what was wanted, and its mean.
    laws : DataFrame. ``unique_id, kind, scale, size, trend, season, peak``, and for policy "level"
        the ``best`` level.
    """

    history: pl.DataFrame
    items: pl.DataFrame
    truth: pl.DataFrame
    laws: pl.DataFrame


def generate_sales(
    items: int = 500,
    periods: int = 156,
    frequency: str = "week",
    seed: int = 0,
    *,
    trend: float = 0.3,
    season: float = 0.5,
    weekday: float = 1.0,
    policy: str = "cover",
    cover: float = 1.0,
    low: float = 0.75,
    high: float = 2.0,
) -> Generated:
    """Generate a history of sales.

    Parameters
    ----------
    items, periods : int.
    frequency : {"week", "day", "month"}.
    seed : int.
    trend : float. Demand changes by at most this share from the first period to the last.
    season : float. Largest amplitude of the season, as a share of the mean; at most 1.
    weekday : float. Strength of weekday factors in a table of days: 0 for none, 1 for the usual.
    policy : {"cover", "level"}. What was in force: an order up to the average of past sales, times
        the lead time plus one and ``cover`` periods; or a level of its own for each item, between
        ``low`` and ``high`` times the best one (for demand without trend and season).
    cover : float. For policy "cover".
    low, high : float. For policy "level".

    Examples
    --------
    >>> made = generate_sales(items=2, periods=4, seed=1)
    >>> made.history.columns
    ['unique_id', 'ds', 'sales', 'stock', 'order', 'received', 'on_hand', 'on_order']
    >>> bool((made.history["sales"] <= made.truth["demand"]).all())
    True
    """
    count, length = check_count("items", items), check_count("periods", periods)
    check_choice("frequency", frequency, get_args(Frequency))
    check_choice("policy", policy, get_args(Policy))
    trend, season, weekday, cover, low, high = (
        check_nonnegative(name, value)
        for name, value in (
            ("trend", trend), ("season", season), ("weekday", weekday), ("cover", cover),
            ("low", low), ("high", high),
        )
    )  # fmt: skip
    if max(trend, season) > 1:
        raise InputError(f"trend is {trend:g} and season {season:g}: give shares of at most 1.")
    if weekday > _MOST_WEEKDAY:
        raise InputError(f"weekday is {weekday:g}: give at most {_MOST_WEEKDAY:g}.")
    if low > high:
        raise InputError(f"low is {low:g} and high {high:g}: exchange them.")
    rng = np.random.default_rng(seed_for("sales table", check_seed(seed)))
    names = [f"item-{number:0{len(str(count))}d}" for number in range(1, count + 1)]
    kinds = rng.choice(list(KINDS), count)
    scale, size = (
        np.exp([rng.uniform(*np.log(KINDS[kind][place])) for kind in kinds]) for place in (0, 1)
    )
    group = rng.integers(_GROUPS, size=count)
    peaks = rng.uniform(0, _YEAR[frequency], _GROUPS)
    trends, seasons = rng.uniform(-trend, trend, count), rng.uniform(0, season, count)
    lead = rng.choice(_LEAD_TIMES, count)
    penalty = np.round(rng.uniform(*_PENALTIES, count), 1)
    days = _days(length, frequency)
    mean = scale * _factors(days, frequency, trends, seasons, peaks[group], weekday)
    demand = rng.negative_binomial(size, size / (size + mean)).astype(np.float64)
    laws: dict[str, Any] = {
        "unique_id": names, "kind": kinds, "scale": scale, "size": size, "trend": trends,
        "season": seasons, "peak": peaks[group],
    }  # fmt: skip
    levels = None
    if policy == "level":
        best = np.array(
            [_best(*law) for law in zip(scale, size, lead, penalty, strict=True)], dtype=np.float64
        )
        laws["best"] = best
        factor = rng.uniform(low, high, count)
        levels = np.maximum(np.round(factor * best), 1.0)
    told = _operate(demand, lead, levels, cover, scale)
    about = pl.DataFrame(
        {
            "unique_id": names, "lead_time": lead, "holding_cost": 1.0, "lost_sales_cost": penalty,
            "group": [f"group-{number + 1}" for number in group], "level": levels,
            "on_hand": told["on_hand"][-1], "on_order": told["on_order"][-1],
        }
    )  # fmt: skip
    ids = pl.Series("unique_id", np.repeat(names, length))
    when = pl.Series("ds", days * count)
    flat = {name: values.T.ravel() for name, values in told.items()}
    return Generated(
        history=pl.DataFrame([ids, when, *(pl.Series(name, flat[name]) for name in flat)]),
        items=about if levels is not None else about.drop("level"),
        truth=pl.DataFrame(
            [ids, when, pl.Series("demand", demand.T.ravel()), pl.Series("mean", mean.T.ravel())]
        ),
        laws=pl.DataFrame(laws),
    )


def _days(length: int, frequency: str) -> list[datetime.date]:
    if frequency == "month":
        return [
            datetime.date(_FIRST.year + number // 12, number % 12 + 1, 1)
            for number in range(length)
        ]
    step = 7 if frequency == "week" else 1
    return [_FIRST + datetime.timedelta(days=step * number) for number in range(length)]


def _factors(
    days: list[datetime.date],
    frequency: str,
    trend: Array,
    season: Array,
    peak: Array,
    weekday: float,
) -> Array:
    """Factors of the mean, an array (periods, items)."""
    time = np.arange(len(days))[:, None]
    angle = 2 * math.pi * (time - peak) / _YEAR[frequency] + math.pi / 2
    found = (1 + trend * time / max(len(days) - 1, 1)) * (1 + season * np.sin(angle))
    if frequency == "day":
        of_day = _WEEKDAYS[[day.weekday() for day in days]]
        found = found * (of_day[:, None] ** weekday)
    return np.asarray(np.maximum(found, 0.01))


def _best(scale: float, size: float, lead: int, penalty: float) -> float:
    """The best level for demand without trend and season."""
    spread = math.sqrt((lead + 1) * (scale + scale**2 / size))
    high = math.ceil((lead + 1) * scale + _SPREAD * spread) + 1
    step = max(1, high // 200)
    shop = LostSales(
        lead_time=int(lead), holding_cost=1, lost_sales_cost=float(penalty),
        levels={"low": 0, "high": -(-high // step) * step, "step": step},
    )  # fmt: skip
    levels = np.arange(0, high + step, step, dtype=np.float64)[:, None]
    levels = levels[levels[:, 0] <= -(-high // step) * step]
    law = NegativeBinomial(mean=float(scale), size=float(size))
    costs = shop.simulator(law).costs(levels, _SEARCH, 1, seed=0).mean
    return float(levels[costs.argmin(), 0])


def _operate(
    demand: Array, lead: Array, levels: Array | None, cover: float, scale: Array
) -> dict[str, Array]:
    """Run all shops: each column of the history as an array (periods, items).

    An order is placed at the start of a period, before what was ordered a lead time ago arrives.
    """
    length, count = demand.shape
    columns = ("sales", "stock", "order", "received", "on_hand", "on_order")
    told = {name: np.zeros((length, count)) for name in columns}
    place = np.arange(count)
    coming = np.zeros((int(lead.max()) + 1, count))  # by periods until it arrives
    on_hand = np.zeros(count)
    for now in range(length):
        if levels is None:
            past = told["sales"][max(0, now - _WINDOW) : now]
            usual = past.mean(axis=0) if now else scale
            target = np.ceil(usual * (lead + 1 + cover))
        else:
            target = levels
        order = np.maximum(target - on_hand - coming.sum(axis=0), 0.0)
        coming[lead, place] += order
        received = coming[0].copy()
        coming = np.vstack([coming[1:], np.zeros((1, count))])
        stock = on_hand + received
        sales = np.minimum(stock, demand[now])
        on_hand = stock - sales
        values = (sales, stock, order, received, on_hand, coming.sum(axis=0))
        for name, value in zip(columns, values, strict=True):
            told[name][now] = value
    return told
