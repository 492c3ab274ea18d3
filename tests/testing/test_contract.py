"""The contract on every registered problem, on one that a user would write, and on broken ones."""

import importlib.util
import json
import sys
from typing import ClassVar

import numpy as np
import pytest
from numpy.random import PCG64, Generator

import iopea
from iopea.cli import app as cli
from iopea.errors import InputError
from iopea.information_order import InformationOrder
from iopea.policies import Box
from iopea.problem_files import parse_problem
from iopea.problems.base import Simulator
from iopea.seeds import seed_for
from iopea.systems import PROBLEMS
from iopea.testing import CHECKS, ContractError, check_problem
from iopea.types import Estimates

every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


EXAMPLES = [
    pytest.param(problem, truth, id=f"{name}, {problem.family.kind}")
    for name, kind in PROBLEMS.items()
    for problem, truth in kind.examples()
]


@every_check
@pytest.mark.parametrize(("problem", "truth"), EXAMPLES)
def test_every_problem_keeps_to_the_contract(problem, truth, check):
    check(problem, truth)


# One file, as a user would write it, and one entry in the registry.

PATIENCE = '''
"""How long to wait for an answer: some never come, and nobody knows which.

Each step a question is asked and an answer waited for, up to the patience of the policy. The cost
is the time waited, and a penalty where no answer came. Whoever is more patient sees all that
others would have seen.
"""

from typing import ClassVar

import numpy as np
from numpy.random import PCG64, Generator

from iopea.information_order import InformationOrder
from iopea.model import Model, Positive, Probability
from iopea.policies import Box
from iopea.problems.base import (
    Constants,
    Evaluator,
    PolicyFamily,
    Problem,
    Simulator,
    System,
    as_policies,
)
from iopea.seeds import seed_for
from iopea.state import Noise, array, parts
from iopea.types import Estimates, Rollout, Trajectory

BATCH = 16


class Answers(Model):
    """The truth: a share of the questions is answered, after an exponential time."""

    mean: Positive
    share: Probability

    def table(self):
        return self.model_dump()


class Questions(System):
    kind: ClassVar[str] = "patience"
    tables: ClassVar[tuple[str, ...]] = ("answers",)

    penalty: Positive

    @property
    def columns(self):
        return ("waited",)

    @classmethod
    def read_truth(cls, content, directory):
        return Answers(**content["answers"])

    def simulator(self, problem, truth, seed=0):
        return Asking(problem, truth, seed)

    def check(self, trajectory):
        return

    def costs(self, times, patience):
        waited = np.minimum(times, patience)
        return waited + self.penalty * (times >= patience)


class Waits(PolicyFamily):
    kind: ClassVar[str] = "wait"

    longest: Positive

    def policy_class(self, system):
        return Box(0, self.longest, labels=("patience",))

    def order_on(self, system, policies):
        return InformationOrder.from_key(policies[:, 0])

    def claim(self, system):
        return "sample-path"

    def evaluator(self, problem, policies, threads=1, precision="float64"):
        return Replay(problem.system, policies[:, 0])

    def restart(self, system):
        return (0.0,)

    def constants(self, system):
        high = self.longest + system.penalty
        return Constants(0.0, np.inf, self.longest, 1, 0.0, high, sensitivity=high)


class Patience(Problem):
    system_type = Questions
    families = (Waits,)

    @classmethod
    def example(cls):
        return cls(penalty=4, longest=6), Answers(mean=1, share=0.8)


class Replay(Evaluator):
    """What each patience would have cost, from the records of a longer one."""

    saved = parts(patience=array, waited=array)

    def __init__(self, system, patience):
        self.system, self.patience, self.waited = system, patience, np.empty(0)

    def observe(self, trajectory, evaluate):
        if not evaluate:
            return 0
        self.waited = np.append(self.waited, trajectory["waited"])
        return len(trajectory)

    @property
    def at_start(self):
        return True

    def estimates(self):
        costs = self.system.costs(self.waited[:, None], self.patience)
        first = np.arange(0, len(costs), BATCH)
        if not first.size:
            return Estimates(costs, np.empty(0))
        sizes = np.diff(first, append=len(costs)).astype(float)
        return Estimates(np.add.reduceat(costs, first), sizes)

    def forget(self):
        self.waited = np.empty(0)

    def keep(self, mask):
        self.patience = self.patience[mask]


class Asking(Simulator):
    saved = parts(rng=Noise)

    def __init__(self, problem, truth, seed):
        super().__init__(problem, truth, seed)
        self.rng = Generator(PCG64(seed_for("answers", seed)))

    def times(self, rng, steps):
        answered, time = rng.random((steps, 2)).T
        return np.where(answered < self.truth.share, -self.truth.mean * np.log1p(-time), np.inf)

    def _play(self, policy, steps, until_start=False):
        times = self.times(self.rng, 0 if until_start else steps)
        waited = np.minimum(times, policy[0])
        costs = self.problem.system.costs(times, policy[0])
        return Rollout(Trajectory(policy, waited=waited), costs)

    def costs(self, policies, steps, batches, seed):
        rng, size = Generator(PCG64(seed_for("evaluation", seed))), -(-steps // batches)
        patience = as_policies(policies)[:, 0]
        sums = [self.problem.system.costs(self.times(rng, size)[:, None], patience).sum(axis=0)
                for _ in range(batches)]
        return Estimates(np.array(sums), np.full(batches, float(size)))

    def restart_time(self, seed=0):
        return 0.0
'''

