"""Polls brokers every second for high watermarks and committed offsets, for the recording's samples.

Brokers with many partitions are asked about them in turns.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import gatherResults
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import Admin
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.list_offsets import LATEST
from kafka_zk.clients.connection.waiting import run
from kafka_zk.recorder.web.asked_groups import AskedGroups
from kafka_zk.recorder.web.turns import Turns
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

INTERVAL_S = 1.0
TIMEOUT_MS = 1_500
"""Maximum time for a broker's response."""
MOST_GROUPS = 20
ROUNDS_BETWEEN_GROUPS = 3
"""Rounds between two polls of groups without traces."""

_log = Logger()


class Wanted(NamedTuple):
    """``brokers``: addresses of live brokers, ``host:port``. ``leaders``: addresses by partition. ``in_zookeeper``:
    committed offsets that are known from ZooKeeper. ``groups``: broker-coordinated groups.
    """

    brokers: tuple[str, ...]
    leaders: Mapping[TopicPartition, str]
    in_zookeeper: Mapping[tuple[str, TopicPartition], int]
    groups: tuple[str, ...]


class Asked(Protocol):
    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Any]: ...

    async def close(self) -> None: ...


class Sampler:
    """A sampler does not wait for failed brokers, and its errors do not affect the recorder.

    Args:
        wanted: called in each round.
        take: receives a time in ms and values by series; may raise.
        asked: finds groups that have no assignment in the recording; None: sample only the groups in ``wanted``.
        now_ms: the time of samples, by the clock of the recording's entries.
    """

    def __init__(
        self,
        reactor: Any,
        wanted: Callable[[], Wanted],
        take: Callable[[int, Mapping[str, int | None]], object],
        asked: AskedGroups | None = None,
        security: ClientSecurity = NO_SECURITY,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._security = security
        self._now_ms = now_ms
        self._reactor = reactor
        self._asked = asked
        self._round = 0
        self._wanted = wanted
        self._take = take
        self._admin: Admin | None = None
        self._brokers: tuple[str, ...] = ()
        self._stopped = False
        self._turns = Turns()
        self._loop = LoopingCall(lambda: run(self._sample()))
        self._loop.clock = reactor

    def start(self) -> None:
        self._loop.start(INTERVAL_S)

    def stop(self) -> None:
        self._stopped = True
        if self._loop.running:
            self._loop.stop()
        if self._admin is not None:
            run(self._admin.close()).addErrback(lambda _: None)

    async def _sample(self) -> None:
        try:
            wanted = self._wanted()
            admin = await self._connected(wanted.brokers)
            if admin is not None and wanted.leaders:
                wanted = await self._with_asked(admin, wanted)
                turn = self._turns.next(wanted.leaders)
                ends, committed = await _ends(admin, turn), await _committed(admin, wanted)
                if self._stopped:
                    return
                self._take(self._now_ms(), self._turns.take(wanted.leaders, ends, committed))
        except Exception:
            _log.failure("partitions and groups could not be sampled")

    async def _with_asked(self, admin: Admin, wanted: Wanted) -> Wanted:
        if self._asked is None:
            return wanted
        if self._round % ROUNDS_BETWEEN_GROUPS == 0:
            await self._asked.ask(admin.groups)
        self._round += 1
        groups = dict.fromkeys((*self._asked.names, *wanted.groups))
        return wanted._replace(groups=tuple(groups)[:MOST_GROUPS])

    async def _connected(self, brokers: tuple[str, ...]) -> Admin | None:
        if self._admin is None or not set(brokers) & set(self._brokers):
            if self._admin is not None:
                await self._admin.close()
            self._brokers = brokers
            self._admin = Admin(self._reactor, _config(brokers, self._security)) if brokers else None
        return self._admin


async def _ends(admin: Asked, leaders: Mapping[TopicPartition, str]) -> dict[TopicPartition, int | None]:
    """The log ends. Each leader gets its own request, so a failed request affects only that leader's partitions."""
    by_leader: dict[str, list[TopicPartition]] = {}
    for tp, leader in leaders.items():
        by_leader.setdefault(leader, []).append(tp)

    async def of(tps: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        try:
            listed = await admin.list_offsets(dict.fromkeys(tps, LATEST))
        except (KafkaError, OSError):
            return dict.fromkeys(tps)
        return {tp: each.offset for tp, each in listed.items()}

    parts = await gatherResults([run(of(tps)) for tps in by_leader.values()])
    return {tp: end for part in parts for tp, end in part.items()}


async def _committed(admin: Admin, wanted: Wanted) -> dict[tuple[str, TopicPartition], int]:
    found = dict(wanted.in_zookeeper)
    if wanted.groups:
        try:
            by_group = await admin.groups.committed_by(wanted.groups)
        except (KafkaError, OSError):
            return found
        found |= {(group, tp): each.offset for group, offsets in by_group.items() for tp, each in offsets.items()}
    return found


def _config(brokers: tuple[str, ...], security: ClientSecurity) -> ClientConfig:
    return ClientConfig(
        bootstrap_servers=brokers, client_id="kafka-zk-web", request_timeout_ms=TIMEOUT_MS,
        socket_connection_setup_timeout_ms=TIMEOUT_MS, default_api_timeout_ms=TIMEOUT_MS, metadata_max_age_ms=10_000,
        security=security,
    )  # fmt: skip
