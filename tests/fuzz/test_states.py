"""Files of saved states with damaged bytes: refused in a sentence, or the state that was saved."""

import numpy as np
import pytest

import iopea
from fuzzing import check_sentence, limited
from iopea.errors import InputError
from iopea.testing.twins import assert_same_state

SYSTEMS = {"shop": iopea.LostSales, "queue": iopea.ServiceRateQueue}


@pytest.fixture(scope="module", params=SYSTEMS)
def saved(request, tmp_path_factory):
    """A learner after a while, and the bytes of its file."""
    problem, truth = SYSTEMS[request.param].example()
    learner = iopea.IOPEA(problem, seed=3)
    iopea.run(learner, problem.simulator(truth, seed=3), 300)
    path = tmp_path_factory.mktemp("states") / "state.npz"
    iopea.save_state(learner.state_dict(), path)
    return problem, learner.state_dict(), path.read_bytes()


def damaged(content, rng):
    """Bytes that are altered, cut off, left out, doubled, blank, or exchanged with others."""
    place = int(rng.integers(len(content)))
    length = int(rng.integers(1, 64))
    part = content[place : place + length]
    before, after = content[:place], content[place + length :]
    match int(rng.integers(7)):
        case 0:
            return (
                before + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + (part + after)[1:]
            )
        case 1:
            return before
        case 2:
            return before + after
        case 3:
            return before + part + part + after
        case 4:
            return before + bytes(len(part)) + after
        case 5:
            return before + rng.bytes(len(part)) + after
        case _:
            return before + content[::-1][:length] + after


def test_a_damaged_file_is_refused_or_read_as_it_was_saved(saved, cases, tmp_path):
    problem, state, content = saved
    rng = np.random.default_rng(7)
    path, refused = tmp_path / "state.npz", 0
    fresh = iopea.IOPEA(problem, seed=3)
    before = fresh.state_dict()
    for _ in range(cases):
        path.write_bytes(damaged(content, rng))
        try:
            with limited():
                read = iopea.load_state(path)
        except InputError as error:
            check_sentence(str(error), "load_state")
            refused += 1
            continue
        try:
            with limited():
                fresh.load_state_dict(read)
        except InputError as error:
            check_sentence(str(error), "load_state_dict")
            refused += 1
            assert_same_state(fresh.state_dict(), before)
        else:
            assert_same_state(fresh.state_dict(), state)
            fresh.load_state_dict(before)
    assert refused > 0.8 * cases
