"""Learn an operating policy online from partial observations.

>>> import iopea
>>> shop = iopea.LostSales(lead_time=2, holding_cost=1, lost_sales_cost=10,
...                        levels={"low": 0, "high": 7})
>>> iopea.IOPEA(shop, start=3.5).ask().policy
(3.5,)

A name is loaded on first use, so that the command line starts quickly.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

#: The module of each public name; repeated below for type checkers.
_HOMES = {
    # problems: what a manager knows
    "Problem": "iopea.problems.base",
    "Evaluator": "iopea.problems.base",
    "PROBLEMS": "iopea.systems",
    "LostSales": "iopea.systems.lost_sales",
    "DualSourcing": "iopea.systems.dual_sourcing",
    "ServiceRateQueue": "iopea.systems.queue",
    "Newsvendor": "iopea.systems.newsvendor",
    "FiniteMDP": "iopea.systems.finite",
    "HardInstance": "iopea.systems.hard_instance",
    "Levels": "iopea.systems.shop.base",
    # systems and policy families, of which problems are made
    "System": "iopea.problems.base",
    "PolicyFamily": "iopea.problems.base",
    "PolicyController": "iopea.problems.base",
    "Constants": "iopea.problems.base",
    "OrderingFamily": "iopea.systems.shop.family",
    "higher_informs_lower": "iopea.systems.shop.family",
    "Range": "iopea.systems.shop.base",
    "box_of": "iopea.systems.shop.base",
    "read_problem": "iopea.problem_files",
    "BaseStock": "iopea.systems.lost_sales.base_stock",
    "DualIndex": "iopea.systems.dual_sourcing.dual_index",
    "BaseSurge": "iopea.systems.dual_sourcing.base_surge",
    "CappedBaseStock": "iopea.systems.lost_sales.capped",
    "CappedDualIndex": "iopea.systems.dual_sourcing.capped",
    "ConstantOrder": "iopea.systems.lost_sales.constant",
    "ReorderUpTo": "iopea.systems.lost_sales.reorder",
    "OwnPolicies": "iopea.systems.shop.own",
    "OrderQuantities": "iopea.systems.newsvendor",
    "ServiceRates": "iopea.systems.queue.service_rates",
    "PolicyList": "iopea.systems.finite.policy_list",
    "Arms": "iopea.systems.hard_instance",
    "LostSalesSystem": "iopea.systems.lost_sales.system",
    "DualSourcingSystem": "iopea.systems.dual_sourcing.system",
    "NewsvendorSystem": "iopea.systems.newsvendor",
    "QueueSystem": "iopea.systems.queue.system",
    "FiniteSystem": "iopea.systems.finite.system",
    "HardSystem": "iopea.systems.hard_instance",
    "Setting": "iopea.elimination.rule",
    "Elimination": "iopea.elimination.rule",
    # policies and information orders
    "PolicyClass": "iopea.policies",
    "Box": "iopea.policies",
    "Finite": "iopea.policies",
    "InformationOrder": "iopea.information_order",
    "OrderReport": "iopea.orders.checking",
    "check_order": "iopea.orders.checking",
    "discover_order": "iopea.orders.checking",
    "gather_evidence": "iopea.orders.checking",
    # the truth: for simulators alone
    "Simulator": "iopea.problems.base",
    "Truth": "iopea.types",
    "QueueRates": "iopea.systems.queue",
    "Dynamics": "iopea.systems.finite.dynamics",
    "HiddenArm": "iopea.systems.hard_instance",
    "Demand": "iopea.demand",
    "Exponential": "iopea.demand",
    "Normal": "iopea.demand",
    "Uniform": "iopea.demand",
    "Gamma": "iopea.demand",
    "Lognormal": "iopea.demand",
    "Poisson": "iopea.demand",
    "Geometric": "iopea.demand",
    "NegativeBinomial": "iopea.demand",
    "Empirical": "iopea.demand",
    "Constant": "iopea.demand",
    # learners
    "Learner": "iopea.learners.base",
    "LEARNERS": "iopea.learners",
    "IOPEA": "iopea.learners.iopea",
    "Convex": "iopea.learners.baselines.convex",
    "SGDBaseStock": "iopea.learners.baselines.sgd_base_stock",
    "OrderUpTo": "iopea.learners.baselines.order_up_to",
    "BASA": "iopea.learners.baselines.basa",
    "UCRL2": "iopea.learners.baselines.ucrl2",
    "FeedbackGraph": "iopea.learners.baselines.feedback_graph",
    "PPO": "iopea.learners.baselines.ppo",
    "ERM": "iopea.learners.baselines.erm",
    "Optimal": "iopea.learners.baselines.optimal",
    "RandomPolicy": "iopea.learners.baselines.random_policy",
    # rules of elimination
    "Rule": "iopea.elimination.rule",
    "RULES": "iopea.elimination",
    "Paired": "iopea.elimination.paired",
    "Theorem": "iopea.elimination.theorem",
    "Published": "iopea.elimination.published",
    # ways to play
    "Player": "iopea.play.player",
    "PLAYERS": "iopea.play",
    "Frugal": "iopea.play.frugal",
    "Maximal": "iopea.play.maximal",
    "Choice": "iopea.problems.base",
    # classes of your own, by their names
    "FAMILIES": "iopea.problems.base",
    "Registry": "iopea.registry",
    "register": "iopea.plugins",
    # data exchanged by learner, problem and simulator
    "Play": "iopea.types",
    "Trajectory": "iopea.types",
    "Estimates": "iopea.types",
    "Controller": "iopea.types",
    "Randomised": "iopea.types",
    "Recommendation": "iopea.types",
    "RunResult": "iopea.types",
    "Stop": "iopea.types",
    "load_state": "iopea.storage",
    "save_state": "iopea.storage",
    # runs and costs
    "run": "iopea.simulate",
    "run_all": "iopea.simulate",
    "evaluate": "iopea.simulate",
    "best_in_class": "iopea.simulate",
    "BestInClass": "iopea.simulate",
    "compare_to_best": "iopea.simulate",
    "ComparedRun": "iopea.simulate",
    # tables of sales
    "read_sales": "iopea.tables.reading",
    "Sales": "iopea.tables.reading",
    "fit": "iopea.tables.fit",
    "Plan": "iopea.tables.fit",
    "Fit": "iopea.tables.fit",
    "Item": "iopea.tables.item",
    "draw_item": "iopea.comparison.item_picture",
    "backtest": "iopea.tables.backtest",
    "Backtest": "iopea.tables.backtest",
    "generate_sales": "iopea.tables.generator",
    "Generated": "iopea.tables.generator",
    # what the theorems say
    "Bound": "iopea.theory",
    "excess_cost": "iopea.theory",
    "regret_bound": "iopea.theory",
    "base_stock_bound": "iopea.theory",
    "dual_index_bound": "iopea.theory",
    "queue_bound": "iopea.theory",
    "c_gamma": "iopea.systems.dual_sourcing.zero_runs",
    # errors
    "IopeaError": "iopea.errors",
    "InputError": "iopea.errors",
    "ModelMismatchError": "iopea.errors",
    "ComputationError": "iopea.errors",
}

__all__ = [*_HOMES]

if TYPE_CHECKING:
    from iopea.comparison.item_picture import draw_item as draw_item
    from iopea.demand import Constant as Constant
    from iopea.demand import Demand as Demand
    from iopea.demand import Empirical as Empirical
    from iopea.demand import Exponential as Exponential
    from iopea.demand import Gamma as Gamma
    from iopea.demand import Geometric as Geometric
    from iopea.demand import Lognormal as Lognormal
    from iopea.demand import NegativeBinomial as NegativeBinomial
    from iopea.demand import Normal as Normal
    from iopea.demand import Poisson as Poisson
    from iopea.demand import Uniform as Uniform
    from iopea.elimination import RULES as RULES
    from iopea.elimination.paired import Paired as Paired
    from iopea.elimination.published import Published as Published
    from iopea.elimination.rule import Elimination as Elimination
    from iopea.elimination.rule import Rule as Rule
    from iopea.elimination.rule import Setting as Setting
    from iopea.elimination.theorem import Theorem as Theorem
    from iopea.errors import ComputationError as ComputationError
    from iopea.errors import InputError as InputError
    from iopea.errors import IopeaError as IopeaError
    from iopea.errors import ModelMismatchError as ModelMismatchError
    from iopea.information_order import InformationOrder as InformationOrder
    from iopea.learners import LEARNERS as LEARNERS
    from iopea.learners.base import Learner as Learner
    from iopea.learners.baselines.basa import BASA as BASA
    from iopea.learners.baselines.convex import Convex as Convex
    from iopea.learners.baselines.erm import ERM as ERM
    from iopea.learners.baselines.feedback_graph import FeedbackGraph as FeedbackGraph
    from iopea.learners.baselines.optimal import Optimal as Optimal
    from iopea.learners.baselines.order_up_to import OrderUpTo as OrderUpTo
    from iopea.learners.baselines.ppo import PPO as PPO
    from iopea.learners.baselines.random_policy import RandomPolicy as RandomPolicy
    from iopea.learners.baselines.sgd_base_stock import SGDBaseStock as SGDBaseStock
    from iopea.learners.baselines.ucrl2 import UCRL2 as UCRL2
    from iopea.learners.iopea import IOPEA as IOPEA
    from iopea.orders.checking import OrderReport as OrderReport
    from iopea.orders.checking import check_order as check_order
    from iopea.orders.checking import discover_order as discover_order
    from iopea.orders.checking import gather_evidence as gather_evidence
    from iopea.play import PLAYERS as PLAYERS
    from iopea.play.frugal import Frugal as Frugal
    from iopea.play.maximal import Maximal as Maximal
    from iopea.play.player import Player as Player
    from iopea.plugins import register as register
    from iopea.policies import Box as Box
    from iopea.policies import Finite as Finite
    from iopea.policies import PolicyClass as PolicyClass
    from iopea.problem_files import read_problem as read_problem
    from iopea.problems.base import FAMILIES as FAMILIES
    from iopea.problems.base import Choice as Choice
    from iopea.problems.base import Constants as Constants
    from iopea.problems.base import Evaluator as Evaluator
    from iopea.problems.base import PolicyController as PolicyController
    from iopea.problems.base import PolicyFamily as PolicyFamily
    from iopea.problems.base import Problem as Problem
    from iopea.problems.base import Simulator as Simulator
    from iopea.problems.base import System as System
    from iopea.registry import Registry as Registry
    from iopea.simulate import BestInClass as BestInClass
    from iopea.simulate import ComparedRun as ComparedRun
    from iopea.simulate import best_in_class as best_in_class
    from iopea.simulate import compare_to_best as compare_to_best
    from iopea.simulate import evaluate as evaluate
    from iopea.simulate import run as run
    from iopea.simulate import run_all as run_all
    from iopea.storage import load_state as load_state
    from iopea.storage import save_state as save_state
    from iopea.systems import PROBLEMS as PROBLEMS
    from iopea.systems.dual_sourcing import DualSourcing as DualSourcing
    from iopea.systems.dual_sourcing.base_surge import BaseSurge as BaseSurge
    from iopea.systems.dual_sourcing.capped import CappedDualIndex as CappedDualIndex
    from iopea.systems.dual_sourcing.dual_index import DualIndex as DualIndex
    from iopea.systems.dual_sourcing.system import DualSourcingSystem as DualSourcingSystem
    from iopea.systems.dual_sourcing.zero_runs import c_gamma as c_gamma
    from iopea.systems.finite import FiniteMDP as FiniteMDP
    from iopea.systems.finite.dynamics import Dynamics as Dynamics
    from iopea.systems.finite.policy_list import PolicyList as PolicyList
    from iopea.systems.finite.system import FiniteSystem as FiniteSystem
    from iopea.systems.hard_instance import Arms as Arms
    from iopea.systems.hard_instance import HardInstance as HardInstance
    from iopea.systems.hard_instance import HardSystem as HardSystem
    from iopea.systems.hard_instance import HiddenArm as HiddenArm
    from iopea.systems.lost_sales import LostSales as LostSales
    from iopea.systems.lost_sales.base_stock import BaseStock as BaseStock
    from iopea.systems.lost_sales.capped import CappedBaseStock as CappedBaseStock
    from iopea.systems.lost_sales.constant import ConstantOrder as ConstantOrder
    from iopea.systems.lost_sales.reorder import ReorderUpTo as ReorderUpTo
    from iopea.systems.lost_sales.system import LostSalesSystem as LostSalesSystem
    from iopea.systems.newsvendor import Newsvendor as Newsvendor
    from iopea.systems.newsvendor import NewsvendorSystem as NewsvendorSystem
    from iopea.systems.newsvendor import OrderQuantities as OrderQuantities
    from iopea.systems.queue import QueueRates as QueueRates
    from iopea.systems.queue import ServiceRateQueue as ServiceRateQueue
    from iopea.systems.queue.service_rates import ServiceRates as ServiceRates
    from iopea.systems.queue.system import QueueSystem as QueueSystem
    from iopea.systems.shop.base import Levels as Levels
    from iopea.systems.shop.base import Range as Range
    from iopea.systems.shop.base import box_of as box_of
    from iopea.systems.shop.family import OrderingFamily as OrderingFamily
    from iopea.systems.shop.family import higher_informs_lower as higher_informs_lower
    from iopea.systems.shop.own import OwnPolicies as OwnPolicies
    from iopea.tables.backtest import Backtest as Backtest
    from iopea.tables.backtest import backtest as backtest
    from iopea.tables.fit import Fit as Fit
    from iopea.tables.fit import Plan as Plan
    from iopea.tables.fit import fit as fit
    from iopea.tables.generator import Generated as Generated
    from iopea.tables.generator import generate_sales as generate_sales
    from iopea.tables.item import Item as Item
    from iopea.tables.reading import Sales as Sales
    from iopea.tables.reading import read_sales as read_sales
    from iopea.theory import Bound as Bound
    from iopea.theory import base_stock_bound as base_stock_bound
    from iopea.theory import dual_index_bound as dual_index_bound
    from iopea.theory import excess_cost as excess_cost
    from iopea.theory import queue_bound as queue_bound
    from iopea.theory import regret_bound as regret_bound
    from iopea.types import Controller as Controller
    from iopea.types import Estimates as Estimates
    from iopea.types import Play as Play
    from iopea.types import Randomised as Randomised
    from iopea.types import Recommendation as Recommendation
    from iopea.types import RunResult as RunResult
    from iopea.types import Stop as Stop
    from iopea.types import Trajectory as Trajectory
    from iopea.types import Truth as Truth
else:
    from importlib import import_module as _import_module
    from sys import modules as _modules
    from threading import RLock as _RLock

    _lock = _RLock()

    def __getattr__(name: str) -> object:
        """A public name from its module, or a submodule such as ``iopea.demand``."""
        if name in _HOMES:
            with _lock:  # two threads must not find a module half imported
                value = getattr(_import_module(_HOMES[name]), name)
            globals()[name] = value
            return value
        if not name.startswith("_"):
            part = f"{__name__}.{name}"
            try:
                return _import_module(part)
            except ModuleNotFoundError as error:
                if error.name != part:
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})

    if "gymnasium" in _modules:  # register the environments without a further import
        _import_module("iopea.envs")
