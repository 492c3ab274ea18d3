"""Errors: three kinds under one base, and sentences that keep the spelling of a user's names."""

import ast
import inspect
from pathlib import Path

import pytest
from pydantic import field_validator

import iopea
from iopea.demand import LAWS
from iopea.errors import unknown
from iopea.model import Model

SOURCE = Path(iopea.__file__).parent
KINDS = ("InputError", "ModelMismatchError", "ComputationError", "ValueError")


def test_three_kinds_under_one_base():
    kinds = (iopea.InputError, iopea.ModelMismatchError, iopea.ComputationError)
    assert all(kind.__base__ is iopea.IopeaError for kind in kinds)
    assert issubclass(iopea.IopeaError, ValueError)


def sentences():
    """How each refusal in the package begins, up to the first value in it."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", None)
            if name in KINDS and node.args:
                text = node.args[0]
                if isinstance(text, ast.JoinedStr):
                    text = text.values[0]
                if isinstance(text, ast.Constant):
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", text.value


def names_that_users_type():
    models = [*LAWS.values(), iopea.Levels, iopea.QueueRates, iopea.Dynamics, iopea.HiddenArm]
    for problem in iopea.PROBLEMS.values():
        models += [problem.system_type, *problem.families]
    for model in models:
        yield from model.model_fields
    for learner in iopea.LEARNERS.values():
        yield from inspect.signature(learner).parameters


def test_a_refusal_keeps_the_spelling_of_what_a_user_types():
    names = set(names_that_users_type())
    assert {"cost_bounds", "period_cost", "levels", "rule"} <= names
    changed = [
        (place, text)
        for place, text in sentences()
        if text[:1].isupper() and text.split()[0].strip(",:.").lower() in names
    ]
    assert not changed


class Example(Model):
    size: int

    @field_validator("size")
    @classmethod
    def _check(cls, value):
        sentences = {
            1: "must be larger, not 1.",
            2: "size is 2: it must be larger.",
            3: "The size is 3.",
        }
        if value in sentences:
            raise ValueError(sentences[value])
        return value


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (1, "size must be larger, not 1."),
        (2, "size is 2: it must be larger."),
        (3, "The size is 3."),
    ],
)
def test_a_sentence_has_the_key_once(size, sentence):
    with pytest.raises(iopea.InputError) as caught:
        Example(size=size)
    assert str(caught.value) == sentence


def test_a_list_of_known_names_has_each_of_them_once():
    sentence = str(unknown("row", "nosuch", ["ucrl2", "erm", "ucrl2"]))
    assert sentence == "Unknown row 'nosuch': use one of 'erm', 'ucrl2'."
