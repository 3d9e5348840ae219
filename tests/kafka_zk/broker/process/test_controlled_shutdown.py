"""How a stopping broker hands over its leaderships: how often it asks, and that it never waits for long."""

from collections.abc import Callable, Collection
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.process.controlled_shutdown import ClusterView, ControlledShutdown
from kafka_zk.protocol.errors import ApiError, ErrorCode

LEFT = [TopicPartition("t", 0)]


class Stop:
    """Broker 1 stops. ``answers``: the controller's responses in order; the last one repeats."""

    def __init__(self, *answers: Callable[[], "Deferred[Any]"]) -> None:
        self.clock = Clock()
        self.view = ClusterView(2, frozenset({1, 2}))
        self.asked: list[tuple[int, float]] = []
        self._answers = list(answers)
        self.done: list[bool] = []
        shutdown = ControlledShutdown(self.clock, 1, self._ask, lambda: self.view, 3, 5000)
        ensureDeferred(shutdown.run()).addCallback(self.done.append)

    def _ask(self, controller_id: int) -> "Deferred[Collection[TopicPartition]]":
        self.asked.append((controller_id, self.clock.seconds()))
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()

    def advance(self, seconds: float) -> None:
        self.clock.pump([0.05] * round(seconds / 0.05))


def test_what_is_moved_at_once_takes_no_time() -> None:
    assert Stop(lambda: succeed([])).done == [True]


def test_it_asks_again_while_something_is_left() -> None:
    stop = Stop(lambda: succeed(LEFT), lambda: fail(ApiError(ErrorCode.NOT_CONTROLLER)), lambda: succeed([]))
    stop.advance(10.2)
    assert stop.done == [True]
    assert [round(at) for _, at in stop.asked] == [0, 5, 10]


def test_it_gives_up_after_three_tries() -> None:
    stop = Stop(lambda: succeed(LEFT))
    stop.advance(10.2)
    assert stop.done == [False] and len(stop.asked) == 3


def test_it_does_not_wait_longer_than_its_pauses_for_a_controller_that_is_silent() -> None:
    stop = Stop(Deferred)
    stop.advance(15)
    assert stop.done == [False] and len(stop.asked) == 3  # the other two requests follow without a pause


def test_the_last_broker_has_nobody_to_hand_over_to() -> None:
    stop = Stop(lambda: succeed(LEFT))
    stop.view = ClusterView(1, frozenset({1}))
    stop.advance(0.1)
    assert stop.done == [False] and [broker for broker, _ in stop.asked] == [2, 1]


def test_another_controller_is_asked_at_once() -> None:
    """If all brokers stop together, the controller is among the first to go."""
    stop = Stop(lambda: succeed(LEFT), lambda: succeed([]))
    stop.advance(0.5)
    stop.view = ClusterView(3, frozenset({1, 3}))
    stop.advance(0.1)
    assert stop.done == [True] and [broker for broker, _ in stop.asked] == [2, 3]


def test_without_a_controller_it_waits_for_one() -> None:
    stop = Stop(lambda: succeed(LEFT), lambda: succeed([]))
    stop.view = ClusterView(-1, frozenset({1, 2}))
    stop.advance(0.5)
    assert not stop.done
    stop.view = ClusterView(2, frozenset({1, 2}))
    stop.advance(0.1)
    assert stop.done == [True]
