"""Security of a broker's listeners and of its connections to other brokers, read once at the start."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.security.client_security import ClientSecurity
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_security import ListenerSecurity, inter_broker_security, listener_security


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """``listeners``: by name. ``between_brokers``: for this broker's connections to others, by their listener."""

    listeners: Mapping[str, ListenerSecurity]
    between_brokers: Mapping[str, ClientSecurity]

    @classmethod
    def of(cls, config: KafkaConfig) -> "BrokerSecurity":
        """Read keys and certificates. Raises: InvalidBrokerConfig."""
        protocols = config.listener_protocols
        try:
            listeners = {
                name: listener_security(config.properties, name, protocol) for name, protocol in protocols.items()
            }
            between_brokers = {
                name: inter_broker_security(config.properties, name, protocols[name])
                for name in config.broker_listeners
            }
            for name, client in between_brokers.items():
                _check_own_stores(name, client, listeners[name])
            return cls(listeners, between_brokers)
        except InvalidSecurity as error:
            raise InvalidBrokerConfig(str(error)) from None

    @property
    def needs_credentials(self) -> bool:
        """Whether a listener needs SCRAM credentials from ZooKeeper."""
        return any(security.needs_credentials for security in self.listeners.values())


def _check_own_stores(name: str, client: ClientSecurity, listener: ListenerSecurity) -> None:
    """Check that brokers with the stores of this listener trust each other. Otherwise they would start, but never
    replicate. Kafka checks this for the inter-broker listener only; a controller whose own control-plane listener does
    not trust it is as useless. Raises: InvalidSecurity."""
    if client.tls is None or listener.tls is None:
        return
    from kafka_zk.security.tls import check_connection  # imported here, because it loads OpenSSL

    try:
        check_connection(client.tls, listener.tls.settings, listener.tls.client_auth)
    except InvalidSecurity as error:
        raise InvalidSecurity(
            f"between brokers, listener {name}: {error}; ssl.truststore.location must contain the authority that "
            "signed ssl.keystore.location"
        ) from None
