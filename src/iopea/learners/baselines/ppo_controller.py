"""The policy of ``ppo``: a network in NumPy, with the statistics that normalise its inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iopea.problems.control import Control
from iopea.state import Stateful, array, parts
from iopea.types import Array, Controller

Floats = NDArray[np.float32]
Layers = tuple[tuple[Floats, Floats], ...]

#: Normalised states are clipped to this many standard deviations.
_FAR = 10.0
#: Lower bound on variances.
_LEAST_VARIANCE = 1e-8
#: With fewer integer states than this, the action in each state is shown.
_FEW = 10
#: Multiplications in one matrix product, up to which BLAS uses a single thread.
_MOST_PRODUCTS = 2**18
#: Gauss-Hermite quadrature for means over normal noise.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS /= _WEIGHTS.sum()


class NetworkController(Controller):
    """A network that acts, with exploration noise or without.

    Without noise it takes the most likely action where actions are integers. Otherwise it orders
    the mean of its random orders, as it was trained on these; the most likely order, of a normal
    number that is clipped and cubed, is well below.

    Parameters
    ----------
    control : Control. States and actions.
    layers : pairs of arrays. Weights and biases of each layer, with tanh between them.
    mean, deviation : arrays (k,). Mean and standard deviation of states, for normalisation.
    spread : array (m,). Standard deviations of continuous actions; empty for integer actions.
    noise : array (n, m), optional. One row for each of n parallel systems: uniform for integer
        actions, else standard normal.
    update : int. Number of updates so far.
    """

    def __init__(
        self,
        control: Control,
        layers: Layers,
        mean: Array,
        deviation: Array,
        spread: Floats,
        noise: Array | None = None,
        update: int = 0,
    ) -> None:
        self._control = control
        self._layers = layers
        self._mean, self._deviation = mean, deviation
        self._spread, self._noise = spread, noise
        self._update = update

    def with_noise(self, noise: Array) -> NetworkController:
        """The same network, with this noise."""
        return NetworkController(
            self._control,
            self._layers,
            self._mean,
            self._deviation,
            self._spread,
            noise,
            self._update,
        )

    def observations(self, states: Array) -> Floats:
        """Normalised states."""
        normal = (states - self._mean) / self._deviation
        return np.asarray(np.clip(normal, -_FAR, _FAR), dtype=np.float32)

    def outputs(self, states: Array) -> Array:
        """The last layer: logits of integer actions, or modes of continuous ones."""
        inputs = self.observations(states)
        most = max(_MOST_PRODUCTS // self._layers[0][1].size ** 2, 1)
        rest = range(most, len(inputs), most)
        return np.concatenate([self._forward(block) for block in np.split(inputs, rest)])

    def _forward(self, values: Floats) -> Array:
        for weights, biases in self._layers[:-1]:
            values = np.tanh(values @ weights + biases)
        weights, biases = self._layers[-1]
        return np.asarray(values @ weights + biases, dtype=np.float64)

    def drawn(self, states: Array, noise: Array) -> Array:
        """Continuous actions before clipping: some may lie outside -1 to 1."""
        return np.asarray(self.outputs(states) + noise * self._spread)

    def act(self, states: Array) -> Array:
        """Actions in these states; with noise, one state per row of the noise."""
        outputs = self.outputs(states)
        if not self._control.whole:
            if self._noise is not None:
                return self._orders(states, _shares(outputs + self._noise * self._spread))
            drawn = outputs[..., None] + self._spread[:, None] * _NODES
            return self._orders(states, _shares(drawn) @ _WEIGHTS)
        if self._noise is None:
            return np.asarray(outputs.argmax(axis=1)[:, None], dtype=np.float64)
        weights = np.exp(outputs - outputs.max(axis=1, keepdims=True)).cumsum(axis=1)
        # The last sum is left out, so that rounding never leads beyond the last action.
        below = weights[:, :-1] <= self._noise * weights[:, -1:]
        return np.asarray(below.sum(axis=1)[:, None], dtype=np.float64)

    def _orders(self, states: Array, shares: Array) -> Array:
        """Orders as shares of the largest feasible order, one component after another."""
        orders = np.zeros(shares.shape)
        for number, highest in enumerate(self._control.highest_action):
            orders[:, number] = highest
            most = self._control.within(states, orders)[:, number]
            orders[:, number] = shares[:, number] * most
        return orders

    def table(self) -> dict[str, object]:
        """The size of the network and, if states are few integers, the action in each."""
        sizes = [len(weights) for weights, _ in self._layers] + [len(self._layers[-1][1])]
        about: dict[str, object] = {"network": sizes, "updates": self._update}
        if (states := self._few_states()) is not None:
            about["actions"] = self.act(states)[:, 0].tolist()
        return about

    def __str__(self) -> str:
        updates = f"{self._update} update{'' if self._update == 1 else 's'}"
        states = self._few_states()
        doing = "" if states is None else ": " + ", ".join(f"{a:g}" for a in self.act(states)[:, 0])
        return f"a network after {updates}{doing}"

    def _few_states(self) -> Array | None:
        highest = self._control.highest_state
        whole = self._control.whole and highest.size == 1
        if self._noise is not None or not whole or highest[0] >= _FEW:
            return None
        return np.arange(highest[0] + 1)[:, None]

    def _parts(self) -> list[Array | Floats]:
        noise = [] if self._noise is None else [self._noise]
        layers = [part for pair in self._layers for part in pair]
        return [self._mean, self._deviation, self._spread, *noise, *layers]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NetworkController):
            return NotImplemented
        mine, others = self._parts(), other._parts()
        return (
            self._update == other._update
            and len(mine) == len(others)
            and all(map(np.array_equal, mine, others))
        )

    def __hash__(self) -> int:
        return hash((self._update, self._mean.tobytes()))


def _shares(actions: Array) -> Array:
    """Shares for actions from -1 to 1: cubes, since orders are small relative to the largest."""
    roots = np.clip((actions + 1) / 2, 0.0, 1.0)
    return np.asarray(roots * roots * roots)


class Statistics(Stateful):
    """Running mean and variance of rows."""

    saved = parts(mean=array, variance=array, count=int)

    def __init__(self, mean: Array, variance: Array) -> None:
        self.mean, self.variance, self.count = mean, variance, 0

    @property
    def deviation(self) -> Array:
        """The standard deviation."""
        return np.sqrt(np.maximum(self.variance, _LEAST_VARIANCE))

    def add(self, rows: Array) -> None:
        """Add rows, an array (n, k)."""
        total = self.count + len(rows)
        share = len(rows) / total
        shift = rows.mean(axis=0) - self.mean
        spread = share * rows.var(axis=0) + share * (1 - share) * shift**2
        self.variance = (1 - share) * self.variance + spread
        self.mean = self.mean + share * shift
        self.count = total