FILE = """
[problem]
kind = "patience"
penalty = 4.0
longest = 6.0
[answers]
mean = 1.0
share = 0.8
"""


@pytest.fixture(scope="module")
def patience(tmp_path_factory):
    """The user's module; nothing else knows of it."""
    path = tmp_path_factory.mktemp("problems") / "patience.py"
    path.write_text(PATIENCE)
    spec = importlib.util.spec_from_file_location("patience", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def register(monkeypatch):
    """Add a kind to the registry, or put it in the place of one."""

    def entry(kind):
        monkeypatch.setitem(PROBLEMS.built_in, kind.system_type.kind, kind)
        return kind

    return entry


@every_check
def test_a_new_problem_is_one_file_and_one_entry(patience, register, check):
    check(*register(patience.Patience).example())


def test_a_problem_without_an_entry_is_told_so(patience):
    with pytest.raises(ContractError, match=r"Patience is not in the registry.*'patience'"):
        check_problem(patience.Patience)


def test_a_family_without_an_example_is_told_so(patience, register):
    class Hurry(patience.Waits):
        kind: ClassVar = "hurry"

    class Both(patience.Patience):
        families = (patience.Waits, Hurry)

    with pytest.raises(ContractError, match=r"examples.. of Both has no problem with hurry"):
        check_problem(register(Both))

    class Shown(Both):
        @classmethod
        def examples(cls):
            one, truth = cls.example()
            return (cls(one.system, Hurry(longest=6)), truth), (one, truth)

    with pytest.raises(ContractError, match=r"first of examples.. of Shown must be its example"):
        check_problem(register(Shown))


def command(capsys, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["iopea", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert not err
    return ended.value.code, json.loads(out)


def test_the_commands_know_a_new_problem(patience, register, capsys, monkeypatch, tmp_path):
    register(patience.Patience)
    best_in_class = iopea.best_in_class
    monkeypatch.setattr(iopea, "best_in_class", lambda system: best_in_class(system, steps=100_000))
    file = tmp_path / "patience.toml"
    file.write_text(FILE)
    short = ("--horizon", 4000, "--seeds", 2, "--radius", 0.1, "--json")
    status, report = command(capsys, monkeypatch, "learn", file, *short)
    assert status == 0
    # The cost rises again where the hazard of an answer is 1/4: at log 12 = 2.48.
    assert report["optimal_policy"] == pytest.approx(np.log(12), abs=0.2)
    assert report["truth"] == {"mean": 1.0, "share": 0.8}
    assert report["mean_relative_gap"] < 0.05
    status, report = command(capsys, monkeypatch, "check-order", file, "--json")
    assert status == 0
    assert report["holds"]
    assert report["pairs_tested"] == 66


def test_a_new_problem_is_refused_in_sentences(patience, register):
    register(patience.Patience)
    with pytest.raises(InputError, match="did you mean 'penalty'"):
        parse_problem(FILE.replace("penalty", "penaltie"))
    with pytest.raises(InputError, match=r"no use for a table .demand."):
        parse_problem(FILE + "[demand]\n")


# Problems that are broken in one place each: the first check to fail is the one it is for.


def on_problem(**parts):
    """Break the problem itself."""
    return lambda module: type("Broken", (module.Patience,), parts)


def on_system(**parts):
    """Break its system."""

    def broken(module):
        system = type("BrokenQuestions", (module.Questions,), parts)
        return on_problem(system_type=system)(module)

    return broken


def on_family(**parts):
    """Break its policy family."""

    def broken(module):
        family = type("BrokenWaits", (module.Waits,), parts)
        return on_problem(families=(family,))(module)

    return broken


def on_evaluator(**parts):
    """Break its evaluator."""

    def broken(module):
        replay = type("BrokenReplay", (module.Replay,), parts)

        def evaluator(self, problem, policies, threads=1, precision="float64"):
            made = replay(problem.system, policies[:, 0])
            made.threads, made.precision = threads, precision
            return made

        return on_family(evaluator=evaluator)(module)

    return broken


def on_simulator(**parts):
    """Break its simulator."""

    def broken(module):
        asking = type("BrokenAsking", (module.Asking,), parts)

        def simulator(self, problem, truth, seed=0):
            return asking(problem, truth, seed)

        return on_system(simulator=simulator)(module)

    return broken


def describe_nothing(self):
    return {}


def describe_with_none(self):
    return {**self.model_dump(), "comment": None}


def describe_with_a_tuple(self):
    return {"longest": (self.longest,)}


def truth_in_describe(module):
    class Told(module.Questions):
        mean: float = 1.0

    class Broken(module.Patience):
        system_type = Told

        @classmethod
        def read(cls, content, directory=None):
            answers = module.Answers(**content["answers"])
            return cls(**{**content["problem"], "mean": answers.mean}), answers

    return Broken


def peeking(module, look):
    """Estimates that hardly depend on the truth."""

    class Peeking(module.Replay):
        def estimates(self):
            plain = super().estimates()
            return Estimates(plain.sums + 1e-11 * look(self.problem), plain.sizes)

    def evaluator(self, problem, policies, threads=1, precision="float64"):
        made = Peeking(problem.system, policies[:, 0])
        made.problem = problem
        return made

    return type("PeekingWaits", (module.Waits,), {"evaluator": evaluator})


def truth_in_reading(module):
    """What is told beside the problem is kept in it, unseen."""

    class Broken(module.Patience):
        mean = 1.0
        families = (peeking(module, lambda problem: problem.mean),)

        @classmethod
        def read(cls, content, directory=None):
            problem, answers = super().read(content, directory)
            problem.mean = answers.mean
            return problem, answers

    return Broken


def truth_through_the_simulator(module):
    """The simulator tells the class, and every evaluator looks there."""

    class Telling(module.Questions):
        seen: ClassVar = {"share": 0.5}

        def simulator(self, problem, truth, seed=0):
            self.seen["share"] = truth.share
            return super().simulator(problem, truth, seed)

    class Broken(module.Patience):
        system_type = Telling
        families = (peeking(module, lambda problem: problem.system.seen["share"]),)

    return Broken


def truth_held(module):
    """The evaluator holds the simulator, though it makes no use of it."""
    last = {}

    def simulator(self, problem, truth, seed=0):
        last["made"] = module.Asking(problem, truth, seed)
        return last["made"]

    def evaluator(self, problem, policies, threads=1, precision="float64"):
        made = module.Replay(problem.system, policies[:, 0])
        made.spare = dict(last)
        return made

    class Broken(module.Patience):
        system_type = type("Telling", (module.Questions,), {"simulator": simulator})
        families = (type("Holding", (module.Waits,), {"evaluator": evaluator}),)

    return Broken


def lower_informs_higher(self, system, policies):
    return InformationOrder.from_key(-policies[:, 0])


def all_inform_all(self, system, policies):
    return InformationOrder.full_feedback(len(policies))


def order_by_position(self, system, policies):
    return InformationOrder.from_key(np.arange(len(policies)))


class Miscounting(Box):
    def net(self, radius):
        return super().net(radius)[1:]


class Wide(Box):
    def thinned(self, per_axis, radius):
        return super().thinned(per_axis, radius) * 1.1


class Sparse(Box):
    def net(self, radius):
        return Box(self.low, self.high).net(3 * radius)

    def count(self, radius):
        return super().count(3 * radius)


def batch_per_delivery(self, trajectory, evaluate):
    if evaluate and len(trajectory):
        self.sizes = [*getattr(self, "sizes", []), len(trajectory)]
    self.waited = np.append(self.waited, trajectory["waited"]) if evaluate else self.waited
    return len(trajectory) if evaluate else 0


def estimates_per_delivery(self):
    sizes = np.array(getattr(self, "sizes", []), dtype=float)
    if not sizes.size:
        return Estimates(np.empty((0, self.patience.size)), sizes)
    costs = self.system.costs(self.waited[:, None], self.patience)
    first = np.append(0, np.cumsum(sizes)[:-1]).astype(int)
    return Estimates(np.add.reduceat(costs, first), sizes)


def count_what_does_not(self, trajectory, evaluate):
    if evaluate:
        self.waited = np.append(self.waited, trajectory["waited"])
    return len(trajectory)


def take_what_does_not_count(self, trajectory, evaluate):
    self.waited = np.append(self.waited, trajectory["waited"])
    return len(trajectory) if evaluate else 0


def state_without_candidates(self):
    return {"patience": np.empty(0), "waited": self.waited.copy()}


def forget_candidates(self, state):
    self.waited = np.array(state["waited"])


def load_more(self, state):
    """Add to what there was, as if there had been nothing."""
    self.patience = np.array(state["patience"])
    self.waited = np.append(self.waited, state["waited"])


def observe_a_little_later(self, trajectory, evaluate):
    """The last step of every delivery waits for the next one, and is never saved."""
    if not evaluate:
        return 0
    queue = np.append(getattr(self, "queue", np.empty(0)), trajectory["waited"])
    self.waited, self.queue = np.append(self.waited, queue[:-1]), queue[-1:]
    return len(trajectory)


def observe_in_place(self, trajectory, evaluate):
    """Steps are counted in an array, which ``state_dict`` gives away."""
    self.told = getattr(self, "told", np.zeros(1))
    self.told += len(trajectory)
    return type(self).__mro__[1].observe(self, trajectory, evaluate)


def state_given_away(self):
    self.told = getattr(self, "told", np.zeros(1))
    return {"patience": self.patience, "waited": self.waited, "told": self.told}


def load_told(self, state):
    type(self).__mro__[1].load_state_dict(self, state)
    self.told = state["told"].copy()


def forget_all_but_one(self):
    self.waited = self.waited[-1:]


def keep_the_first(self, mask):
    self.patience = self.patience[: mask.sum()]


def sums_by_threads(self):
    plain = original(self)
    return Estimates(plain.sums * (1 + 1e-15 * (self.threads - 1)), plain.sizes)


def rough_in_single_precision(self):
    plain = original(self)
    return Estimates(
        plain.sums.astype("float16" if self.precision == "float32" else float), plain.sizes
    )


def original(self):
    return type(self).__mro__[1].estimates(self)


def twice_the_wait(self):
    """Wrong by the same on all data, which no comparison of data can tell."""
    plain = original(self)
    return Estimates(
        plain.sums + plain.sizes[:, None] * np.minimum(self.patience, 2.0), plain.sizes
    )


def guess_at_first(self):
    if self.waited.size:
        return original(self)
    return Estimates(np.ones((1, self.patience.size)), np.ones(1))


def count_candidates(self, system, patience):
    type(self).__mro__[1].__init__(self, system, patience)
    self.turned = patience.size > 12


def turn_round(self):
    plain = original(self)
    return Estimates(-plain.sums if self.turned else plain.sums, plain.sizes)


def refuse_many(self, system, patience):
    if patience.size > 12:
        raise InputError("Too many policies.")
    type(self).__mro__[1].__init__(self, system, patience)


def per_step(self):
    plain = original(self)
    return Estimates(plain.sums, plain.sizes[:, None])


def draw_in_columns(self, rng, steps):
    """All of one kind before all of the other: two plays draw otherwise than one."""
    answered, time = rng.random(steps), rng.random(steps)
    return np.where(answered < self.truth.share, -self.truth.mean * np.log1p(-time), np.inf)


def init_without_seed(self, problem, truth, seed):
    Simulator.__init__(self, problem, truth, seed)
    self.rng = np.random.default_rng()


def seed_alone(self):
    return {"rng": Generator(PCG64(seed_for("answers", 0))).bit_generator.state}


def play_on(self, policy, steps, until_start=False):
    return type(self).__mro__[1].play(self, policy, steps)


def costs_without_penalty(self, policies, steps, batches, seed):
    rng, size = Generator(PCG64(seed_for("evaluation", seed))), -(-steps // batches)
    times = self.times(rng, size * batches).reshape(batches, size, 1)
    sums = np.minimum(times, policies[:, 0]).sum(axis=1)
    return Estimates(sums, np.full(batches, float(size)))


def costs_by_playing(self, policies, steps, batches, seed):
    sums = [[self.play(p, steps // batches).costs.sum() for p in policies] for _ in range(batches)]
    return Estimates(np.array(sums), np.full(batches, float(steps // batches)))


def never_at_start(module):
    return on_evaluator(at_start=property(lambda self: self.waited.size == 0))(module)


def refuse(self, trajectory):
    raise InputError("Nothing is good enough.")


BROKEN = {
    "describe() forgets a key": (
        on_family(describe=describe_nothing),
        "problem_file",
        "can't be read.*'longest'",
    ),
    "describe() holds None": (on_system(describe=describe_with_none), "problem_file", "None"),
    "describe() is not JSON": (on_family(describe=describe_with_a_tuple), "problem_file", "JSON"),
    "the net has another size": (
        on_family(policy_class=lambda self, system: Miscounting(0, self.longest)),
        "policy_class",
        "count is 5",
    ),
    "thinned nets leave the class": (
        on_family(policy_class=lambda self, system: Wide(0, self.longest)),
        "policy_class",
        "not in the class",
    ),
    "nets leave gaps": (
        on_family(policy_class=lambda self, system: Sparse(0, self.longest)),
        "policy_class",
        "no policy within that distance",
    ),
    "the restart policy has another dimension": (
        on_family(restart=lambda self, system: (0.0, 0.0)),
        "constants",
        "restart policy has 2",
    ),
    "the order depends on positions": (
        on_family(order_on=order_by_position),
        "order_axioms",
        "must be the restriction",
    ),
    "the order is the wrong way round": (
        on_family(order_on=lower_informs_higher),
        "order_claim",
        "Rejected",
    ),
    "the order claims too much": (on_family(order_on=all_inform_all), "order_claim", "Rejected"),
    "the seed is ignored": (on_simulator(__init__=init_without_seed), "simulator_repeats", "seed"),
    "two plays are not one": (on_simulator(times=draw_in_columns), "simulator_repeats", "a . b"),
    "the simulator saves its seed alone": (
        on_simulator(_state=seed_alone),
        "simulator_repeats",
        "loaded simulator",
    ),
    "until_start is ignored": (on_simulator(play=play_on), "simulator_returns", "initial state"),
    "the evaluator loses the start": (never_at_start, "simulator_returns", "at_start = False"),
    "costs forget the penalty": (
        on_simulator(costs=costs_without_penalty),
        "simulator_costs",
        "steps that were played",
    ),
    "costs move the simulator": (
        on_simulator(costs=costs_by_playing),
        "simulator_costs",
        "must not change the simulator",
    ),
    "the optimum is none": (
        on_simulator(optimum=lambda self: ((0.0,), 4.0)),
        "simulator_optimum",
        "less than optimum",
    ),
    "the optimum costs something else": (
        on_simulator(optimum=lambda self: ((2.5,), 1.0)),
        "simulator_optimum",
        "costs 1,",
    ),
    "wrong columns are not refused": (
        on_problem(check=lambda self, trajectory: None),
        "trajectories_checked",
        "none of the columns must be refused",
    ),
    "wrong columns are a KeyError": (
        on_problem(check=lambda self, trajectory: trajectory["waited"]),
        "trajectories_checked",
        "none of the columns must be refused",
    ),
    "what was observed is refused": (
        on_system(check=refuse),
        "trajectories_checked",
        "refuses what was observed",
    ),
    "there are estimates before data": (
        on_evaluator(estimates=guess_at_first),
        "fresh_evaluator",
        "no estimates",
    ),
    "sizes have another shape": (on_evaluator(estimates=per_step), "estimates_fit", "shape"),
    "what does not count is counted": (
        on_evaluator(observe=count_what_does_not),
        "estimates_fit",
        "count between 0 and 0",
    ),
    "what does not count is taken in": (
        on_evaluator(observe=take_what_does_not_count),
        "estimates_fit",
        "must not change the estimates",
    ),
    "batches depend on deliveries": (
        on_evaluator(observe=batch_per_delivery, estimates=estimates_per_delivery),
        "any_delivery",
        "differ in estimates",
    ),
    "the last step waits": (
        on_evaluator(observe=observe_a_little_later),
        "evaluator_state",
        "continue as the saved one",
    ),
    "threads change bits": (on_evaluator(estimates=sums_by_threads), "any_threads", "threads"),
    "single precision is less": (
        on_evaluator(estimates=rough_in_single_precision),
        "any_threads",
        "single precision",
    ),
    "keep() keeps others": (on_evaluator(keep=keep_the_first), "kept_policies", "After keep"),
    "forget() keeps the data": (
        on_evaluator(forget=lambda self: None),
        "forgotten",
        "no estimates",
    ),
    "forget() leaves a step": (
        on_evaluator(forget=forget_all_but_one),
        "forgotten",
        "no estimates",
    ),
    "the state forgets the candidates": (
        on_evaluator(state_dict=state_without_candidates, load_state_dict=forget_candidates),
        "evaluator_state",
        "must equal the saved one.*estimates",
    ),
    "loading adds to what there was": (
        on_evaluator(load_state_dict=load_more),
        "evaluator_state",
        "must equal the saved one",
    ),
    "the state is given away": (
        on_evaluator(
            observe=observe_in_place, state_dict=state_given_away, load_state_dict=load_told
        ),
        "evaluator_state",
        "saved state must not change",
    ),
    "there is no plug-in": (
        on_family(plug_in=lambda self, system: True),
        "plug_in_evaluator",
        "not a PlugInEvaluator",
    ),
    "estimates are wrong on all data": (
        on_evaluator(estimates=twice_the_wait),
        "estimates_are_costs",
        "true difference",
    ),
    "a net of 13 is refused": (
        on_evaluator(__init__=refuse_many),
        "learner_runs",
        "'paired' refuses the problem: Too many",
    ),
    "estimates of many policies turn round": (
        on_evaluator(__init__=count_candidates, estimates=turn_round),
        "learner_improves",
        "more than random policies",
    ),
    "describe() tells the truth": (truth_in_describe, "truth_hidden", "must not know the truth"),
    "reading keeps the truth": (truth_in_reading, "truth_hidden", "learn the same"),
    "the simulator tells the truth": (
        truth_through_the_simulator,
        "truth_hidden",
        "learn the same",
    ),
    "the simulator is held": (truth_held, "truth_hidden", "holds part of the truth"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_problem_fails_the_check_that_is_for_it(patience, register, what):
    breaking, expected, words = BROKEN[what]
    kind = register(breaking(patience))
    for check in CHECKS:
        if check.__name__ == expected:
            with pytest.raises(ContractError, match=words) as failed:
                check(*kind.example())
            assert str(failed.value).endswith((".", ")"))
            return
        check(*kind.example())
    pytest.fail(f"There is no check {expected!r}.")


def test_every_check_has_been_seen_to_fail():
    failing = {expected for _, expected, _ in BROKEN.values()} | {"registered"}
    assert failing == {check.__name__ for check in CHECKS}
