"""A refused member reports the error to its caller exactly once."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, LogLevel, globalLogPublisher

from kafka_zk.registry.client.client import Create, Delete
from kafka_zk.registry.client.errors import DuplicateConsumerId, FencedInstanceId, RegistryError
from kafka_zk.registry.znodes.consumers import id_path
from tests.rebalance.old_consumer import GROUP
from tests.rebalance.world import Group


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """All log events of level warning and above."""
    events: list[Any] = []

    def observe(event: Any) -> None:
        if event["log_level"] >= LogLevel.warn:
            events.append(event)

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield events
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))


@pytest.mark.parametrize(("instance_timeout_ms", "refusal"), [(None, DuplicateConsumerId), (45_000, FencedInstanceId)])
def test_a_name_that_is_taken_is_one_exception_and_no_line_in_the_log(
    instance_timeout_ms: int | None, refusal: type[RegistryError], logged: list[Any]
) -> None:
    group = Group({"t": 1})
    group.join("a", instance_timeout_ms=instance_timeout_ms)
    group.settle()
    second = group.join("a", instance_timeout_ms=instance_timeout_ms)
    group.settle(20_000)
    assert isinstance(second.failure, refusal)
    assert not logged


def test_a_member_that_is_refused_later_is_one_sentence_in_the_log(logged: list[Any]) -> None:
    """The caller receives the error only at its next call, which may be much later, so the error is also logged."""
    group = Group({"t": 1})
    (member,) = group.join_all("a")
    path = id_path(GROUP, member.consumer_id)
    other = group.zookeeper.client("other")
    group.scheduler.run(other.multi([Delete(path), Create(path, b"{}", ephemeral=True)]))
    member.client.disconnect()
    group.zookeeper.expire(member.client)
    group.settle(20_000)
    assert isinstance(member.failure, DuplicateConsumerId)
    (line,) = logged
    assert line["log_level"] is LogLevel.error and "log_failure" not in line and line["error"] is member.failure
