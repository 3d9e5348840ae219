"""One listener's SASL settings, from its keys and login modules.

A callback handler is configured as a Python class, ``module:Class``. It is instantiated once, with the login module's
options. Its methods may block, because they are called off the reactor's thread.

    PLAIN         authenticate(username, password) -> True if the password is right; an exception fails the login
    OAUTHBEARER   validate(token) -> (user name, expiry in s since the epoch); ValueError rejects the token

Source: SaslChannelBuilder.java, PlainServerCallbackHandler.java, VerificationKeyResolverFactory.java@3.9.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kafka_zk.base.integers import NATURAL_INT64, decimal_integer
from kafka_zk.security.client_security import JAVA_PACKAGE
from kafka_zk.security.errors import InvalidSecurity, SaslAuthenticationFailed
from kafka_zk.security.kerberos_names import KerberosNames
from kafka_zk.security.listener_keys import GSSAPI, MAX_REAUTH_MS, SERVER_CALLBACK, USER_RULES, ListenerKeys
from kafka_zk.security.password import Password
from kafka_zk.security.tls_settings import TlsSettings
from kafka_zk.security.token_validation import RefusedToken, TokenValidator, UnsecuredTokens, ValidToken

if TYPE_CHECKING:  # imported on demand, if a listener has GSSAPI
    from kafka_zk.security.kerberos import KerberosService

JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_OAUTHBEARER = f"{JAVA_PACKAGE}oauthbearer."
_SIGNED_HANDLERS = (
    f"{_OAUTHBEARER}OAuthBearerValidatorCallbackHandler",
    f"{_OAUTHBEARER}secured.OAuthBearerValidatorCallbackHandler",
)
_DEFAULT_HANDLERS = {
    "PLAIN": f"{JAVA_PACKAGE}plain.internals.PlainServerCallbackHandler",
    "OAUTHBEARER": f"{_OAUTHBEARER}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    "SCRAM-SHA-256": f"{JAVA_PACKAGE}scram.internals.ScramServerCallbackHandler",
    "SCRAM-SHA-512": f"{JAVA_PACKAGE}scram.internals.ScramServerCallbackHandler",
}
_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_METHODS = {"PLAIN": "authenticate", "OAUTHBEARER": "validate"}
_NOT_VERIFIED = "Authentication failed: credentials for user could not be verified"  # PlainSaslServer.java@3.9


@dataclass(frozen=True, slots=True)
class JwksEndpoint:
    """The JWKS URL of an OAuth provider, and the schedule for fetching its keys.

    ``tls``: None: the system's trusted certificates.
    """

    url: str
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    tls: TlsSettings | None = None


@dataclass(frozen=True, slots=True)
class KerberosListener:
    """The key with which a listener verifies clients, and the rules that map principals to users."""

    service: "KerberosService"
    names: KerberosNames


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The SASL settings of one listener.

    Attributes:
        plain_users: user name -> password, unless there is ``check_password``.
        max_reauth_ms: longest session by mechanism; 0 or absent: no limit.
        check_password: PLAIN's callback.
        tokens: OAUTHBEARER's validator.
        jwks: where to fetch keys for ``tokens`` (a ``SignedTokens``); None: there is nothing to fetch.
        blocking: mechanisms that may block.
    """

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Password] = field(repr=False)
    max_reauth_ms: Mapping[str, int] = field(default_factory=dict)
    check_password: Callable[[str, str], bool] | None = None
    tokens: TokenValidator | None = None
    jwks: JwksEndpoint | None = None
    kerberos: "KerberosListener | None" = None
    blocking: frozenset[str] = frozenset()


def listener_sasl(keys: ListenerKeys) -> ListenerSasl:
    """Raises InvalidSecurity."""
    mechanisms = keys.mechanisms()
    options = {mechanism: keys.login_module(mechanism).options for mechanism in mechanisms}
    callbacks = {
        mechanism: callback
        for mechanism in mechanisms
        if (callback := _callback(keys, mechanism, options[mechanism])) is not None
    }
    users = {
        name.removeprefix("user_"): Password(password)
        for name, password in options.get("PLAIN", {}).items()
        if name.startswith("user_")
    }
    tokens, jwks = None, None
    if "OAUTHBEARER" in mechanisms:
        tokens, jwks = _tokens(keys, options["OAUTHBEARER"], callbacks.get("OAUTHBEARER"))
    return ListenerSasl(
        mechanisms,
        users,
        {mechanism: _max_reauth_ms(keys, mechanism) for mechanism in mechanisms},
        _password_check(callbacks["PLAIN"]) if "PLAIN" in callbacks else None,
        tokens,
        jwks,
        _kerberos(keys, options[GSSAPI]) if GSSAPI in mechanisms else None,
        frozenset(callbacks) | ({GSSAPI} & set(mechanisms)),
    )


def _kerberos(keys: ListenerKeys, options: Mapping[str, str]) -> KerberosListener:
    from kafka_zk.security.client_keys import kerberos_login
    from kafka_zk.security.kerberos import KerberosService, default_realm

    login = kerberos_login("", options)
    if not login.keytab:
        raise InvalidSecurity("sasl.jaas.config: a broker's Krb5LoginModule needs useKeyTab=true")
    rules = [rule.strip() for rule in keys.text(USER_RULES, "DEFAULT").split(",") if rule.strip()]
    names = KerberosNames(rules, default_realm())
    return KerberosListener(KerberosService(login.principal, login.keytab), names)


def _max_reauth_ms(keys: ListenerKeys, mechanism: str) -> int:
    return _number(keys, mechanism, MAX_REAUTH_MS, 0, "a number of ms, 0 for sessions without an end")


