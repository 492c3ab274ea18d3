"""What tests of several environments ask of them."""

import gymnasium
import numpy as np


def public_values(env: gymnasium.Env) -> dict[str, str]:
    """Every public attribute that is no method, as text; of the generator, its state."""
    names = [name for name in dir(env) if not name.startswith("_")]
    values = {name: getattr(env, name) for name in names}
    values["np_random"] = env.np_random.bit_generator.state
    del values["unwrapped"]
    return {name: str(value) for name, value in values.items() if not callable(value)}


def drive(env, policy, steps=150):
    """Columns of what an environment tells in each step, whose rewards are checked."""
    observation, _ = env.reset(seed=3)
    infos = []
    for _ in range(steps):
        observation, reward, _, _, info = env.step(env.policy_action(policy, observation))
        assert reward == -info["pseudo_cost"]
        infos.append(info)
    return {name: np.array([info[name] for info in infos]) for name in infos[0]}
