"""Client for WriteTxnMarkers: a connection to each leader of transactions' partitions.

Source: TransactionMarkerChannelManager.scala, MetadataVersion.writeTxnMarkersRequestVersion@3.9.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.broker.metadata.cache import BrokerEndPoint, MetadataCache
from kafka_zk.broker.transaction.marker_channels import TxnMarker, Written
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_Request: Any = codec.request(ApiKey.WRITE_TXN_MARKERS)
_Marker = _Request.WritableTxnMarker
_Topic = _Marker.WritableTxnMarkerTopic


class MarkerConnection(Protocol):
    """The methods of ``network.client.KafkaConnection`` that are used."""

    @property
    def connected_to_broker(self) -> bool: ...

    def request(self, api_key: int, message: Any = None, **fields: Any) -> Awaitable[Any]: ...

    def disconnect(self) -> object: ...


class MarkerClient:
    """The caller sends one request at a time to each broker.

    Args:
        listener: name of the inter-broker listener.
        connect: connects to a broker and negotiates versions.
    """

    def __init__(
        self, metadata: MetadataCache, listener: str, connect: Callable[[str, int], Awaitable[MarkerConnection]]
    ) -> None:
        self._metadata = metadata
        self._listener = listener
        self._connect = connect
        self._connections: dict[int, tuple[BrokerEndPoint, MarkerConnection]] = {}
        self._is_closed = False

    async def write(self, broker_id: int, markers: Sequence[TxnMarker]) -> Written:
        """Returns error codes. Raises the connection's errors."""
        connection = await self._connected(broker_id)
        answer = await connection.request(ApiKey.WRITE_TXN_MARKERS, {"markers": [_message(each) for each in markers]})
        return {
            result.producer_id: {
                TopicPartition(topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
                for topic in result.topics
                for partition in topic.partitions
            }
            for result in answer.markers
        }

    def close(self) -> None:
        """Close all connections; requests in progress fail."""
        self._is_closed = True
        for broker_id in list(self._connections):
            self._drop(broker_id)

    async def _connected(self, broker_id: int) -> MarkerConnection:
        broker = self._metadata.brokers.get(broker_id)
        peer = None if broker is None else broker.endpoints.get(self._listener)
        if peer is None:
            raise ConnectionError(f"the address of broker {broker_id} is not known")
        known = self._connections.get(broker_id)
        if known is not None and known[0] == peer and known[1].connected_to_broker:
            return known[1]
        self._drop(broker_id)
        connection = await self._connect(peer.host, peer.port)
        if self._is_closed:
            connection.disconnect()
            raise ConnectionError("the broker stops")
        self._connections[broker_id] = peer, connection
        return connection

    def _drop(self, broker_id: int) -> None:
        known = self._connections.pop(broker_id, None)
        if known is not None:
            known[1].disconnect()


def _message(marker: TxnMarker) -> Any:
    by_topic = partitions_by_topic(sorted(marker.tps))
    return _Marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=[_Topic(name=topic, partition_indexes=partitions) for topic, partitions in by_topic.items()],
        coordinator_epoch=marker.coordinator_epoch,
    )
