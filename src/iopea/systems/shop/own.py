"""Policies of your own: a Python function with named parameters and their ranges.

The function is given the state, then the parameters by name, and returns the order; with two
suppliers, the expedited and the regular order. It is compiled, so it must be plain scalar Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from iopea.errors import InputError, shown
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problems.base import Rule
from iopea.seeds import seed_for
from iopea.systems.shop.base import TOLD, Levels, as_levels, box_of
from iopea.systems.shop.family import OrderingFamily
from iopea.systems.shop.period_cost import fingerprint
from iopea.systems.shop.rule import NO_SIGNAL, try_rule
from iopea.types import Array, Claim, Policy, show_policy

#: Most parameters of a function.
MOST_PARAMETERS = 4
#: What it is called in messages, and what it does there.
_NAMED = ("function", "returns")
#: States in which a function is tried beside its compiled twin.
_TRIED = 64
#: Periods in which nothing is sold, after which no policy may hold more than it says.
_FILLED = 64
#: Relative difference of two orders that counts as rounding.
_SAME = 1e-9
#: Ordering rules of a user: the state, then the parameters.
OwnRule = Callable[..., Any]


@lru_cache(maxsize=256)
def _as_rule(function: OwnRule, count: int) -> Rule:
    """The function as a rule ``order(state, parameters, signal)``."""
    own = getattr(function, "py_func", function)

    def one(state: Any, given: Any, signal: Any) -> Any:
        return own(state, given[0])

    def two(state: Any, given: Any, signal: Any) -> Any:
        return own(state, given[0], given[1])

    def three(state: Any, given: Any, signal: Any) -> Any:
        return own(state, given[0], given[1], given[2])

    def four(state: Any, given: Any, signal: Any) -> Any:
        return own(state, given[0], given[1], given[2], given[3])

    return (one, two, three, four)[count - 1]


def _as_ranges(value: Any) -> tuple[tuple[str, Levels], ...]:
    """Ranges by name as pairs, which can't be changed."""
    if not isinstance(value, Mapping):
        raise ValueError(
            "must be a mapping from the names of parameters to their ranges, such as "
            f"{{'level': {{'low': 0, 'high': 7}}}}, not {shown(value)}."
        )
    return tuple((str(name), as_levels(levels)) for name, levels in value.items())


#: A field: the range of each parameter by its name.
Ranges = Annotated[tuple[tuple[str, Levels], ...], BeforeValidator(_as_ranges)]


