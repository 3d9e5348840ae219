"""The moment at which a change of membership becomes visible, from which a rebalance is timed.

For groups in ZooKeeper, it is the moment at which another client's watch on ``ids`` fires. For groups in the broker, it
is the moment at which the group's description differs (it is requested every 20 ms).
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from confluent_kafka.admin import AdminClient

from kafka_zk.registry.client.client import Watch, WatchedEvent
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.znodes import consumers

_POLL_INTERVAL_S = 0.02
_WATCH_SLICE_MS = 20
_TIMEOUT_S = 60


class Membership(Protocol):
    """Observes the joins and leaves of a group's members."""

    def changed_ns(self, after_ns: int) -> int:
        """Wait for a change of membership; returns the time of the first one after a moment of the monotonic clock."""

    def close(self) -> None: ...


class _Observer:
    """A thread that observes the group and stores the times of its changes."""

    def __init__(self) -> None:
        self._changes_ns: list[int] = []
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def changed_ns(self, after_ns: int) -> int:
        def found() -> int | None:
            return next((time_ns for time_ns in self._changes_ns if time_ns > after_ns), None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() is not None, _TIMEOUT_S):
                raise TimeoutError(f"no change of the group in {_TIMEOUT_S} s")
            time_ns = found()
        assert time_ns is not None
        return time_ns

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _note(self) -> None:
        with self._changed:
            self._changes_ns.append(time.monotonic_ns())
            self._changed.notify_all()

    def _run(self) -> None:
        raise NotImplementedError


class ZooKeeperMembership(_Observer):
    """Watches ``/consumers/<group>/ids``, which must exist."""

    def __init__(self, connect_string: str, group: str) -> None:
        self._connect_string = connect_string
        self._path = consumers.ids_path(group)
        super().__init__()

    def _run(self) -> None:
        fired = threading.Event()

        def changed(_: WatchedEvent) -> None:
            self._note()
            fired.set()

        with KazooBlockingClient(self._connect_string) as client:
            while not self._ended.is_set():
                fired.clear()
                run_blocking(_watch_children(client, self._path, changed))
                while not fired.is_set() and not self._ended.is_set():
                    client.process(_WATCH_SLICE_MS)


async def _watch_children(client: KazooBlockingClient, path: str, changed: Watch) -> None:
    await client.children(path, changed)


class BrokerMembership(_Observer):
    """Observes the coordinator's description of the group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
        self._group = group
        super().__init__()

    def _run(self) -> None:
        seen = None
        while not self._ended.wait(_POLL_INTERVAL_S):
            described = self._admin.describe_consumer_groups([self._group])[self._group].result(10)
            now = (described.state, frozenset(member.member_id for member in described.members))
            if seen is not None and now != seen:
                self._note()
            seen = now
