"""One listener's security settings, from ``server.properties``.

Unsupported settings are rejected with one sentence; if they were ignored, the administrator would believe an open
listener to be protected. The result has only values: without a secured listener, nothing loads OpenSSL or hashlib.

Source: BrokerSecurityConfigs, SaslConfigs, SslConfigs, JaasContext, ChannelBuilders.java@3.9.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_zk.security import jaas
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.listener_keys import ListenerKeys
from kafka_zk.security.principal_mapping import PrincipalMapper
from kafka_zk.security.tls_settings import TlsSettings

if TYPE_CHECKING:  # imported if a listener has SASL
    from kafka_zk.security.listener_sasl import ListenerSasl

CLIENT_AUTH = ("none", "requested", "required")


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """``client_auth``: one of ``CLIENT_AUTH``. ``mapper``: maps the subjects of certificates to users."""

    settings: TlsSettings
    client_auth: str
    mapper: PrincipalMapper


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """``protocol``: one of ``client_security.PROTOCOLS``; ``tls`` and ``sasl`` are None if it does not use them."""

    protocol: str = "PLAINTEXT"
    tls: ListenerTls | None = None
    sasl: "ListenerSasl | None" = None

    @property
    def needs_credentials(self) -> bool:
        """True if the listener needs the SCRAM credentials in ZooKeeper."""
        return self.sasl is not None and any(name.startswith("SCRAM") for name in self.sasl.mechanisms)


def listener_security(properties: Mapping[str, str], listener: str, protocol: str) -> ListenerSecurity:
    """Read the settings of a listener and the files that they name. Raises InvalidSecurity."""
    keys = ListenerKeys(properties, listener)
    try:
        return ListenerSecurity(
            protocol,
            _tls(keys, has_sasl=protocol.startswith("SASL")) if protocol.endswith("SSL") else None,
            _sasl(keys) if protocol.startswith("SASL") else None,
        )
    except InvalidSecurity as error:
        raise InvalidSecurity(f"listener {listener} ({protocol}): {error}") from None


def inter_broker_security(properties: Mapping[str, str], listener: str, protocol: str) -> ClientSecurity:
    """The settings with which a broker connects to this listener of other brokers. Raises InvalidSecurity."""
    if protocol == "PLAINTEXT":
        return NO_SECURITY
    from kafka_zk.security.client_keys import client_security

    keys = ListenerKeys(properties, listener)
    wanted = keys.tls() if protocol.endswith("SSL") else {}
    wanted["security.protocol"] = protocol
    try:
        if protocol.startswith("SASL"):
            mechanism = keys.text("sasl.mechanism.inter.broker.protocol", "GSSAPI").upper()
            if mechanism not in keys.mechanisms():
                raise InvalidSecurity(
                    f"sasl.mechanism.inter.broker.protocol={mechanism} is not enabled at this listener: name it in "
                    "sasl.enabled.mechanisms"
                )
            wanted["sasl.mechanism"] = mechanism
            wanted["sasl.jaas.config"] = jaas.property_text(keys.login_module(mechanism))
            wanted |= keys.login_of(mechanism)
        return client_security(wanted)
    except InvalidSecurity as error:
        raise InvalidSecurity(f"between brokers, listener {listener} ({protocol}): {error}") from None


def _sasl(keys: ListenerKeys) -> "ListenerSasl":
    from kafka_zk.security.listener_sasl import listener_sasl

    return listener_sasl(keys)


def _tls(keys: ListenerKeys, *, has_sasl: bool) -> ListenerTls:
    from kafka_zk.security.client_keys import client_security

    settings = client_security({**keys.tls(), "security.protocol": "SSL"}).tls
    assert settings is not None, "SSL has TLS"
    if settings.identity is None:
        raise InvalidSecurity("ssl.keystore.location is missing: a broker needs a key and a certificate")
    client_auth = keys.text("ssl.client.auth", "none").lower()
    if client_auth not in CLIENT_AUTH:
        raise InvalidSecurity(f"ssl.client.auth={client_auth}: must be one of {', '.join(CLIENT_AUTH)}")
    if has_sasl and not keys.is_own("ssl.client.auth"):
        client_auth = "none"  # as in Kafka, SASL_SSL uses only the key with the listener's prefix
    return ListenerTls(settings, client_auth, PrincipalMapper(keys.text("ssl.principal.mapping.rules", "DEFAULT")))


def ignored_client_auth(properties: Mapping[str, str], listeners: Mapping[str, str]) -> list[str]:
    """SASL_SSL listeners that ignore ``ssl.client.auth``, because the key lacks their prefix."""
    if properties.get("ssl.client.auth", "none").strip().lower() == "none":
        return []
    return [
        name
        for name, protocol in listeners.items()
        if protocol == "SASL_SSL" and not ListenerKeys(properties, name).is_own("ssl.client.auth")
    ]
