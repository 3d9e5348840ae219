"""Security of a broker's listeners and of its connections to other brokers, read once at the start."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_security import ListenerSecurity, inter_broker_security, listener_security


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """``listeners``: by name. ``between_brokers``: for this broker's connections to others."""

    listeners: Mapping[str, ListenerSecurity]
    between_brokers: ClientSecurity

    @classmethod
    def of(cls, config: KafkaConfig) -> "BrokerSecurity":
        """Read keys and certificates. Raises: InvalidBrokerConfig."""
        protocols = config.listener_protocols
        inter_broker = config.inter_broker_listener
        try:
            listeners = {
                name: listener_security(config.properties, name, protocol) for name, protocol in protocols.items()
            }
            return cls(listeners, inter_broker_security(config.properties, inter_broker, protocols[inter_broker]))
        except InvalidSecurity as error:
            raise InvalidBrokerConfig(str(error)) from None

    @property
    def needs_credentials(self) -> bool:
        """Whether a listener needs SCRAM credentials from ZooKeeper."""
        return any(security.needs_credentials for security in self.listeners.values())
