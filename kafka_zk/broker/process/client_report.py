"""Reports connected and throttled clients: at each change, and again after REPEAT_S, for later observers and for
recordings that have dropped the last report.

A client is a principal, host and listener, because connections have no client id. Requests need no extra work, because
connections and quotas are examined every INTERVAL_MS.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import EventSource
from kafka_zk.broker.process.events import ClientsSeen, ConnectedClient, ThrottledClient
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.network.connection_settings import ANONYMOUS
from kafka_zk.network.listener import Listener
from kafka_zk.network.periodic import Periodic
from kafka_zk.protocol.request import RequestContext

INTERVAL_MS = 2_000
REPEAT_S = 60
MOST_CONNECTIONS = 2_000
"""Maximum number of connections examined per turn, which takes about a millisecond."""
MOST_CLIENTS = 50
"""Maximum number of clients in an event: those with the most connections, and those throttled the longest."""
LONGEST_NAME = 100


class ClientReport:
    """``start`` may be called repeatedly."""

    def __init__(self, events: EventSource, clock: Timers, listeners: Iterable[Listener], quotas: Enforcement) -> None:
        self._events = events
        self._clock = clock
        self._listeners = listeners
        self._quotas = quotas
        self._periodic: Periodic | None = None
        self._told: tuple[object, ...] | None = None  # None: the first report replaces an earlier process's
        self._reported_s = 0.0

    def start(self) -> None:
        if self._periodic is None:
            self._periodic = Periodic(self._clock, INTERVAL_MS, self.report)

    def stop(self) -> None:
        if self._periodic is not None:
            self._periodic.stop()

    def report(self) -> None:
        """Emit an event if anything has changed, or after REPEAT_S."""
        connections = list(chain.from_iterable(each.connections for each in self._listeners))
        contexts = (each.context for each in connections[:MOST_CONNECTIONS])
        counts = Counter(map(_client, filter(_is_known, contexts)))
        shown = counts.most_common(MOST_CLIENTS)
        clients = sorted(client._replace(connection_count=count) for client, count in shown)
        left_out = max(0, len(connections) - MOST_CONNECTIONS) + counts.total() - sum(count for _, count in shown)
        told = tuple(clients), tuple(self._throttled()), left_out
        now_s = self._clock.seconds()
        if told != self._told or now_s - self._reported_s >= REPEAT_S:
            self._told, self._reported_s = told, now_s
            self._events.emit(ClientsSeen, *told, cause="looked at connections and quotas")

    def _throttled(self) -> Iterator[ThrottledClient]:
        usages = self._quotas.quotas.usage(self._quotas.now_ms(), MOST_CONNECTIONS)
        held_back = sorted((each for each in usages if each.throttle_ms), key=lambda each: -each.throttle_ms)
        for each in islice(held_back, MOST_CLIENTS):
            user, client_id = each.owner
            yield ThrottledClient(
                each.key.value, _cut(user), _cut(client_id), _rounded(each.value), round(each.bound),
                _rounded(each.throttle_ms),
            )  # fmt: skip


def _is_known(context: RequestContext) -> bool:
    """True if no login is needed, or it is complete."""
    return context.principal != ANONYMOUS or not context.security_protocol.startswith("SASL")


def _client(context: RequestContext) -> ConnectedClient:
    name, protocol = context.listener_name, context.security_protocol
    return ConnectedClient(_cut(context.principal), context.peer_host, name, protocol, 0)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _rounded(value: float) -> int:
    """Round to two digits, so that small changes cause no event."""
    return int(float(f"{value:.2g}"))