class OwnPolicies(OrderingFamily):
    """Policies given by a function of the state and named parameters.

    Parameters
    ----------
    function : callable. ``function(state, *parameters)`` returns the order; with two suppliers, a
        tuple of the expedited and the regular order. The state is an array: the stock on hand, then
        the orders under way, oldest first.
    ranges : mapping. The range of each parameter, by the names that the function gives them.
    most_held : float, optional. The largest inventory position that a policy brings about, which
        is checked by letting it order while nothing is sold; the sum of the highest parameters if
        not given.
    higher_informs : bool. Whether a policy all of whose parameters are higher holds more stock in
        the long run, so that it informs the lower one in distribution. Otherwise no policy is
        claimed to inform another; all are judged as far as the stock held so far tells of them.

    Examples
    --------
    >>> from iopea import LostSales
    >>> def two_thirds(state, level, share):
    ...     missing = max(level - state.sum(), 0.0)
    ...     return share * missing
    >>> own = OwnPolicies(function=two_thirds, most_held=20, ranges={
    ...     "level": {"low": 0, "high": 20, "step": 1},
    ...     "share": {"low": 0.5, "high": 1, "step": 0.25}})
    >>> shop = LostSales(lead_time=1, holding_cost=1, lost_sales_cost=9, policies=own)
    >>> shop.policy_class.names, shop.policy_class.count(1.0)
    (('level', 'share'), 63)
    """

    kind: ClassVar[str] = "own"
    optional_columns: ClassVar[tuple[str, ...]] = TOLD

    function: OwnRule = Field(exclude=True)
    ranges: Ranges
    most_held: float | None = None
    higher_informs: bool = False

    @model_validator(mode="after")
    def _signature(self) -> Self:
        names = tuple(name for name, _ in self.ranges)
        if not 1 <= len(names) <= MOST_PARAMETERS:
            raise ValueError(f"ranges needs 1 to {MOST_PARAMETERS} parameters, not {len(names)}.")
        function = getattr(self.function, "py_func", self.function)
        if not isinstance(function, FunctionType):
            raise ValueError(f"function must be a Python function, not {shown(function)}.")
        try:
            known = tuple(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            raise ValueError(
                f"function must be a Python function, not {shown(function)}."
            ) from None
        plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        given = tuple(each.name for each in known if each.kind in plain)
        if len(given) != len(known) or given[1:] != names:
            expected = ", ".join(("state", *names))
            raise ValueError(
                f"function must have the arguments ({expected}), which are the state and the names "
                f"in ranges, not ({', '.join(each.name for each in known)})."
            )
        if self.most_held is not None and not 0 < self.most_held < np.inf:
            raise ValueError(f"most_held must be a finite number above 0, not {self.most_held}.")
        return self

    @property
    def axes(self) -> tuple[Levels, ...]:
        """The ranges of the parameters."""
        return tuple(levels for _, levels in self.ranges)

    def policy_class(self, system: Any) -> Box:
        """All combinations of the parameters."""
        return box_of(*self.axes, labels=tuple(name for name, _ in self.ranges))

    def most_stock(self, system: Any) -> float:
        """The largest inventory position."""
        if self.most_held is not None:
            return self.most_held
        return sum(levels.high for levels in self.axes) or 1.0

    def rule(self, system: Any) -> Rule:
        """The function."""
        return _as_rule(self.function, len(self.ranges))

    def check_system(self, system: Any) -> None:
        """Try the function beside its compiled twin on some states."""
        system.try_own_cost(self.most_stock(system))
        rng = np.random.default_rng(seed_for("own policies"))
        known = self.policy_class(system)
        wide, most = 1 + sum(system.sources.values()), self.most_stock(system)
        policies = known.sample(rng, _TRIED)
        # From the empty shop to more stock than it ever holds.
        states = rng.dirichlet(np.ones(wide), _TRIED) * most * np.linspace(0, 1.2, _TRIED)[:, None]
        plain, again = (
            [
                try_rule(self.rule(system), state, policy, len(system.sources), *_NAMED)
                for policy, state in zip(policies, states, strict=True)
            ]
            for _ in range(2)
        )
        rule = system.compiled(self)
        try:
            compiled = rule.orders(policies, states)
        except InputError as error:
            name = getattr(self.function, "__name__", "function")
            said = str(error).replace("rule order(state, parameters, signal)", f"function {name}")
            raise InputError(said) from None
        own = rule.terms
        for number, (one, two) in enumerate(zip(plain, again, strict=True)):
            where = (
                f"for policy {show_policy(tuple(policies[number]))} in the state "
                f"{states[number].tolist()}"
            )
            if not np.array_equal(one, two):
                raise InputError(
                    f"The function orders {one.tolist()} and then {two.tolist()} {where}: it must "
                    "give the same order for the same state."
                )
            if own.limited:
                continue  # what is delivered differs from the order
            if not np.allclose(one, compiled[number], rtol=_SAME, atol=_SAME * most):
                raise InputError(
                    f"Compiled, the function orders {compiled[number].tolist()} {where}, but "
                    f"{one.tolist()} as Python: it must not depend on anything else, such as "
                    "random numbers or values that change."
                )
        self._refuse_more(system, policies)

    def _refuse_more(self, system: Any, policies: Array) -> None:
        """Refuse policies that order more than the shop may hold while nothing is sold."""
        rule, most = system.compiled(self), self.most_stock(system)
        nothing = np.zeros(_FILLED + 4 * system.longest)
        for policy in np.unique(policies, axis=0):
            state = np.zeros((1, rule.wide))
            rule.roll_out(policy, nothing, state)
            if state.sum() > most * (1 + _SAME):
                raise InputError(
                    f"Policy ({show_policy(tuple(policy))}) raises the inventory position to "
                    f"{state.sum():.6g} while nothing is sold for {nothing.size} periods, above "
                    f"most_held, which is {most:.6g}: give a higher most_held, or a function that "
                    "stops ordering."
                )

    def order_on(self, system: Any, policies: Array) -> InformationOrder:
        """By all parameters, if higher ones inform; otherwise each policy informs itself."""
        if self.higher_informs:
            return InformationOrder.from_key(policies)
        alone = np.unique(policies, axis=0, return_inverse=True)[1].ravel().astype(np.float64)
        return InformationOrder.from_key(np.column_stack([alone, -alone]))

    def claim(self, system: Any) -> Claim:
        """In distribution."""
        return "distributional"

    def restart(self, system: Any) -> Policy:
        """A policy of the class that orders nothing in an empty shop."""
        rule, empty = self.rule(system), np.zeros(1 + sum(system.sources.values()))
        for policy in self.policy_class(system).thinned(8, 1.0):
            if not np.any(rule(empty, policy, NO_SIGNAL)):
                return tuple(map(float, policy))
        raise InputError(
            "None of these policies orders nothing in an empty shop, so that the shop can't be "
            "emptied: use restart = 'none'."
        )

    def describe(self) -> dict[str, object]:
        """The family as JSON values, with the fingerprint of the function."""
        ranges = {name: levels.model_dump(exclude_none=True) for name, levels in self.ranges}
        return {**super().describe(), "ranges": ranges, "function": fingerprint(self.function)}
