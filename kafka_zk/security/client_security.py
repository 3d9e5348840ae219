"""A client's security settings, and the names of their keys.

This module has only values, so that a client without security loads nothing else of this package. ``client_keys`` reads
the configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_zk.security.password import NO_PASSWORD, Password
from kafka_zk.security.tls_settings import TlsSettings

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
JAVA_PACKAGE = "org.apache.kafka.common.security."
LOGIN_MODULES: Mapping[str, str] = {
    "PLAIN": f"{JAVA_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{JAVA_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{JAVA_PACKAGE}scram.ScramLoginModule",
    "OAUTHBEARER": f"{JAVA_PACKAGE}oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
"""JAAS login modules of clients and brokers, by mechanism."""
MECHANISMS = tuple(LOGIN_MODULES)


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """How a client gets Kerberos tickets.

    Attributes:
        service: the first part of the brokers' principals, such as ``kafka``.
        principal: the client's principal; if empty, that of the ticket cache.
        keytab: the path of a keytab; if empty, the tickets in ``cache`` are used.
        cache: the ticket cache; if empty, the user's default one.
    """

    service: str
    principal: str = ""
    keytab: str = ""
    cache: str = ""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How a client authenticates with SASL.

    Attributes:
        username, password: for PLAIN and SCRAM.
        is_token: ``username`` and ``password`` are a delegation token's id and HMAC.
        tokens: source of OAUTHBEARER tokens, an instance of a class in ``token_sources``.
        kerberos: for GSSAPI.
    """

    mechanism: str
    username: str = ""
    password: Password = NO_PASSWORD
    is_token: bool = False
    tokens: Any = None
    kerberos: KerberosLogin | None = None

    @property
    def may_wait(self) -> bool:
        """True if a login may wait for another server, which issues a token or ticket."""
        return self.tokens is not None or self.kerberos is not None


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client connects to brokers. Can be pickled; ``repr`` shows no secret.

    ``protocol``: one of ``PROTOCOLS``. ``tls``, ``sasl``: None if the protocol does not use it.
    """

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None


NO_SECURITY = ClientSecurity()

JAVA_KEYS = frozenset(
    {
        "security.protocol",
        "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
        "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key",
        "ssl.keystore.certificate.chain", "ssl.key.password",
        "ssl.endpoint.identification.algorithm", "ssl.enabled.protocols", "ssl.cipher.suites",
        "sasl.mechanism", "sasl.jaas.config", "sasl.login.callback.handler.class",
        "sasl.oauthbearer.token.endpoint.url", "sasl.kerberos.service.name",
    }
)  # fmt: skip

LIBRDKAFKA_KEYS = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "enable.ssl.certificate.verification", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.config", "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "https.ca.location",
        "oauth.cb", "sasl.kerberos.principal", "sasl.kerberos.keytab",
    }
)  # fmt: skip
"""Keys that Java does not have. ``oauth.cb`` is confluent-kafka's ``oauth_cb``."""

ALIASES: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    # kafka-python's, with ``_`` for ``.``
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
}

WITHOUT_MEANING = frozenset(
    {
        "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds", "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms",
        "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
        "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    }
)  # fmt: skip
"""Keys of Java clients that are accepted without effect, so that existing configuration files can be used."""

KEYS = JAVA_KEYS | LIBRDKAFKA_KEYS | ALIASES.keys() | WITHOUT_MEANING
KEYS_BY_FIELD: Mapping[str, str] = {key.replace(".", "_"): key for key in KEYS}
"""Spelling with ``_``, as in keyword arguments -> key."""
