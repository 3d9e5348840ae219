"""Events about a broker's clients, for observers (flight recorder, web page, tests)."""

from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.events import Event


class ConnectedClient(NamedTuple):
    """Connections of one principal from one host to one listener."""

    principal: str
    host: str
    listener: str
    security_protocol: str
    connection_count: int


class ThrottledClient(NamedTuple):
    """An owner of the quota ``key`` that was throttled in the last 30 to 60 s.

    ``user`` or ``client_id`` is empty if the quota does not depend on it. ``used`` and ``bound``: in the unit of the
    key. ``throttle_ms``: average delay.
    """

    key: str
    user: str
    client_id: str
    used: int
    bound: int
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class ClientsSeen(Event):
    """The clients that are connected to the broker, and those that quotas throttle. Replaces the previous event.

    ``left_out``: connections that are missing here, because there are too many.
    """

    clients: tuple[ConnectedClient, ...]
    throttled: tuple[ThrottledClient, ...]
    left_out: int
