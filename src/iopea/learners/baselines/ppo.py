"""PPO: proximal policy optimisation (Schulman et al. 2017), of Stable-Baselines3.

An actor, a network from states to actions, plays n copies of the system side by side for m rounds.
With the value V of a critic, the advantage of each step is estimated by

    δ_t = r_t + γ V(s_{t+1}) - V(s_t),    A_t = δ_t + γ λ A_{t+1}

(generalised advantage estimation), and both networks are trained on minibatches of the rollout:
the actor on min(ρ A, clip(ρ, 1 - ε, 1 + ε) A), where ρ is the likelihood ratio of the action
under the new and the old actor, the critic on the squared error. Then a new rollout begins.

Integer actions are categorical. Continuous ones are normal: an action a from -1 to 1 stands for
the share ((a + 1) / 2)³ of the largest feasible value in the state, one component after another. So
the actor keeps a gradient where orders would have to be clipped, and it can resolve small orders.

The objective is the long-run average cost, without terminal states. So the reward is
r_t = (ĝ - c_t) / σ, where c_t is the observable cost, ĝ its running mean and σ the running standard
deviation of its discounted sums; γ is near 1; and a rollout is bootstrapped from the value of its
last states. To observe these states, one more round is played, from which nothing is learned.

It assumes only that the observed state is Markov. It observes states, actions and the record of
each step, never lost demand. It learns a network, not a policy of the class, which may be better or
worse than any of them.

States are normalised by their running mean and standard deviation. Both are fixed during a rollout
and are part of the recommendation, so that it acts as it was trained.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from iopea.errors import InputError
from iopea.learners.base import Learner
from iopea.learners.baselines.hyperparameters import chosen
from iopea.learners.baselines.ppo_controller import NetworkController, Statistics
from iopea.model import check_count, check_nonnegative, check_positive, check_share
from iopea.problems.base import Problem
from iopea.seeds import seed_for
from iopea.state import Noise, Part, array, parts
from iopea.types import Array, Play, Trajectory

if TYPE_CHECKING:
    from iopea.learners.baselines.ppo_network import Network

#: Initial standard deviation of continuous actions, whose range is from -1 to 1.
_FIRST_DEVIATION = 0.5
#: Share of the learning rate that is left at the horizon, after a linear decay.
_LEAST_RATE = 0.05


class PPO(Learner):
    """Proximal policy optimisation on parallel copies of the system, by Stable-Baselines3.

    Hyperparameters that are not given are those in ``tuning/ppo.toml``.

    Parameters
    ----------
    problem : Problem. One with states and actions.
    horizon : int, optional. Steps of the whole run [T]: the learning rate decays towards its end.
    seed : int. Seed of the initial weights, the exploration and the minibatches.
    copies : int. Number of parallel systems [n].
    rounds : int. Steps of each system per update [m].
    epochs : int. Passes over the rollout per update.
    minibatch : int. Size of a minibatch, in steps.
    learning_rate : float. Learning rate of Adam.
    gamma, gae_lambda : float. Discount factor, and parameter of the advantage estimation [γ, λ].
    entropy : float. Weight of the entropy of the actions.
    width : int. Units in each of two hidden layers.

    Examples
    --------
    >>> from iopea.systems.queue import ServiceRateQueue
    >>> from iopea.simulate import run
    >>> queue, rates = ServiceRateQueue.example()
    >>> learner = PPO(queue, copies=4, rounds=8, minibatch=16)
    >>> learner.ask().steps, learner.ask().copies
    (4, 4)
    >>> run(learner, queue.simulator(rates), 36).recommendation.table()["updates"]
    1
    """

    name = "ppo"
    needs = "states and actions"
    extra = "ppo"
    saved = parts(
        network=Part, states=Part, costs=Part, returns=Part, discounted=array, noise=array,
        rows=array, told=int, updates=int, bits=Noise, shuffle=Noise,
    )  # fmt: skip

    def __init__(
        self,
        problem: Problem,
        *,
        horizon: int | None = None,
        seed: int = 0,
        copies: int | None = None,
        rounds: int | None = None,
        epochs: int | None = None,
        minibatch: int | None = None,
        learning_rate: float | None = None,
        gamma: float | None = None,
        gae_lambda: float | None = None,
        entropy: float | None = None,
        width: int | None = None,
    ) -> None:
        super().__init__(problem, horizon, seed)
        values = chosen(
            self.name, problem.kind, copies=copies, rounds=rounds, epochs=epochs,
            minibatch=minibatch, learning_rate=learning_rate, gamma=gamma, gae_lambda=gae_lambda,
            entropy=entropy, width=width,
        )  # fmt: skip
        self._hyper = {key: check(key, values[key]) for key, check in _CHECKS.items()}
        if self._hyper["copies"] * self._hyper["rounds"] == 1:
            raise InputError("copies and rounds are both 1: one step is too little to learn from.")
        control = problem.control
        if control is None:  # refused above; for the type checker
            raise InputError(f"{self.name} needs {self.needs}.")
        self._control = control
        self._copies, self._rounds = int(self._hyper["copies"]), int(self._hyper["rounds"])
        self._bits = np.random.PCG64(seed_for(self.name, "noise", self.seed))
        self._shuffle = np.random.PCG64(seed_for(self.name, "minibatches", self.seed))
        self._network = self._new_network()
        highest = control.highest_state
        self._states = Statistics(highest / 2, (highest / 4) ** 2)
        self._costs = Statistics(np.zeros(2), np.ones(2))  # and lengths of steps
        self._returns = Statistics(np.zeros(1), np.ones(1))
        self._discounted = np.zeros(self._copies)
        self._updates = 0
        self._open_rollout()

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Problems with states and actions."""
        control = problem.control
        return control is not None and not (control.whole and len(control.actions) > 1)

    def settings(self) -> dict[str, object]:
        """The learner's settings as JSON values."""
        return {**super().settings(), **self._hyper}

    def recommend(self) -> NetworkController:
        """The actor without exploration: its most likely action, or the mean of its orders."""
        return self._actor

    def _new_network(self) -> Network:
        try:
            from iopea.learners.baselines.ppo_network import Network
        except ImportError:
            raise InputError(
                f"{self.name} needs Stable-Baselines3, which is not installed: "
                "run pip install 'iopea[ppo]'."
            ) from None
        control, hyper = self._control, self._hyper
        actions: Box | Discrete[Any] = Box(-1.0, 1.0, (len(control.actions),), np.float32)
        if control.whole:
            actions = Discrete(int(control.highest_action[0]) + 1)
        return Network(
            numbers=len(control.states),
            actions=actions,
            rounds=self._rounds,
            copies=self._copies,
            width=int(hyper["width"]),
            deviation=_FIRST_DEVIATION,
            rng=np.random.Generator(self._shuffle),
            seed=int(seed_for(self.name, "weights", self.seed).generate_state(1)[0]),
            learning_rate=hyper["learning_rate"],
            n_epochs=int(hyper["epochs"]),
            batch_size=int(hyper["minibatch"]),
            gamma=hyper["gamma"],
            gae_lambda=hyper["gae_lambda"],
            ent_coef=hyper["entropy"],
        )

    def _open_rollout(self) -> None:
        """Draw the noise of the next rollout plus one round, and clear the recorded steps."""
        rng = np.random.Generator(self._bits)
        rounds, copies = self._rounds + 1, self._copies
        if self._control.whole:
            self._noise = rng.random((rounds, copies, 1))
        else:
            self._noise = rng.standard_normal((rounds, copies, len(self._control.actions)))
        self._rows = np.zeros((rounds * copies, len(self._control.columns)))
        self._told = 0
        self._prepare()

    def _prepare(self) -> None:
        """Rebuild the actor from the learner's state."""
        self._actor = NetworkController(
            self._control,
            self._network.layers(),
            self._states.mean,
            self._states.deviation,
            self._network.deviations(),
            update=self._updates,
        )
        self._play: Play | None = None

    def _loaded(self) -> None:
        self._prepare()

    def _ask(self) -> Play:
        # One round at a time: the noise is part of the controller, which is immutable.
        if self._play is None:
            number, into = divmod(self._told, self._copies)
            self._play = Play(
                self._actor.with_noise(self._noise[number]),
                self._copies - into,
                self._updates + 1,
                copies=self._copies,
            )
        return self._play

    def _tell(self, trajectory: Trajectory) -> None:
        rows = self._rows[self._told : self._told + len(trajectory)]
        for number, name in enumerate(self._control.columns):
            rows[:, number] = trajectory[name]
        self._told += len(trajectory)
        self._play = None
        if self._told == len(self._rows):
            self._learn()

    def _learn(self) -> None:
        """Update the networks by a full rollout, then the statistics, and open the next rollout."""
        control, rounds, copies = self._control, self._rounds, self._copies
        columns = dict(zip(control.columns, self._rows.T, strict=True))
        states = self._rows[:, : len(control.states)]
        if control.whole:
            actions = columns[control.actions[0]][:, None]
        else:
            # As drawn, not as ordered: the likelihood is that of actions before clipping.
            actions = self._actor.drawn(states, self._noise.reshape(len(states), -1))
        observations = self._actor.observations(states).reshape(rounds + 1, copies, -1)
        self._network.update(
            observations[:rounds],
            actions.reshape(rounds + 1, copies, -1)[:rounds],
            self._rewards(
                *(
                    each.reshape(rounds + 1, copies)[:rounds]
                    for each in (control.costs(columns), control.lengths(columns))
                )
            ),
            observations[rounds],
            self._rate_left(),
        )
        self._states.add(states)
        self._updates += 1
        self._open_rollout()

    def _rewards(self, costs: Array, lengths: Array) -> Array:
        """Running mean minus cost, over the standard deviation of the discounted sums.

        The mean is per unit of time, since steps may differ in length.
        """
        self._costs.add(np.column_stack([costs.ravel(), lengths.ravel()]))
        cost, length = self._costs.mean
        rewards: Array = cost / length * lengths - costs
        sums = np.empty(costs.shape)
        for number, each in enumerate(rewards):
            self._discounted = self._hyper["gamma"] * self._discounted + each
            sums[number] = self._discounted
        self._returns.add(sums.reshape(-1, 1))
        return rewards / self._returns.deviation

    def _rate_left(self) -> float:
        if self.horizon is None:
            return 1.0
        return max(1 - self._updates * len(self._rows) / self.horizon, _LEAST_RATE)


#: How each hyperparameter is checked.
def _count_up_to(most: int, name: str, value: Any) -> int:
    count = check_count(name, value)
    if count > most:
        raise InputError(f"{name} must be at most {most}, not {count}.")
    return count


_CHECKS: dict[str, Any] = {
    "copies": partial(_count_up_to, 2**12),
    "rounds": partial(_count_up_to, 2**16),
    "epochs": check_count,
    "minibatch": lambda name, value: check_count(name, value, least=2),
    "learning_rate": check_positive,
    "gamma": check_share,
    "gae_lambda": check_share,
    "entropy": check_nonnegative,
    "width": partial(_count_up_to, 2**11),
}
