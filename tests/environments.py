"""What tests of several environments ask of them."""

import gymnasium


def public_values(env: gymnasium.Env) -> dict[str, str]:
    """Every public attribute that is no method, as text; of the generator, its state."""
    names = [name for name in dir(env) if not name.startswith("_")]
    values = {name: getattr(env, name) for name in names}
    values["np_random"] = env.np_random.bit_generator.state
    del values["unwrapped"]
    return {name: str(value) for name, value in values.items() if not callable(value)}
