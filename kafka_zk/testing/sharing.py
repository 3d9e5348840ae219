"""One cluster for all workers of ``pytest -n``: pytest-xdist's controller owns it, and starts it when the first worker
needs it. Workers ask for its addresses over a connection to 127.0.0.1, for which they need the controller's key.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from typing import Any, NamedTuple, NoReturn

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

Document = dict[str, Any]


class Keeper:
    """Owns the cluster, in the controller. ``start``: starts and returns it. ``address``: where workers ask for it."""

    def __init__(self, start: Callable[[], EmbeddedCluster]) -> None:
        key = os.urandom(32)
        self._start = start
        self._cluster: EmbeddedCluster | None = None
        self._listener = Listener((LOCALHOST, 0), authkey=key)
        self.address: Document = {"port": self._listener.address[1], "key": key.hex()}
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        is_open = True
        while is_open:
            with contextlib.suppress(AuthenticationError, EOFError, OSError), self._listener.accept() as connection:
                is_open = connection.recv()
                connection.send(self._told() if is_open else {})

    def _told(self) -> Document:
        try:
            self._cluster = self._cluster or self._start()
        except EmbeddedError as error:
            return {"error": str(error)}
        brokers = [(broker.broker_id, broker.port, broker.pid) for broker in self._cluster.brokers]
        return {"zookeeper_connect": self._cluster.zookeeper_connect, "brokers": brokers}

    def close(self) -> None:
        """Stop the cluster, if a worker has needed it. Call this when all workers have ended."""
        _ask(self.address, wants_cluster=False)
        self._thread.join()
        self._listener.close()
        if self._cluster is not None:
            self._cluster.stop()


def _ask(address: Document, *, wants_cluster: bool) -> Document:
    with Client((LOCALHOST, address["port"]), authkey=bytes.fromhex(address["key"])) as connection:
        connection.send(wants_cluster)
        told: Document = connection.recv()
        return told


class SharedBroker(NamedTuple):
    broker_id: int
    port: int
    pid: int

    @property
    def bootstrap(self) -> str:
        return f"{LOCALHOST}:{self.port}"


class SharedCluster:
    """The controller's cluster, for a worker. ``address``: the keeper's. Raises: EmbeddedError if it cannot start."""

    def __init__(self, address: Document) -> None:
        told = _ask(address, wants_cluster=True)
        if "error" in told:
            raise EmbeddedError(told["error"])
        self.zookeeper_connect: str = told["zookeeper_connect"]
        self.brokers = [SharedBroker(*broker) for broker in told["brokers"]]
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers)
        self.login: ClientSecurity = NO_SECURITY

    @property
    def faults(self) -> NoReturn:
        raise EmbeddedError("other workers use this cluster, too (--share-cluster): use make_cluster for faults")
