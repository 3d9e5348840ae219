"""The group that ``kafka-zk watch`` watches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import click

from kafka_zk.cli.groups.group_lag import BrokerLagMeter, LagMeter, ZookeeperLagMeter
from kafka_zk.cli.terminal.command_config import command_security
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_session
from kafka_zk.recorder.timeline.broker_group_observer import BrokerGroupObserver
from kafka_zk.recorder.timeline.broker_timeline import BrokerTimeline
from kafka_zk.recorder.timeline.group_observer import GroupObserver
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.registry.znodes.consumers import is_znode_name


class WatchedGroup(ABC):
    """A group whose events are added to ``timeline``."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    @property
    @abstractmethod
    def has_no_members(self) -> bool:
        """True if the group has no member."""

    @abstractmethod
    def poll(self, timeout_ms: int) -> None:
        """Process events for about ``timeout_ms``."""

    @abstractmethod
    def lag_meter(self) -> LagMeter:
        """Make a lag meter for this group."""

    @abstractmethod
    def close(self) -> None:
        """Stop watching."""


class _InZookeeper(WatchedGroup):
    def __init__(self, client: KazooBlockingClient, group: str) -> None:
        super().__init__(Timeline())
        self._client = client
        self._group = group
        self._observer = GroupObserver(client, group, lambda event: self.timeline.add(Traced(event, None)))
        client.process(0)

    @property
    def has_no_members(self) -> bool:
        return self._observer.has_no_members

    def poll(self, timeout_ms: int) -> None:
        self._client.process(timeout_ms)

    def lag_meter(self) -> LagMeter:
        return ZookeeperLagMeter(self._client, self._group)

    def close(self) -> None:
        self._observer.close()


class _OfBrokers(WatchedGroup):
    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(BrokerTimeline(group))
        self._bootstrap = bootstrap
        self._group = group
        self._told: str | None = None
        self._observer = BrokerGroupObserver(
            bootstrap, group, lambda event: self.timeline.add(Traced(event, None)), command_security()
        )

    @property
    def has_no_members(self) -> bool:
        return self._observer.has_no_members

    def poll(self, timeout_ms: int) -> None:
        self._observer.poll(timeout_ms)
        if self._observer.trouble is not None and self._told is None:
            note(f"the group cannot be read now: {self._observer.trouble}")
        self._told = self._observer.trouble

    def lag_meter(self) -> LagMeter:
        return BrokerLagMeter(self._bootstrap, self._group)

    def close(self) -> None:
        self._observer.close()


@contextmanager
def zookeeper_group(zookeeper: str | None, group: str) -> Iterator[WatchedGroup]:
    """Raises click.BadParameter if the name is invalid there."""
    if not is_znode_name(group):
        raise click.BadParameter(f"{group!r} is not a valid name for a ZooKeeper group", param_hint="--group")
    with zookeeper_session(zookeeper or DEFAULT_ZOOKEEPER) as client:
        yield _InZookeeper(client, group)


@contextmanager
def broker_group(bootstrap: str, group: str) -> Iterator[WatchedGroup]:
    """Raises KafkaError if no broker responds."""
    yield _OfBrokers(bootstrap, group)
