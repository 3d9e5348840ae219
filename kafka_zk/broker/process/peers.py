"""A broker's connections to other brokers, over the inter-broker listener; a controller's also over the control-plane
listener.
"""

from collections.abc import Mapping

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.metadata.cache import BrokerEndPoint, MetadataCache
from kafka_zk.broker.process.machine import Machine
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes.brokers import BrokerInfo
from kafka_zk.security.client_security import ClientSecurity


class Peers:
    """Opens connections, which the caller closes.

    ``security``: for new connections, by each listener of ``broker_listeners``; entries can be replaced.
    """

    def __init__(
        self,
        machine: Machine,
        config: KafkaConfig,
        broker_id: int,
        metadata: MetadataCache,
        security: Mapping[str, ClientSecurity],
    ) -> None:
        self._machine = machine
        self._config = config
        self._broker_id = broker_id
        self._metadata = metadata
        self.security = dict(security)

    async def connect_as_controller(self, info: BrokerInfo) -> KafkaConnection:
        """Connect to another broker as the controller: at its control-plane listener, or at its inter-broker listener
        if it has no other. Unlike Kafka's, brokers may thus get a control-plane listener one by one.

        Raises: ApiError(BROKER_NOT_AVAILABLE) if it has neither.
        """
        inter_broker, control_plane = self._config.inter_broker_listener, self._config.control_plane_listener
        if control_plane is not None and (endpoint := info.endpoint(control_plane)) is not None:
            return await self._connect(endpoint.host, endpoint.port, control_plane)
        endpoint = info.endpoint(inter_broker)
        if endpoint is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {info.broker_id} has no listener {inter_broker}")
        return await self.connect_to(endpoint.host, endpoint.port)

    async def connect_to(self, host: str, port: int) -> KafkaConnection:
        """Connect to this address of an inter-broker listener."""
        return await self._connect(host, port, self._config.inter_broker_listener)

    async def _connect(self, host: str, port: int, listener: str) -> KafkaConnection:
        timeout_s = self._config.controller_socket_timeout_ms / 1000
        return await self._machine.connect(
            self._machine.reactor,
            host,
            port,
            client_id=str(self._broker_id),
            timeout_s=timeout_s,
            request_timeout_s=timeout_s,
            security=self.security[listener],
        )

    async def connect_to_broker(self, broker_id: int) -> KafkaConnection:
        """Connect to another broker. Raises: ApiError(BROKER_NOT_AVAILABLE) if its address is unknown."""
        return await self.connect_to(*self._address_of(broker_id))

    async def connect_as_follower(self, leader_id: int) -> KafkaConnection:
        """Like ``connect_to_broker``, with versions from ``inter.broker.protocol.version``. Versions are negotiated
        only for a login."""
        host, port = self._address_of(leader_id)
        security = self.security[self._config.inter_broker_listener]
        return await self._machine.connect(
            self._machine.reactor,
            host,
            port,
            client_id=f"broker-{self._broker_id}-fetcher-0",
            request_timeout_s=self._config.replica_socket_timeout_ms / 1000,
            negotiate=security.sasl is not None,
            security=security,
        )

    def _address_of(self, broker_id: int) -> BrokerEndPoint:
        known = self._metadata.brokers.get(broker_id)
        endpoint = None if known is None else known.endpoints.get(self._config.inter_broker_listener)
        if endpoint is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the address of broker {broker_id} is not known")
        return endpoint
