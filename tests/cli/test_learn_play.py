"""How to play, on the command line."""

import json

import pytest
from typer.testing import CliRunner

from iopea.cli.app import app


def learn(*options):
    return CliRunner().invoke(app, ["learn", "--horizon", "300", "--seeds", "2", *options])


def test_frugal_play_from_the_policy_in_force_costs_less_in_a_year():
    costs = {}
    for options in (("--play", "maximal"), ("--start", "3.5")):
        done = learn("--json", *options)
        assert done.exit_code == 0, done.output
        report = json.loads(done.stdout)
        costs[report["settings"]["play"]] = [run["average_cost"] for run in report["runs"]]
    assert max(costs["frugal"]) < 0.8 * min(costs["maximal"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--play", "frugal", "--start", "high"), "--start takes numbers separated by commas"),
        (("--play", "frugal", "--start", "99"), "The start 99 is not a policy of the class"),
        (("--play", "maximal", "--start", "3"), "or use play = 'frugal'"),
        (("--rule", "published", "--start", "3"), "or use play = 'frugal'"),
        (("--play", "boldly"), "Unknown play 'boldly'"),
        (("--learner", "erm", "--play", "frugal"), "--play is not a setting of erm"),
    ],
)
def test_wrong_wishes_are_refused_in_a_sentence(options, words):
    done = learn(*options)
    assert done.exit_code != 0
    assert words in " ".join(str(done.exception or done.output).split())


def test_every_learner_can_begin_with_stock():
    costs = [
        json.loads(learn("--json", "--learner", "optimal", *options).stdout)["runs"][0][
            "average_cost"
        ]
        for options in ((), ("--state", "3,3,0"))
    ]
    assert costs[1] < costs[0]  # the shop is not empty for the first two periods
    done = learn("--learner", "order-up-to", "--state", "3,-1,0")
    assert "give 3 quantities of at least 0" in str(done.exception)
