"""The responses that ZooKeeper can and cannot give after lost responses; the simulator follows these rules."""

import pytest

from kafka_zk.registry.client.client import Create, SetData
from tests.registry.client.broken_scripts import on_simulator
from tests.registry.client.possible_trees import PossibleTrees

SCRIPTS = 60
AFTER_ONE_WRITE = (b"2", (1, 0, 0, 1, 0))


@pytest.fixture
def trees() -> PossibleTrees:
    made = PossibleTrees()
    assert made.answered([Create("/a", b"1")], 1, ["/a"])
    return made


def test_what_was_acknowledged_stays(trees: PossibleTrees) -> None:
    assert not trees.read("/a", None)


@pytest.mark.parametrize("answer", [(b"1", (0, 0, 0, 1, 0)), AFTER_ONE_WRITE])
def test_a_lost_request_was_applied_or_not(trees: PossibleTrees, answer: object) -> None:
    trees.lost([SetData("/a", b"2")], 1)
    assert trees.read("/a", answer)


def test_a_lost_request_is_not_applied_later(trees: PossibleTrees) -> None:
    trees.lost([SetData("/a", b"2")], 1)
    assert trees.read("/a", (b"1", (0, 0, 0, 1, 0)))
    assert not trees.read("/a", AFTER_ONE_WRITE)


def test_a_lost_request_is_not_applied_twice(trees: PossibleTrees) -> None:
    trees.lost([SetData("/a", b"2")], 1)
    assert not trees.read("/a", (b"2", (2, 0, 0, 1, 0)))


def test_the_simulator_does_what_the_rules_allow_when_it_stops() -> None:
    said = {number: on_simulator(number) for number in range(SCRIPTS)}
    assert not {number: each for number, each in said.items() if each is not None}
