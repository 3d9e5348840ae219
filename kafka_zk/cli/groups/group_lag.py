"""A group's lag, measured without blocking the caller."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.command_config import command_security
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.list_offsets import LATEST
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes.consumers import NO_OFFSET
from kafka_zk.security.client_security import ClientSecurity

EVERY_S = 1.0
_TIMEOUTS: dict[str, Any] = {"default_api_timeout_ms": 2_000, "request_timeout_ms": 2_000}


class LagMeter(ABC):
    """``lag``: the last measurement; empty while brokers do not respond."""

    def __init__(self) -> None:
        self.lag: dict[TopicPartition, int] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lag")
        self._asked: Future[Mapping[TopicPartition, int]] | None = None
        self._next_s = 0.0

    def poll(self, partitions: Collection[TopicPartition]) -> None:
        """Take the result of a finished measurement, and start another one if it is due."""
        if self._asked is not None and self._asked.done():
            self._take(self._asked)
            self._asked = None
        if self._asked is None and partitions and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._ask(partitions)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    @abstractmethod
    def _ask(self, partitions: Collection[TopicPartition]) -> None:
        """Start a measurement of these partitions as ``_asked``."""

    @abstractmethod
    def _take(self, asked: "Future[Mapping[TopicPartition, int]]") -> None:
        """Set ``lag`` from the finished measurement."""


class ZookeeperLagMeter(LagMeter):
    def __init__(self, client: KazooBlockingClient, group: str) -> None:
        super().__init__()
        self._client = client
        self._security = command_security()
        self._offsets = OffsetRegistry(client, group)

    def _ask(self, partitions: Collection[TopicPartition]) -> None:
        try:
            live = run_blocking(BrokerRegistry(self._client).live())
        except RegistryError:
            return  # ZooKeeper is unavailable: try again soon
        addresses = [info.address(self._security.protocol) for info, _ in live.values()]
        servers = format_bootstrap_servers(address for address in addresses if address is not None)
        if servers:
            self._asked = self._thread.submit(_log_ends, servers, self._security, sorted(partitions))

    def _take(self, asked: "Future[Mapping[TopicPartition, int]]") -> None:
        try:
            ends = asked.result()
            stored = run_blocking(self._offsets.fetch(ends))
        except (KafkaError, RegistryError):
            self.lag = {}
            return
        self.lag = _behind(ends, {tp: each.offset for tp, each in stored.items() if each.offset != NO_OFFSET})


class BrokerLagMeter(LagMeter):
    """For a broker group, whose offsets are at its coordinator."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__()
        self._bootstrap = bootstrap
        self._security = command_security()
        self._group = group

    def _ask(self, partitions: Collection[TopicPartition]) -> None:
        tps = sorted(partitions)
        self._asked = self._thread.submit(_broker_lag, self._bootstrap, self._security, self._group, tps)

    def _take(self, asked: "Future[Mapping[TopicPartition, int]]") -> None:
        try:
            self.lag = dict(asked.result())
        except KafkaError:
            self.lag = {}


def _behind(ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: max(0, end - committed[tp]) for tp, end in ends.items() if tp in committed}


def _broker_lag(
    bootstrap: str, security: ClientSecurity, group: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    ends = _log_ends(bootstrap, security, partitions)
    with BlockingAdmin(bootstrap_servers=bootstrap, security=security, **_TIMEOUTS) as admin:
        return _behind(ends, {tp: each.offset for tp, each in admin.groups.committed(group).items()})


def _log_ends(servers: str, security: ClientSecurity, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    with BlockingAdmin(bootstrap_servers=servers, security=security, **_TIMEOUTS) as admin:
        return {tp: found.offset for tp, found in admin.list_offsets(dict.fromkeys(partitions, LATEST)).items()}
