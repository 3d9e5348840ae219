"""When binding a listener is retried."""

from kafka_zk.broker.process.listener_retry import (
    MAX_WAIT_MS,
    MIN_WAIT_MS,
    Followed,
    FollowIn,
    Interrupted,
    ListenerRetry,
    Stopped,
    StopWaiting,
)

ONE, BOTH, NONE = (Followed(frozenset(names)) for names in (("A",), ("A", "B"), ()))


def waits(retry: ListenerRetry, *events: Followed | Interrupted) -> list[int]:
    effects = [retry.step(event) for event in events]
    assert all(isinstance(effect, FollowIn) for effect in effects)
    return [effect.wait_ms for effect in effects if isinstance(effect, FollowIn)]


def test_the_wait_doubles_up_to_a_limit() -> None:
    found = waits(ListenerRetry(), *[ONE] * 10)
    assert found[:4] == [MIN_WAIT_MS, 2 * MIN_WAIT_MS, 4 * MIN_WAIT_MS, 8 * MIN_WAIT_MS]
    assert found[-2:] == [MAX_WAIT_MS, MAX_WAIT_MS]


def test_nothing_is_tried_again_once_all_listeners_serve() -> None:
    retry = ListenerRetry()
    waits(retry, ONE, ONE, ONE)
    assert retry.step(NONE) == StopWaiting()
    assert waits(retry, ONE) == [MIN_WAIT_MS]


def test_the_wait_is_short_again_for_another_listener_but_not_for_fewer() -> None:
    assert waits(ListenerRetry(), ONE, ONE, BOTH, ONE, ONE) == [
        MIN_WAIT_MS, 2 * MIN_WAIT_MS, MIN_WAIT_MS, 2 * MIN_WAIT_MS, 4 * MIN_WAIT_MS
    ]  # fmt: skip


def test_an_interrupted_change_is_completed() -> None:
    assert waits(ListenerRetry(), Interrupted(), Interrupted()) == [MIN_WAIT_MS, 2 * MIN_WAIT_MS]


def test_a_broker_that_stops_tries_nothing() -> None:
    retry = ListenerRetry()
    waits(retry, ONE)
    assert retry.step(Stopped()) == StopWaiting()
