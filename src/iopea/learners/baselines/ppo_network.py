"""The network of ``ppo`` and its updates, by Stable-Baselines3 without an environment.

This module imports torch; only :class:`~iopea.PPO` imports it, when one is created. Nothing here
uses or changes the global generators of NumPy and torch, so several learners may run in threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from iopea.learners.baselines.ppo_controller import Floats, Layers
from iopea.types import Array, State

#: Gains of the orthogonal initial weights, as in Stable-Baselines3.
_HIDDEN_GAIN, _ACTION_GAIN, _VALUE_GAIN = 2**0.5, 0.01, 1.0
#: Epsilon of Adam, as in Stable-Baselines3.
_ADAM_EPS = 1e-5
#: Held while a network is created, since torch's global generator is forked and restored.
_MAKING = threading.Lock()


@contextlib.contextmanager
def _one_thread() -> Generator[None, None, None]:
    """Limit torch to the calling thread.

    On networks this small more threads are slower, especially on a busy machine, and results must
    not depend on the number of cores. Threads that already use torch are not affected; a thread
    that starts to use it meanwhile may keep the limit of one thread.
    """
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


class ShuffledBuffer(RolloutBuffer):
    """A rollout whose minibatches are drawn by a given generator."""

    rng: np.random.Generator

    def fill(
        self, observations: Floats, actions: Array, rewards: Array, values: Floats, logs: Floats
    ) -> None:
        """Store a full rollout, arrays (rounds, copies, ...); no episode ends in it."""
        self.reset()
        self.observations[:] = observations
        self.actions[:] = actions
        self.rewards[:] = rewards
        self.values[:], self.log_probs[:] = values, logs
        self.pos, self.full = self.buffer_size, True

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """Minibatches of the whole rollout, in a random order."""
        size = self.buffer_size * self.n_envs
        if not self.generator_ready:
            for name in (
                "observations", "actions", "values", "log_probs", "advantages", "returns",
            ):  # fmt: skip
                setattr(self, name, self.swap_and_flatten(getattr(self, name)))
            self.generator_ready = True
        order = self.rng.permutation(size)
        for start in range(0, size, batch_size or size):
            yield self._get_samples(order[start : start + (batch_size or size)])


class Network:
    """Actor and critic, trained by Stable-Baselines3.

    Parameters
    ----------
    numbers : int. Dimension of an observation.
    actions : Space. ``Discrete``, or a ``Box`` from -1 to 1.
    rounds, copies : int. Shape of a rollout.
    width : int. Units in each of the two hidden layers, of actor and critic.
    deviation : float. Initial standard deviation of actions, for a ``Box``.
    rng : Generator. Draws the minibatches.
    seed : int. Seed of the initial weights.
    learning_rate : float. Learning rate of Adam.
    **settings. Further settings of ``stable_baselines3.PPO``.
    """

    def __init__(
        self,
        numbers: int,
        actions: Space[Any],
        rounds: int,
        copies: int,
        width: int,
        deviation: float,
        rng: np.random.Generator,
        seed: int,
        learning_rate: float,
        **settings: Any,
    ) -> None:
        hidden = [width, width]
        self._model = model = PPO(
            "MlpPolicy",
            None,  # type: ignore[arg-type]
            learning_rate=lambda remaining: learning_rate * remaining,
            n_steps=rounds,
            policy_kwargs={
                "net_arch": {"pi": hidden, "vf": hidden},
                "log_std_init": float(np.log(deviation)),
                "optimizer_kwargs": {"eps": _ADAM_EPS, "fused": True},
            },
            rollout_buffer_class=ShuffledBuffer,
            device="cpu",
            _init_setup_model=False,
            **settings,
        )
        model.observation_space = Box(-np.inf, np.inf, (numbers,), np.float32)
        model.action_space = actions
        model.n_envs = copies
        with _MAKING, torch.random.fork_rng(devices=[]):
            model._setup_model()
        with _one_thread():
            self._draw_weights(torch.Generator().manual_seed(seed))
        model.set_logger(Logger(None, []))
        self._buffer: ShuffledBuffer = model.rollout_buffer  # type: ignore[assignment]
        self._buffer.rng = rng

    def _draw_weights(self, rng: torch.Generator) -> None:
        policy = self._model.policy
        extractor = policy.mlp_extractor
        gains = [(layer, _HIDDEN_GAIN) for layer in (*extractor.policy_net, *extractor.value_net)]
        gains += [(policy.action_net, _ACTION_GAIN), (policy.value_net, _VALUE_GAIN)]
        for layer, gain in gains:
            if isinstance(layer, torch.nn.Linear):
                torch.nn.init.orthogonal_(layer.weight, gain, generator=rng)
                torch.nn.init.zeros_(layer.bias)

    def layers(self) -> Layers:
        """Weights (inputs, outputs) and biases of the actor, layer by layer."""
        policy = self._model.policy
        linear = [
            layer
            for layer in (*policy.mlp_extractor.policy_net, policy.action_net)
            if isinstance(layer, torch.nn.Linear)
        ]
        return tuple((_array(layer.weight).T.copy(), _array(layer.bias)) for layer in linear)

    def deviations(self) -> Floats:
        """Standard deviations of the actions; empty for discrete actions."""
        logs = getattr(self._model.policy, "log_std", None)
        return np.empty(0, np.float32) if logs is None else np.exp(_array(logs))

    def modes(self, observations: Floats) -> Array:
        """Torch's own actions, without exploration."""
        with torch.no_grad():
            chosen = self._model.policy._predict(torch.as_tensor(observations), deterministic=True)
        return np.asarray(chosen.numpy(), dtype=np.float64)

    def update(
        self,
        observations: Floats,
        actions: Array,
        rewards: Array,
        last: Floats,
        remaining: float,
    ) -> None:
        """Learn from a rollout, arrays (rounds, copies, ...), and the observations after it.

        ``remaining`` is the factor of the learning rate.
        """
        with _one_thread():
            self._fill(observations, actions, rewards, last)
            self._model._current_progress_remaining = remaining
            self._model.train()

    def _fill(self, observations: Floats, actions: Array, rewards: Array, last: Floats) -> None:
        """Put a rollout into the buffer, with its values and log-probabilities."""
        policy, buffer = self._model.policy, self._buffer
        rounds, copies = rewards.shape
        policy.set_training_mode(False)
        with torch.no_grad():
            flat = torch.as_tensor(observations.reshape(rounds * copies, -1))
            taken = torch.as_tensor(actions.reshape(rounds * copies, -1))
            if isinstance(self._model.action_space, Box):
                taken = taken.float()
            else:
                taken = taken.long().flatten()
            values, logs, _ = policy.evaluate_actions(flat, taken)
            after = policy.predict_values(torch.as_tensor(last))
        buffer.fill(
            observations,
            actions,
            rewards,
            values.numpy().reshape(rounds, copies),
            logs.numpy().reshape(rounds, copies),
        )
        buffer.compute_returns_and_advantage(after, np.zeros(copies))

    def state_dict(self) -> State:
        """Weights and moments of Adam as arrays, by name."""
        policy = self._model.policy
        moments = policy.optimizer.state_dict()["state"]
        return {
            "weights": {name: _array(value) for name, value in policy.state_dict().items()},
            "moments": {
                str(number): {name: _array(value) for name, value in parts.items()}
                for number, parts in moments.items()
            },
        }

    def load_state_dict(self, state: State) -> None:
        """Resume from a saved state."""
        policy = self._model.policy
        policy.load_state_dict(
            {name: torch.from_numpy(np.array(value)) for name, value in state["weights"].items()}
        )
        groups = policy.optimizer.state_dict()["param_groups"]
        moments = {
            int(number): {name: torch.from_numpy(np.array(value)) for name, value in parts.items()}
            for number, parts in state["moments"].items()
        }
        policy.optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _array(value: torch.Tensor) -> Floats:
    return np.array(value.detach().numpy())
