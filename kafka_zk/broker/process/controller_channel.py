"""The connection of this broker to whichever broker is the controller.

Source: NodeToControllerChannelManager and MetadataCacheControllerNodeProvider@3.9.
"""

from collections.abc import Callable
from contextlib import suppress

from twisted.internet.defer import CancelledError, Deferred

from kafka_zk.broker.metadata.cache import BrokerEndPoint, MetadataCache
from kafka_zk.network.client import KafkaConnection


class NoController(ConnectionError):
    """There is none, or it is not known where it listens."""


class ControllerChannel:
    """One connection, kept while the controller stays who and where it is.

    A request to a controller that has been replaced may never be answered, since its process may stand still; Kafka
    waits until it times out. Here ``controller_changed`` ends the connection, and with it the request.

    Args:
        controller_id: the broker that ``/controller`` names, -1 if that is not known.
        listener: the name of the listener that brokers use among themselves.
        connect: to a host and port; versions negotiated.
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
        """The connection to the controller of now; used by one at a time. Raises: NoController; what ``connect``
        raises."""
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
            raise NoController("the broker stops, or another broker is the controller now") from None
        finally:
            self._connecting = None
        return connection

    def controller_changed(self) -> None:
        """Somebody else may be the controller: give up what the one before was asked, or is being connected to."""
        if self._controller_id() < 0:
            return  # nobody is for now: the one before may still answer
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
        """For good."""
        self._is_closed = True
        self._drop()

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
