"""A running broker's keys, certificates and authorities: reloaded on change, watched for expiry.

A reload affects new connections. At each change of the configuration, the stores' contents are compared, so another
file, another password and new content count as changes. A client's request for an unusable store is rejected; other
unusable stores are logged. The old store stays in use.

Imported when a listener has TLS. Source: SslFactory, DynamicBrokerConfig, DynamicListenerConfig@3.9.
"""

from collections.abc import Collection, Mapping

from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.peers import Peers
from kafka_zk.network.listener import Listener
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.security.certificate import Certificate, certificates
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.expiry import ExpiryWarnings
from kafka_zk.security.listener_security import ListenerTls, inter_broker_security, listener_security
from kafka_zk.security.tls import check_connection, server_context
from kafka_zk.security.tls_settings import TlsSettings

_log = Logger()


class LiveTls:
    """The TLS settings of the added listeners. ``between_brokers``: the listeners at which brokers connect."""

    def __init__(self, clock: Clock, between_brokers: Collection[str], peers: Peers) -> None:
        self._clock = clock
        self._between_brokers = between_brokers
        self._peers = peers
        self._protocols: dict[str, str] = {}
        self._listeners: dict[str, Listener] = {}
        self._tls: dict[str, ListenerTls] = {}
        self._warnings = ExpiryWarnings()
        self._problem = ""  # the last logged problem

    def add(self, listener: Listener, protocol: str, tls: ListenerTls) -> None:
        """Follow a listener that now uses ``tls``."""
        self._listeners[listener.name], self._protocols[listener.name] = listener, protocol
        self._tls[listener.name] = tls

    def remove(self, name: str) -> None:
        """Stop following a listener. Does nothing for a listener without TLS."""
        for of_listeners in (self._listeners, self._protocols, self._tls):
            of_listeners.pop(name, None)

    def check(self, config: KafkaConfig, leaving: Collection[str] = ()) -> None:
        """Check whether the remaining listeners can use the configured stores. Raises: ApiError.

        ``leaving``: listeners to remove, even if others get their names.
        """
        try:
            self._changed(config, leaving)
        except InvalidSecurity as error:
            problem = f"Validation of dynamic config update of SSLFactory failed: {error}"
            raise ApiError(ErrorCode.INVALID_REQUEST, problem) from None

    def follow(self, config: KafkaConfig) -> None:
        """Use the configured stores. An error is logged once, and the old stores stay in use."""
        try:
            changed = self._changed(config)
            of_peers = {
                name: inter_broker_security(config.properties, name, self._protocols[name])
                for name in changed
                if name in self._between_brokers
            }
        except InvalidSecurity as error:
            if self._problem != (problem := str(error)):
                _log.error("the keys and certificates could not be changed: {error}", error=problem)
                self._problem = problem
            return
        self._problem = ""
        self._peers.security.update(of_peers)
        for name, tls in changed.items():
            self._tls[name] = tls
            self._listeners[name].renew_tls(server_context(tls.settings, tls.client_auth))
            _log.info("{name}: new connections use other keys or certificates", name=name)
        if changed:
            self.warn()

    def certificates(self) -> dict[str, list[Certificate]]:
        """Listener -> its certificate chain, own certificate first; empty if it cannot be parsed."""
        return {name: _shown(tls.settings) for name, tls in self._tls.items()}

    def days_left(self) -> dict[str, list[tuple[str, float]]]:
        """Subject and days until expiry, by listener."""
        now_ms = self._clock.wall_ms()
        return {
            name: [(each.subject, each.days_left(now_ms)) for each in shown]
            for name, shown in self.certificates().items()
        }

    def warn(self) -> None:
        """Log certificates near their expiry, once per certificate and limit."""
        for sentence in self._warnings.due(self.certificates(), self._clock.wall_ms()):
            _log.warn("{sentence}", sentence=sentence)

    def _changed(self, config: KafkaConfig, leaving: Collection[str] = ()) -> dict[str, ListenerTls]:
        """Listeners whose stores have new content."""
        changed, properties = {}, config.properties
        staying = config.listener_names.difference(leaving)
        for name, old in self._tls.items():
            if name not in staying:
                continue
            new = listener_security(properties, name, self._protocols[name]).tls
            assert new is not None, "its protocol does not change"
            if new.settings == old.settings:
                continue
            server_context(new.settings, old.client_auth)
            _check_successor(properties, old, new.settings)
            if name in self._between_brokers:
                _check_between_brokers(old, new)
            changed[name] = ListenerTls(new.settings, old.client_auth, old.mapper)
        return changed


def _shown(settings: TlsSettings) -> list[Certificate]:
    """The certificates of a listener; empty if this parser rejects what OpenSSL accepts."""
    assert settings.identity is not None, "a listener has a key"
    try:
        return certificates(settings.identity.certificate_chain)
    except ValueError:
        return []


def _check_successor(properties: Mapping[str, str], present: ListenerTls, new: TlsSettings) -> None:
    """Check that the new store has the same subject and hosts, by which clients may identify the broker, as in Kafka.
    Unlike in Kafka, the trust store for client authentication cannot be removed, because the system's authorities would
    replace it."""
    old = present.settings
    if not _shown(old) or not _shown(new):
        raise InvalidSecurity("the certificate of the listener cannot be parsed: restart the broker to change it")
    before, after = _shown(old)[0], _shown(new)[0]
    if before.subject != after.subject and not _is_true(properties, "ssl.allow.dn.changes"):
        raise InvalidSecurity(
            f"Keystore DistinguishedName does not match:  existing={{DN={before.subject}}}, new={{DN={after.subject}}}"
        )
    if not before.names <= after.names and not _is_true(properties, "ssl.allow.san.changes"):
        existing, found = (", ".join(sorted(each.names)) for each in (before, after))
        raise InvalidSecurity(
            f"Keystore SubjectAltNames do not match:  existing={{SAN=[{existing}]}}, new={{SAN=[{found}]}}"
        )
    if old.authorities is None and new.authorities is not None:
        raise InvalidSecurity(
            "Cannot add SSL truststore to an existing listener for which no truststore was configured."
        )
    if old.authorities is not None and new.authorities is None and present.client_auth != "none":
        raise InvalidSecurity(
            "Cannot remove the SSL truststore with which the listener authenticates clients: replace it instead."
        )


def _check_between_brokers(old: ListenerTls, new: ListenerTls) -> None:
    """Check that brokers with the old and the new store can connect to each other."""
    for client, server in ((old, new), (new, old)):
        check_connection(client.settings, server.settings, old.client_auth)


def _is_true(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").strip().lower() == "true"
