"""One listener's keys in ``server.properties``, and its JAAS login modules.

A key has the prefix ``listener.name.<listener>.``. The prefix may be missing unless the key grants access. For SASL, a
key with the prefix ``listener.name.<listener>.<mechanism>.`` takes precedence.

A login module is in ``listener.name.<listener>.<mechanism>.sasl.jaas.config``, or else in the file of
``java.security.auth.login.config``: in section ``<listener>.KafkaServer``, or else ``KafkaServer``. Source:
BrokerSecurityConfigs, ChannelBuilders, JaasContext.java@3.9.
"""

from collections.abc import Mapping
from pathlib import Path

from kafka_zk.security import jaas
from kafka_zk.security.client_security import JAVA_KEYS, LOGIN_MODULES
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.jaas import LoginModule

GSSAPI = "GSSAPI"
BROKER_MECHANISMS = ("PLAIN", "SCRAM-SHA-512", GSSAPI, "SCRAM-SHA-256", "OAUTHBEARER")
"""The mechanisms of brokers, in the order in which Kafka's brokers offer them."""

LISTENER_PREFIX = "listener.name."
"""Prefix of dynamic keys, in lower case. The listener's name after it may be in any case."""

JAAS_FILE = "java.security.auth.login.config"
MAX_REAUTH_MS = "connections.max.reauth.ms"
SERVER_CALLBACK = "sasl.server.callback.handler.class"
TLS_KEYS = frozenset(key for key in JAVA_KEYS if key.startswith("ssl."))
BEARER_KEYS = frozenset(
    f"sasl.oauthbearer.{name}"
    for name in (
        "jwks.endpoint.url", "jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.ms",
        "jwks.endpoint.retry.backoff.max.ms", "clock.skew.seconds", "expected.audience", "expected.issuer",
        "scope.claim.name", "sub.claim.name", "token.endpoint.url",
    )
)  # fmt: skip
SERVICE_NAME = "sasl.kerberos.service.name"
USER_RULES = "sasl.kerberos.principal.to.local.rules"
_LOGIN_CALLBACK = "sasl.login.callback.handler.class"
_OF_MECHANISMS_ONLY = {"sasl.jaas.config", SERVER_CALLBACK, _LOGIN_CALLBACK}
_OF_MECHANISMS_TOO = {MAX_REAUTH_MS, *BEARER_KEYS}
_OTHER_KEYS = frozenset(
    {
        "ssl.client.auth", "ssl.principal.mapping.rules",
        "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol", SERVICE_NAME, USER_RULES,
        *_OF_MECHANISMS_TOO,
        *(
            f"{mechanism.lower()}.{key}"
            for mechanism in BROKER_MECHANISMS
            for key in (*_OF_MECHANISMS_ONLY, *_OF_MECHANISMS_TOO)
        ),
    }
)  # fmt: skip


def is_read_for_listener(key: str) -> bool:
    """True if a key may have the prefix ``listener.name.<listener>.``."""
    return key in TLS_KEYS or key in _OTHER_KEYS


class ListenerKeys:
    """``own``: the keys with the listener's prefix; the prefix is removed."""

    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._listener = listener.lower()
        self._prefix = f"{LISTENER_PREFIX}{self._listener}."
        self._properties = properties
        self.own = {
            key[len(self._prefix) :]: value
            for key, value in properties.items()
            if key.startswith(LISTENER_PREFIX) and key.lower().startswith(self._prefix)
        }

    def text(self, key: str, default: str = "") -> str:
        return self.own.get(key, self._properties.get(key, default)).strip()

    def is_own(self, key: str) -> bool:
        return key in self.own

    def of_mechanism(self, mechanism: str, key: str, default: str = "") -> str:
        """The value of a key that may have the prefix of a mechanism after the listener's prefix."""
        return self.own.get(f"{mechanism.lower()}.{key}", self.text(key, default)).strip()

    def own_of_mechanism(self, mechanism: str, key: str) -> str:
        """The value of a key that must have both prefixes."""
        return self.own.get(f"{mechanism.lower()}.{key}", "").strip()

    def name_of(self, mechanism: str, key: str) -> str:
        """The full name of a key with both prefixes."""
        return f"{self._prefix}{mechanism.lower()}.{key}"

    def tls(self) -> dict[str, str]:
        return {key: self.text(key) for key in TLS_KEYS if self.is_own(key) or key in self._properties}

    def login_of(self, mechanism: str) -> dict[str, str]:
        """The keys for this broker's own OAUTHBEARER token or Kerberos ticket."""
        if mechanism == GSSAPI:
            return {SERVICE_NAME: self.text(SERVICE_NAME)} if self.text(SERVICE_NAME) else {}
        keys = {
            "sasl.oauthbearer.token.endpoint.url": self.of_mechanism(mechanism, "sasl.oauthbearer.token.endpoint.url"),
            _LOGIN_CALLBACK: self.own_of_mechanism(mechanism, _LOGIN_CALLBACK),
        }
        return {key: value for key, value in keys.items() if value} if mechanism == "OAUTHBEARER" else {}

    def mechanisms(self) -> tuple[str, ...]:
        """The enabled mechanisms. Raises InvalidSecurity for one that a broker cannot enable."""
        named = [name.strip() for name in self.text("sasl.enabled.mechanisms", "GSSAPI").split(",") if name.strip()]
        unknown = [name for name in named if name not in BROKER_MECHANISMS]
        if unknown or not named:
            raise InvalidSecurity(
                f"sasl.enabled.mechanisms={','.join(named)}: this broker can enable {', '.join(BROKER_MECHANISMS)}"
            )
        return tuple(name for name in BROKER_MECHANISMS if name in named)

    def login_module(self, mechanism: str) -> LoginModule:
        """Raises InvalidSecurity, whose message omits the configured values."""
        key = self.name_of(mechanism, "sasl.jaas.config")
        text = self.own_of_mechanism(mechanism, "sasl.jaas.config")
        if not text:
            return self._module_of_file(mechanism, key)
        try:
            module = jaas.parse_property(text)
        except jaas.InvalidJaas as error:
            raise InvalidSecurity(f"{key}: {error}") from None
        wanted = LOGIN_MODULES[mechanism]
        if module.name != wanted:
            raise InvalidSecurity(f"{key}: {module.name} is not the login module of {mechanism}: {wanted}")
        return module

    def _module_of_file(self, mechanism: str, key: str) -> LoginModule:
        location = self._properties.get(JAAS_FILE, "").strip()
        if not location:
            raise InvalidSecurity(f"{key} is missing: it says who may log in with {mechanism}")
        sections = self._sections(location)
        names = (f"{self._listener}.KafkaServer", "KafkaServer")
        found = [name for name in names if name in sections]
        if not found:
            raise InvalidSecurity(
                f"{key} is missing, and {JAAS_FILE}={location} has no section {' or '.join(names)}"
            )
        wanted = LOGIN_MODULES[mechanism]
        modules = [module for module in sections[found[0]] if module.name == wanted]
        if not modules:
            raise InvalidSecurity(
                f"{JAAS_FILE}={location}: its section {found[0]} lacks the login module of {mechanism}: {wanted}"
            )
        return modules[0]

    def _sections(self, location: str) -> Mapping[str, tuple[LoginModule, ...]]:
        try:
            return jaas.parse_file(Path(location).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidSecurity(f"{JAAS_FILE}={location}: {error.strerror}") from None
        except (jaas.InvalidJaas, UnicodeDecodeError) as error:
            raise InvalidSecurity(f"{JAAS_FILE}={location}: not a JAAS login file: {error}") from None
