"""How one listener of a broker is secured: the keys of ``server.properties`` that it obeys, and what they make.

A key counts for a listener under ``listener.name.<listener>.`` or, unless it says who may log in, without the prefix.
Whatever this broker cannot give is refused with one sentence, so that no listener is open although its administrator
believes that it is protected. Values only: nothing here loads OpenSSL or hashlib unless a listener is secured.

Source: BrokerSecurityConfigs, SaslConfigs, SslConfigs, JaasContext, ChannelBuilders.java@3.9.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_zk.base.integers import NATURAL_INT64, decimal_integer
from kafka_zk.security import jaas
from kafka_zk.security.client_security import JAVA_KEYS, LOGIN_MODULES, NO_SECURITY, ClientSecurity
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.principal_mapping import PrincipalMapper
from kafka_zk.security.tls_settings import TlsSettings

BROKER_MECHANISMS = ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
"""Those that a broker can enable, in the order in which Kafka lists them to clients."""

CLIENT_AUTH = ("none", "requested", "required")

_MAX_REAUTH_MS = "connections.max.reauth.ms"
_TLS_KEYS = frozenset(key for key in JAVA_KEYS if key.startswith("ssl."))
_OTHER_KEYS = frozenset(
    {
        "ssl.client.auth", "ssl.principal.mapping.rules",
        "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol",
        *(f"{mechanism.lower()}.sasl.jaas.config" for mechanism in BROKER_MECHANISMS),
        _MAX_REAUTH_MS, *(f"{mechanism.lower()}.{_MAX_REAUTH_MS}" for mechanism in BROKER_MECHANISMS),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """``client_auth``: one of ``CLIENT_AUTH``. ``mapper``: from a certificate's subject to a user."""

    settings: TlsSettings
    client_auth: str
    mapper: PrincipalMapper


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """``mechanisms``: those that clients may use. ``plain_users``: the passwords of PLAIN.
    ``max_reauth_ms``: how long a session lasts, by mechanism; 0 or none for ever."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Password] = field(repr=False)
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """``protocol`` is one of ``client_security.PROTOCOLS``; ``tls`` and ``sasl`` are there if it has them."""

    protocol: str = "PLAINTEXT"
    tls: ListenerTls | None = None
    sasl: ListenerSasl | None = None


def listener_security(properties: Mapping[str, str], listener: str, protocol: str) -> ListenerSecurity:
    """How the listener named ``listener`` is secured. Reads the files that the keys name. Raises: InvalidSecurity."""
    keys = _ListenerKeys(properties, listener)
    try:
        return ListenerSecurity(
            protocol,
            _tls(keys, has_sasl=protocol.startswith("SASL")) if protocol.endswith("SSL") else None,
            _sasl(keys) if protocol.startswith("SASL") else None,
        )
    except InvalidSecurity as error:
        raise InvalidSecurity(f"listener {listener} ({protocol}): {error}") from None


def inter_broker_security(properties: Mapping[str, str], listener: str, protocol: str) -> ClientSecurity:
    """How a broker connects to the same listener of other brokers. Raises: InvalidSecurity."""
    if protocol == "PLAINTEXT":
        return NO_SECURITY
    from kafka_zk.security.client_keys import client_security

    keys = _ListenerKeys(properties, listener)
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
            wanted["sasl.jaas.config"] = keys.jaas_text(mechanism)
        return client_security(wanted)
    except InvalidSecurity as error:
        raise InvalidSecurity(f"between brokers, listener {listener} ({protocol}): {error}") from None


def is_read_for_listener(key: str) -> bool:
    """Whether a key counts under ``listener.name.<listener>.``, if the listener has what it is about."""
    return key in _TLS_KEYS or key in _OTHER_KEYS


class _ListenerKeys:
    """The keys as one listener sees them: its own win over those of all listeners."""

    def __init__(self, properties: Mapping[str, str], listener: str) -> None:
        self._prefix = f"listener.name.{listener.lower()}."
        self._properties = properties
        self._own = {
            key[len(self._prefix) :]: value
            for key, value in properties.items()
            if key.lower().startswith(self._prefix)
        }

    def text(self, key: str, default: str) -> str:
        return self._own.get(key, self._properties.get(key, default)).strip()

    def is_own(self, key: str) -> bool:
        return key in self._own

    def tls(self) -> dict[str, str]:
        return {key: self.text(key, "") for key in _TLS_KEYS if self.is_own(key) or key in self._properties}

    def mechanisms(self) -> tuple[str, ...]:
        """Raises: InvalidSecurity for a mechanism that a broker cannot enable."""
        named = [name.strip() for name in self.text("sasl.enabled.mechanisms", "GSSAPI").split(",") if name.strip()]
        unknown = [name for name in named if name not in BROKER_MECHANISMS]
        if unknown or not named:
            raise InvalidSecurity(
                f"sasl.enabled.mechanisms={','.join(named)}: this broker can enable {', '.join(BROKER_MECHANISMS)}"
            )
        return tuple(name for name in BROKER_MECHANISMS if name in named)

    def of_mechanism(self, mechanism: str, key: str, default: str) -> str:
        """A key that may have the prefix of a mechanism behind that of the listener."""
        return self._own.get(f"{mechanism.lower()}.{key}", self.text(key, default)).strip()

    def jaas_text(self, mechanism: str) -> str:
        """The login module of a mechanism, as it is written. Raises: InvalidSecurity if there is none."""
        key = f"{mechanism.lower()}.sasl.jaas.config"
        text = self._own.get(key)
        if text is None:
            raise InvalidSecurity(f"{self._prefix}{key} is missing: it says who may log in with {mechanism}")
        return text

    def options(self, mechanism: str) -> Mapping[str, str]:
        """Raises: InvalidSecurity, which repeats nothing of the text."""
        key = f"{self._prefix}{mechanism.lower()}.sasl.jaas.config"
        try:
            module = jaas.parse_property(self.jaas_text(mechanism))
        except jaas.InvalidJaas as error:
            raise InvalidSecurity(f"{key}: {error}") from None
        if module.name != LOGIN_MODULES[mechanism]:
            raise InvalidSecurity(f"{key}: {module.name} is not the login module of {mechanism}: "
                                  f"{LOGIN_MODULES[mechanism]}")  # fmt: skip
        return module.options


def _tls(keys: _ListenerKeys, *, has_sasl: bool) -> ListenerTls:
    from kafka_zk.security.client_keys import client_security

    settings = client_security({**keys.tls(), "security.protocol": "SSL"}).tls
    assert settings is not None, "SSL has TLS"
    if settings.identity is None:
        raise InvalidSecurity("ssl.keystore.location is missing: a broker needs a key and a certificate")
    client_auth = keys.text("ssl.client.auth", "none").lower()
    if client_auth not in CLIENT_AUTH:
        raise InvalidSecurity(f"ssl.client.auth={client_auth}: it is one of {', '.join(CLIENT_AUTH)}")
    if has_sasl and not keys.is_own("ssl.client.auth"):
        client_auth = "none"  # without the listener's prefix it does not apply to SASL_SSL, as in Kafka
    return ListenerTls(settings, client_auth, PrincipalMapper(keys.text("ssl.principal.mapping.rules", "DEFAULT")))


def _sasl(keys: _ListenerKeys) -> ListenerSasl:
    mechanisms = keys.mechanisms()
    options = {mechanism: keys.options(mechanism) for mechanism in mechanisms}
    users = {
        name.removeprefix("user_"): Password(password)
        for name, password in options.get("PLAIN", {}).items()
        if name.startswith("user_")
    }
    return ListenerSasl(mechanisms, users, {mechanism: _max_reauth_ms(keys, mechanism) for mechanism in mechanisms})


def _max_reauth_ms(keys: _ListenerKeys, mechanism: str) -> int:
    text = keys.of_mechanism(mechanism, _MAX_REAUTH_MS, "0")
    number = decimal_integer(text, NATURAL_INT64)
    if number is None:
        raise InvalidSecurity(f"{_MAX_REAUTH_MS}={text}: it is a number of ms, 0 for sessions without an end")
    return number


def ignored_client_auth(properties: Mapping[str, str], listeners: Mapping[str, str]) -> list[str]:
    """The SASL_SSL listeners to which an ``ssl.client.auth`` without a prefix does not apply."""
    if properties.get("ssl.client.auth", "none").strip().lower() == "none":
        return []
    return [
        name
        for name, protocol in listeners.items()
        if protocol == "SASL_SSL" and not _ListenerKeys(properties, name).is_own("ssl.client.auth")
    ]