def _number(keys: ListenerKeys, mechanism: str, key: str, default: int, what: str) -> int:
    text = keys.of_mechanism(mechanism, key, str(default))
    number = decimal_integer(text, NATURAL_INT64)
    if number is None:
        raise InvalidSecurity(f"{key}={text}: must be {what}")
    return number


def _callback(keys: ListenerKeys, mechanism: str, options: Mapping[str, str]) -> Any:
    """Create the Python callback; None if Kafka's own handler is configured."""
    key, name = keys.name_of(mechanism, SERVER_CALLBACK), keys.own_of_mechanism(mechanism, SERVER_CALLBACK)
    if name in ("", _DEFAULT_HANDLERS.get(mechanism)) or (mechanism == "OAUTHBEARER" and name in _SIGNED_HANDLERS):
        return None
    if mechanism not in _METHODS or not _PYTHON_NAME.fullmatch(name):
        raise InvalidSecurity(
            f"{key}={name}: a Java class cannot be loaded; set a Python class as module:Class, for PLAIN and "
            "OAUTHBEARER"
        )
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)(dict(options))
    except Exception as error:  # a user's code; its message may contain the options
        raise InvalidSecurity(
            f"{key}={name}: the class cannot be imported and instantiated: {type(error).__name__}"
        ) from None
    if not callable(getattr(made, _METHODS[mechanism], None)):
        raise InvalidSecurity(f"{key}={name}: the class has no method {_METHODS[mechanism]}")
    return made


def _password_check(callback: Any) -> Callable[[str, str], bool]:
    def check(username: str, password: str) -> bool:
        try:
            return callback.authenticate(username, password) is True
        except Exception as error:  # a user's code; its message may contain the password
            raise SaslAuthenticationFailed(_NOT_VERIFIED, f"the callback raises {type(error).__name__}") from None

    return check


class _CallbackTokens(TokenValidator):
    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def validate(self, token: str, now_ms: int) -> ValidToken:
        try:
            name, expires_s = self._callback.validate(token)
            valid = ValidToken(name, int(float(expires_s) * 1000))
        except Exception as error:  # a user's code
            raise RefusedToken(f"the callback raises {type(error).__name__}") from None
        if not isinstance(name, str) or not name or valid.expires_ms <= now_ms:
            raise RefusedToken("the callback names no user, or the token has expired")
        return valid


def _tokens(
    keys: ListenerKeys, options: Mapping[str, str], callback: Any
) -> tuple[TokenValidator, JwksEndpoint | None]:
    handler = keys.own_of_mechanism("OAUTHBEARER", SERVER_CALLBACK)
    url = keys.of_mechanism("OAUTHBEARER", JWKS_URL)
    if callback is not None:
        return _CallbackTokens(callback), None
    if handler not in _SIGNED_HANDLERS:
        if url:  # otherwise the administrator would believe that tokens are verified
            wanted = keys.name_of("OAUTHBEARER", SERVER_CALLBACK)
            raise InvalidSecurity(f"{JWKS_URL}={url}: without effect unless {wanted}={_SIGNED_HANDLERS[0]}")
        return UnsecuredTokens(options), None
    try:
        from kafka_zk.security.signed_tokens import ExpectedClaims, InvalidKeys, SignedTokens, read_keys
    except ImportError:
        raise InvalidSecurity(f"{JWKS_URL}: install cryptography: pip install 'kafka-zk[security]'") from None
    audience = keys.of_mechanism("OAUTHBEARER", "sasl.oauthbearer.expected.audience")
    expected = ExpectedClaims(
        frozenset(each.strip() for each in audience.split(",") if each.strip()),
        keys.of_mechanism("OAUTHBEARER", "sasl.oauthbearer.expected.issuer") or None,
        keys.of_mechanism("OAUTHBEARER", "sasl.oauthbearer.sub.claim.name") or "sub",
        1000 * _number(keys, "OAUTHBEARER", "sasl.oauthbearer.clock.skew.seconds", 30, "a number of seconds"),
    )
    tokens, parts = SignedTokens(expected), urlsplit(url)
    if parts.scheme == "file":
        try:
            tokens.keys = read_keys(Path(unquote(parts.path)).read_bytes())
        except OSError as error:
            raise InvalidSecurity(f"{JWKS_URL}={url}: {error.strerror}") from None
        except InvalidKeys as error:
            raise InvalidSecurity(f"{JWKS_URL}={url}: {error}") from None
        return tokens, None
    return tokens, _endpoint(keys, url, options)


def _endpoint(keys: ListenerKeys, url: str, options: Mapping[str, str]) -> JwksEndpoint:
    parts = urlsplit(url)
    is_local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
        raise InvalidSecurity(
            f"{JWKS_URL}={url}: must be file:///… or https://…; over http, an attacker in the network could add a key"
        )

    def ms(name: str, default: int) -> int:
        return _number(keys, "OAUTHBEARER", f"sasl.oauthbearer.jwks.endpoint.{name}", default, "a number of ms")

    refresh_ms, backoff_ms = ms("refresh.ms", 3_600_000), ms("retry.backoff.ms", 100)
    return JwksEndpoint(
        url, max(1, refresh_ms), max(1, backoff_ms), ms("retry.backoff.max.ms", 10_000), _tls(options)
    )


def _tls(options: Mapping[str, str]) -> TlsSettings | None:
    """TLS settings from the login module's ``ssl.`` options."""
    own = {key: value for key, value in options.items() if key.startswith("ssl.")}
    if not own:
        return None
    from kafka_zk.security.client_keys import client_security

    return client_security({**own, "security.protocol": "SSL"}).tls
