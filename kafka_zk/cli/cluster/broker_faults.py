"""The faults that ``kafka-zk up`` applies to its brokers for ``kafka-zk break``.

Only ``up`` can apply them, because it owns the proxies and is the parent of the brokers. A broker's process id is not
reused before its parent has waited for it, and restarted brokers end with the others.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafka_zk.embedded.control_socket import ActionRefused
from kafka_zk.embedded.ports import can_listen
from kafka_zk.embedded.proxied_cluster import Link, ProxiedCluster

if TYPE_CHECKING:
    from kafka_zk.embedded.broker import BrokerProcess
    from kafka_zk.embedded.cluster import EmbeddedCluster

MOST_DELAY_MS = 60_000

Document = dict[str, Any]


class BrokerFaults:
    """Handles requests such as ``{"action": "kill", "broker": 2}``; the response is the broker's new state.

    Args:
        did: called with the action and the broker after each success.
    """

    def __init__(self, cluster: "EmbeddedCluster", did: Callable[[str, "BrokerProcess"], None]) -> None:
        self._cluster = cluster
        self._did = did
        self._paused: set[int] = set()
        self._full: set[int] = set()  # brokers whose files cannot grow
        self._actions: Mapping[str, Callable[[BrokerProcess, Document], None]] = {
            "kill": self._kill,
            "restart": self._restart,
            "pause": self._pause,
            "resume": self._resume,
            "cut": self._cut,
            "delay": self._delay,
            "mend": self._mend,
            "fill-disk": self._fill_disk,
            "free-disk": self._free_disk,
        }
        self.killed: set[int] = set()
        """Brokers whose end was requested."""

    def answer(self, request: Document) -> Document:
        """Raises EmbeddedError with the reason for a refusal."""
        name = request.get("action")
        action = self._actions.get(str(name))
        if action is None:
            raise ActionRefused(f"{name!r} is unknown: this kafka-zk up has another version")
        broker = self._broker(request.get("broker"))
        action(broker, request)
        self._did(str(name), broker)
        return self._state(broker)

    def states(self) -> list[Document]:
        return [self._state(broker) for broker in self._cluster.brokers]

    def _state(self, broker: "BrokerProcess") -> Document:
        broker_id = broker.broker_id
        state = "ended" if not broker.alive else "paused" if broker_id in self._paused else "running"
        proxied = self._cluster if isinstance(self._cluster, ProxiedCluster) else None
        return {
            "id": broker_id,
            "pid": broker.pid,
            "port": broker.port,
            "state": state,
            "cut": sorted(proxied.cut_links(broker_id)) if proxied else [],
            "delay_ms": {link: round(s * 1000) for link, s in proxied.delays_s(broker_id).items()} if proxied else {},
            "disk_full": broker_id in self._full,
        }

    def _broker(self, broker_id: object) -> "BrokerProcess":
        for broker in self._cluster.brokers:
            if broker.broker_id == broker_id:
                return broker
        ids = ", ".join(str(broker.broker_id) for broker in self._cluster.brokers)
        raise ActionRefused(f"there is no broker {broker_id}: this cluster has {ids}")

    def _kill(self, broker: "BrokerProcess", _: Document) -> None:
        _check_alive(broker)
        self._paused.discard(broker.broker_id)
        self.killed.add(broker.broker_id)
        broker.kill()

    def _restart(self, broker: "BrokerProcess", _: Document) -> None:
        if broker.alive:
            raise ActionRefused(f"broker {broker.broker_id} is already running, as pid {broker.pid}")
        if not can_listen(broker.port):
            raise ActionRefused(f"port {broker.port} of broker {broker.broker_id} is in use: was it started by hand?")
        broker.start()
        self._paused.discard(broker.broker_id)
        self._full.discard(broker.broker_id)
        self.killed.discard(broker.broker_id)

    def _pause(self, broker: "BrokerProcess", _: Document) -> None:
        _check_alive(broker)
        if broker.broker_id in self._paused:
            raise ActionRefused(f"broker {broker.broker_id} is already paused")
        broker.pause()
        self._paused.add(broker.broker_id)

    def _resume(self, broker: "BrokerProcess", _: Document) -> None:
        _check_alive(broker)
        if broker.broker_id not in self._paused:
            raise ActionRefused(f"broker {broker.broker_id} is not paused")
        broker.resume()
        self._paused.discard(broker.broker_id)

    def _cut(self, broker: "BrokerProcess", request: Document) -> None:
        cluster = self._proxied()
        _check_alive(broker)
        links = _links(request)
        if links <= set(cluster.cut_links(broker.broker_id)):
            raise ActionRefused(f"broker {broker.broker_id} is already cut off")
        cluster.cut(broker.broker_id, links)

    def _delay(self, broker: "BrokerProcess", request: Document) -> None:
        cluster = self._proxied()
        delay_ms = request.get("ms")
        if not isinstance(delay_ms, int) or not 0 < delay_ms <= MOST_DELAY_MS:
            raise ActionRefused(f"the delay must be 1 to {MOST_DELAY_MS} ms, not {delay_ms!r}")
        cluster.delay(broker.broker_id, _links(request), delay_ms / 1000)

    def _mend(self, broker: "BrokerProcess", _: Document) -> None:
        cluster = self._proxied()
        if not cluster.cut_links(broker.broker_id) and not cluster.delays_s(broker.broker_id):
            raise ActionRefused(f"broker {broker.broker_id} is not cut off")
        cluster.mend(broker.broker_id)

    def _fill_disk(self, broker: "BrokerProcess", _: Document) -> None:
        _check_alive(broker)
        if broker.broker_id in self._full:
            raise ActionRefused(f"the disk of broker {broker.broker_id} is already full")
        _limit_files(broker, 0)
        self._full.add(broker.broker_id)
        self.killed.add(broker.broker_id)

    def _free_disk(self, broker: "BrokerProcess", _: Document) -> None:
        if broker.broker_id not in self._full:
            raise ActionRefused(f"the disk of broker {broker.broker_id} is not full")
        if broker.alive:
            _limit_files(broker, None)
            self.killed.discard(broker.broker_id)
        self._full.discard(broker.broker_id)

    def _proxied(self) -> ProxiedCluster:
        if not isinstance(self._cluster, ProxiedCluster):
            raise ActionRefused("brokers can be cut off only in a cluster that was started with kafka-zk up --proxies")
        return self._cluster


def _links(request: Document) -> set[Link]:
    named = request.get("from", [])
    if not isinstance(named, list) or any(name not in list(Link) for name in named):
        raise ActionRefused(f"the links of a broker are {' and '.join(Link)}, not {named!r}")
    return set(map(Link, named)) or set(Link)


def _limit_files(broker: "BrokerProcess", limit_bytes: int | None) -> None:
    try:
        broker.limit_files(limit_bytes)
    except OSError as error:
        raise ActionRefused(f"the disk of broker {broker.broker_id} cannot be filled here: {error}") from error


def _check_alive(broker: "BrokerProcess") -> None:
    if not broker.alive:
        raise ActionRefused(
            f"broker {broker.broker_id} has already ended; kafka-zk break restart {broker.broker_id} starts it again"
        )
