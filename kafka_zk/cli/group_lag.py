"""The lag of a group's partitions, measured beside something else that must not wait for brokers."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.client.errors import KafkaError
from kafka_zk.client.list_offsets import LATEST
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.errors import RegistryError
from kafka_zk.registry.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes.consumers import NO_OFFSET
from kafka_zk.storage.types import TopicPartition

EVERY_S = 1.0
_TIMEOUT_MS = 2_000


class LagMeter:
    """``poll`` it as often as you like; ``lag`` is what was measured last, empty while brokers do not answer."""

    def __init__(self, client: KazooBlockingClient, group: str) -> None:
        self.lag: dict[TopicPartition, int] = {}
        self._client = client
        self._offsets = OffsetRegistry(client, group)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lag")
        self._asked: Future[Mapping[TopicPartition, int]] | None = None
        self._next_s = 0.0

    def poll(self, partitions: Collection[TopicPartition]) -> None:
        """Take what has arrived, and ask again if it is time."""
        if self._asked is not None and self._asked.done():
            self._take(self._asked)
            self._asked = None
        if self._asked is None and partitions and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._ask(partitions)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self, partitions: Collection[TopicPartition]) -> None:
        try:
            live = run_blocking(BrokerRegistry(self._client).live())
        except RegistryError:
            return  # ZooKeeper is away: the next time is soon
        servers = ",".join(f"{info.host}:{info.port}" for info, _ in live.values() if info.host is not None)
        if servers:
            self._asked = self._thread.submit(_log_ends, servers, sorted(partitions))

    def _take(self, asked: "Future[Mapping[TopicPartition, int]]") -> None:
        try:
            ends = asked.result()
            stored = run_blocking(self._offsets.fetch(ends))
        except (KafkaError, RegistryError):
            self.lag = {}
            return
        committed = {tp: each.offset for tp, each in stored.items() if each.offset != NO_OFFSET}
        self.lag = {tp: max(0, end - committed[tp]) for tp, end in ends.items() if tp in committed}


def _log_ends(servers: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    timeouts: dict[str, Any] = {"default_api_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
    with BlockingAdmin(bootstrap_servers=servers, **timeouts) as admin:
        return {tp: found.offset for tp, found in admin.list_offsets(dict.fromkeys(partitions, LATEST)).items()}
