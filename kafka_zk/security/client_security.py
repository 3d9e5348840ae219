"""How a client is secured: the typed result of its configuration, and the names of the keys that make it.

Values only, so that a client without security loads nothing of it; ``client_keys`` reads the configuration.
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
}
"""What JAAS calls each mechanism, of clients and of brokers."""
MECHANISMS = tuple(LOGIN_MODULES)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How a client logs in.

    ``username``, ``password``: of PLAIN and SCRAM. ``is_token``: they are the id and the HMAC of a delegation token.
    ``tokens``: where the tokens of OAUTHBEARER come from, one of the classes in ``token_sources``.
    """

    mechanism: str
    username: str = ""
    password: Password = NO_PASSWORD
    is_token: bool = False
    tokens: Any = None


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """``protocol`` is one of ``PROTOCOLS``; ``tls`` and ``sasl`` are there if it has them. It can be pickled, and its
    ``repr`` shows no secret."""

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
        "sasl.oauthbearer.token.endpoint.url",
    }
)  # fmt: skip

LIBRDKAFKA_KEYS = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "enable.ssl.certificate.verification", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.config", "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "https.ca.location",
        "oauth.cb",
    }
)  # fmt: skip
"""Those that Java does not have; ``oauth.cb`` is confluent-kafka's ``oauth_cb``."""

ALIASES: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    # kafka-python's, whose names have ``_`` for ``.``
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
        "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
        "sasl.oauthbearer.scope.claim.name", "sasl.oauthbearer.sub.claim.name",
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    }
)  # fmt: skip
"""Keys of Java's clients that are accepted and change nothing, so that their files can be used as they are."""

KEYS = JAVA_KEYS | LIBRDKAFKA_KEYS | ALIASES.keys() | WITHOUT_MEANING
KEYS_BY_FIELD: Mapping[str, str] = {key.replace(".", "_"): key for key in KEYS}
"""The same keys with ``_`` for ``.``, as keyword arguments are spelled."""
