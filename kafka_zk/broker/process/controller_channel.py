"""This broker's connection to the current controller.

Source: NodeToControllerChannelManager and MetadataCacheControllerNodeProvider@3.9.
"""

from collections.abc import Callable
from contextlib import suppress

from twisted.internet.defer import CancelledError, Deferred

from kafka_zk.broker.metadata.cache import BrokerEndPoint, MetadataCache
from kafka_zk.network.client import KafkaConnection


class NoController(ConnectionError):
    """There is no controller, or its address is unknown."""


class ControllerChannel:
    """One connection, which is kept as long as the controller and its address stay the same.

    A replaced controller may be paused and never respond. Kafka waits for the request timeout; here
    ``controller_changed`` closes the connection, and the request fails.

    Args:
        controller_id: the id in ``/controller``; -1 if unknown.
        listener: the inter-broker listener.
        connect: connects to a broker and negotiates versions.
    """

    def __init__(
        self,
        controller_id: Callable[[], int],
        metadata: MetadataCache,
        listener: str,
        connect: Callable[[str, int], "Deferred[KafkaConnection]"],
    ) -> None:
        self._controller_id = controller_id
        self._metadata = metadata
        self._listener = listener
        self._connect = connect
        self._peer: BrokerEndPoint | None = None
        self._connection: KafkaConnection | None = None
        self._connecting: Deferred[KafkaConnection] | None = None
        self._is_closed = False

    async def connected(self) -> KafkaConnection:
        """The connection, opened if needed, for one caller at a time. Raises: NoController; errors of ``connect``."""
        if self._is_closed:
            raise NoController("the broker stops")
        peer = self._find()
        connection = self._connection
        if connection is not None and connection.connected_to_broker and self._peer == peer:
            return connection
        self._drop()
        self._peer = peer
        connecting = self._connecting = self._connect(peer.host, peer.port)
        try:
            connection = self._connection = await connecting
        except CancelledError:
            raise NoController("the broker is stopping, or another broker is now the controller") from None
        finally:
            self._connecting = None
        return connection

    def controller_changed(self) -> None:
        """Drop the connection if it does not lead to the current controller."""
        if self._controller_id() < 0:
            return  # the previous controller may still respond
        peer = None
        with suppress(NoController):
            peer = self._find()
        if peer != self._peer:
            self._drop()

    def _find(self) -> BrokerEndPoint:
        controller_id = self._controller_id()
        if controller_id < 0:
            controller_id = self._metadata.controller_id
        broker = self._metadata.brokers.get(controller_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener)
        if endpoint is None:
            raise NoController(f"the address of the controller ({controller_id}) is not known")
        return endpoint

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
