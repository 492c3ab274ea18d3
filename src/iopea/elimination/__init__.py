"""Elimination rules: how long an epoch lasts and which policies survive it.

A rule is a small stateless object: :meth:`Rule.epoch_length` gives N_k, and :meth:`Rule.eliminate`
decides which policies survive, from counterfactual :class:`~iopea.types.Estimates` alone.

``theorem``
    β_k and N_k of the regret theorem (label ``thm:regret_bound``).
``published``
    The rule of the published experiments: sums over one epoch are compared with 2β_k,
    without logarithms and without the span.
``paired``
    The default. All policies are evaluated on the same observed path, so the
    difference of two of them has a small variance. Differences to the best
    policy are studentised by batch means, all epochs pooled, and compared with
    a critical value that holds for all policies at once and over the whole run.
"""

from iopea.elimination.paired import Paired
from iopea.elimination.published import Published
from iopea.elimination.rule import Rule
from iopea.elimination.theorem import Theorem
from iopea.registry import Registry

#: Every rule by its name; a new rule is one more entry.
RULES: Registry[Rule] = Registry("rule", "iopea.rules", Rule, (Paired, Theorem, Published))


def as_rule(rule: object) -> Rule:
    """A rule from its name, its class or an instance.

    >>> as_rule("paired").name
    'paired'
    """
    return RULES.made_of(rule)
