"""Reads a client's security keys, spelled as in Java, librdkafka or kafka-python.

Files are read immediately, so that other machines can use the result. Unknown keys and contradictions are rejected,
with one sentence without secrets. TLS or SASL keys that the protocol does not use are rejected, too; otherwise the user
would believe that they have an effect.

Source: CommonClientConfigs, SslConfigs, SaslConfigs, DefaultSslEngineFactory.java@3.9; librdkafka's CONFIGURATION.md.
"""

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_zk.security import jaas, stores
from kafka_zk.security.client_security import (
    ALIASES,
    JAVA_KEYS,
    JAVA_PACKAGE,
    KEYS_BY_FIELD,
    LIBRDKAFKA_KEYS,
    LOGIN_MODULES,
    MECHANISMS,
    PROTOCOLS,
    ClientSecurity,
    KerberosLogin,
    SaslSettings,
)
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import NO_PASSWORD, Password
from kafka_zk.security.tls_settings import Identity, TlsSettings

MOST_STORE_BYTES = 16 * 1024 * 1024
"""A larger file is not a key store; it may be a device."""

_SERVICE = "sasl.kerberos.service.name"
_CALLBACK = "sasl.login.callback.handler.class"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_ENDPOINT_HANDLERS = (
    f"{JAVA_PACKAGE}oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{JAVA_PACKAGE}oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_UNSECURED_HANDLER = f"{JAVA_PACKAGE}oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SASL, _TLS = ("sasl.", "oauth.", "https."), ("ssl.", "enable.ssl.")
_TRUE_FALSE = {"true": True, "false": False}


def client_security(properties: Mapping[str, Any]) -> ClientSecurity:
    """The settings in ``properties``, spelled with ``.`` or ``_``; other keys are ignored.

    Raises InvalidSecurity for the first unusable value or file, and for contradictions.
    """
    keys = _Keys(properties)
    protocol = keys.text("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise InvalidSecurity(f"security.protocol={protocol}: must be one of {', '.join(PROTOCOLS)}")
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    sasl, tls = (_SASL, has_sasl, "SASL_SSL or SASL_PLAINTEXT"), (_TLS, has_tls, "SSL or SASL_SSL")
    for prefixes, is_used, better in (sasl, tls):
        if not is_used and (unused := keys.first(prefixes)):
            raise InvalidSecurity(
                f"{unused} has no effect with security.protocol={protocol}: set security.protocol to {better}, "
                f"or remove {unused}"
            )
    return ClientSecurity(protocol, _tls(keys) if has_tls else None, _sasl(keys) if has_sasl else None)


def security_keys(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The security keys, including unknown keys with the prefix of security keys."""
    return {key: value for key, value in properties.items() if _is_of_security(key)}


def _is_of_security(key: str) -> bool:
    field = key.replace(".", "_")
    return field in KEYS_BY_FIELD or field.startswith(("security_", "ssl_", "sasl_"))


class _Keys:
    """The supported keys, in Java's or librdkafka's spelling with dots. An empty value counts as absent, except that of
    ``ssl.endpoint.identification.algorithm``."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._given: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for name, value in properties.items():
            key = KEYS_BY_FIELD.get(name.replace(".", "_"))
            if key is None and _is_of_security(name):
                near = difflib.get_close_matches(name.replace("_", "."), KEYS_BY_FIELD.values(), 1)
                hint = f"; did you mean {near[0]}?" if near else ", or it is not supported"
                raise InvalidSecurity(f"{name}: unknown security key{hint}")
            meant = ALIASES.get(key, key) if key else None
            if meant is None or meant not in JAVA_KEYS | LIBRDKAFKA_KEYS or value is None:
                continue
            if meant in spelled:
                raise InvalidSecurity(f"{name} and {spelled[meant]} are the same key: give only one of them")
            spelled[meant] = name
            if value != "" or meant == "ssl.endpoint.identification.algorithm":
                self._given[meant] = value

    def first(self, prefixes: tuple[str, ...]) -> str | None:
        return min((key for key in self._given if key.startswith(prefixes)), default=None)

    def has(self, key: str) -> bool:
        return key in self._given

    def raw(self, key: str) -> Any:
        return self._given.get(key)

    def text(self, key: str, default: str) -> str:
        value = self._given.get(key, default)
        return (value.value if isinstance(value, Password) else str(value)).strip()

    def secret(self, key: str) -> Password | None:
        value = self._given.get(key)
        return value if isinstance(value, Password) else None if value is None else Password(str(value))

    def needed(self, key: str, why: str) -> str:
        if not self.has(key):
            raise InvalidSecurity(f"{key} is needed {why}")
        return self.text(key, "")

    def needed_secret(self, key: str, why: str) -> Password:
        self.needed(key, why)
        return self.secret(key) or NO_PASSWORD

    def flag(self, key: str, default: bool) -> bool:
        value = self._given.get(key, default)
        flag = value if isinstance(value, bool) else _TRUE_FALSE.get(str(value).strip().lower())
        if flag is None:
            raise InvalidSecurity(f"{key}={value}: must be true or false")
        return flag

    def items(self, key: str) -> tuple[str, ...]:
        """The items of a list, separated by commas or, as in librdkafka, colons."""
        value = self._given.get(key, "")
        parts = re.split("[,:]", value) if isinstance(value, str) else value
        return tuple(part.strip() for part in parts if part.strip())

    def one_of(self, *keys: str) -> str | None:
        """The given key; None if none is given. Raises InvalidSecurity for several."""
        given = [key for key in keys if self.has(key)]
        if len(given) > 1:
            raise InvalidSecurity(f"{given[0]} and {given[1]} contradict each other: give one of them")
        return given[0] if given else None

    def content(self, key: str) -> bytes:
        return self.file(key) if key.endswith(".location") else self.text(key, "").encode()

    def file(self, key: str) -> bytes:
        path = self.text(key, "")
        try:
            with Path(path).expanduser().open("rb") as file:
                content = file.read(MOST_STORE_BYTES + 1)
        except OSError as error:
            raise InvalidSecurity(f"{key}={path}: {error.strerror}") from None
        except (ValueError, RuntimeError) as error:  # the path has a NUL, or an unknown user's home directory
            raise InvalidSecurity(f"{key}={path!r}: {error}") from None
        if len(content) > MOST_STORE_BYTES:
            raise InvalidSecurity(f"{key}={path}: the file is larger than 16 MB, so it is not a key store")
        return content


# --- TLS ---


def _tls(keys: _Keys) -> TlsSettings:
    algorithm = keys.text("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none", ""):
        raise InvalidSecurity(f"ssl.endpoint.identification.algorithm={algorithm}: must be https, or empty (no check)")
    protocols = keys.items("ssl.enabled.protocols")
    from kafka_zk.security.tls import VERSIONS, client_context  # imported here, because it loads OpenSSL

    usable = tuple(name for name in protocols if name in VERSIONS)
    if protocols and not usable:
        raise InvalidSecurity(f"ssl.enabled.protocols={','.join(protocols)}: {' and '.join(VERSIONS)} can be used")
    settings = TlsSettings(
        authorities=_authorities(keys),
        identity=_identity(keys),
        verify=keys.flag("enable.ssl.certificate.verification", default=True),
        check_host_name=algorithm == "https",
        protocols=usable,
        suites=keys.items("ssl.cipher.suites"),
    )
    client_context(settings)  # OpenSSL's errors become errors of the configuration
    return settings


def _authorities(keys: _Keys) -> str | None:
    source = keys.one_of("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem")
    if source is None:
        if keys.has("ssl.truststore.password") or keys.has("ssl.truststore.type"):
            raise InvalidSecurity("ssl.truststore.location is missing: a type or a password of a trust store is given")
        return None
    is_store = source == "ssl.truststore.location"
    data = keys.content(source)
    kind = _store_type(keys, "truststore", data) if is_store else "PEM"
    with _about(keys, source):
        return stores.authorities(data, kind, keys.secret("ssl.truststore.password"))


def _identity(keys: _Keys) -> Identity | None:
    key = keys.one_of("ssl.keystore.location", "ssl.keystore.key", "ssl.key.location", "ssl.key.pem")
    chain = keys.one_of("ssl.keystore.certificate.chain", "ssl.certificate.location", "ssl.certificate.pem")
    if key is None:
        if given := chain or next((each for each in ("ssl.keystore.password", "ssl.key.password",
                                                     "ssl.keystore.type") if keys.has(each)), None):  # fmt: skip
            raise InvalidSecurity(f"{given} is given, but no private key: ssl.keystore.location or ssl.key.location")
        return None
    key_password = keys.secret("ssl.key.password")
    if key == "ssl.keystore.location":
        keys.one_of(key, *((chain,) if chain else ()))
        data = keys.file(key)
        kind = _store_type(keys, "keystore", data)
        with _about(keys, key):
            return stores.identity(data, kind, keys.secret("ssl.keystore.password"), key_password)
    if chain is None:
        raise InvalidSecurity(
            f"{key} is given, but no certificate: ssl.keystore.certificate.chain or ssl.certificate.location"
        )
    key_text, certificates = keys.content(key), keys.content(chain)
    with _about(keys, key):
        return stores.pem_identity(key_text, certificates, key_password)


def _store_type(keys: _Keys, name: str, data: bytes) -> str:
    """The type according to the content, because Java reads PKCS12 and JKS under each other's names."""
    key = f"ssl.{name}.type"
    wanted = keys.text(key, "").upper()
    if wanted and wanted not in stores.TYPES:
        raise InvalidSecurity(f"{key}={wanted}: must be one of {', '.join(stores.TYPES)}")
    kind = stores.type_of(data)
    kind = wanted if "PEM" in (wanted, kind) and wanted else kind
    if kind == "PEM" and keys.has(f"ssl.{name}.password"):
        raise InvalidSecurity(
            f"ssl.{name}.password: a PEM file has no password of its own, only its key may have one (ssl.key.password)"
        )
    return kind


@contextlib.contextmanager
def _about(keys: _Keys, key: str) -> Iterator[None]:
    """Add ``key`` and its file to the message."""
    try:
        yield
    except InvalidSecurity as error:
        where = f"{key}={keys.text(key, '')}" if key.endswith(".location") else key
        raise InvalidSecurity(f"{where}: {error}") from None


# --- SASL ---


def _sasl(keys: _Keys) -> SaslSettings:
    mechanism = keys.text("sasl.mechanism", "GSSAPI").upper()
    is_missing = not keys.has("sasl.mechanism") and not keys.has(_SERVICE)  # GSSAPI, the default, needs it
    if mechanism not in MECHANISMS or is_missing:
        what = "sasl.mechanism is missing" if is_missing else f"sasl.mechanism={mechanism}"
        raise InvalidSecurity(f"{what}: must be one of {', '.join(MECHANISMS)}")
    options = _jaas_options(keys, mechanism)
    if mechanism == "GSSAPI":
        return SaslSettings(mechanism, kerberos=_kerberos(keys, options))
    if mechanism == "OAUTHBEARER":
        return SaslSettings(mechanism, tokens=_tokens(keys, options))
    if options is None:
        hint = f"with sasl.mechanism={mechanism} (or sasl.jaas.config)"
        return SaslSettings(mechanism, keys.needed("sasl.username", hint), keys.needed_secret("sasl.password", hint))
    for name in ("username", "password"):
        if not options.get(name):
            raise InvalidSecurity(f'sasl.jaas.config: {name}="…" is needed for {mechanism}')
    is_token = options.get("tokenauth", "false").lower() == "true"
    return SaslSettings(mechanism, options["username"], Password(options["password"]), is_token)


def _jaas_options(keys: _Keys, mechanism: str) -> Mapping[str, str] | None:
    text = keys.secret("sasl.jaas.config")
    if text is None:
        return None
    for other in ("sasl.username", "sasl.password", "sasl.oauthbearer.client.id", "sasl.oauthbearer.config",
                  "sasl.kerberos.principal", "sasl.kerberos.keytab"):  # fmt: skip
        keys.one_of("sasl.jaas.config", other)
    try:
        module = jaas.parse_property(text.value)
    except jaas.InvalidJaas as error:
        raise InvalidSecurity(f"sasl.jaas.config: {error}") from None
    mechanisms = [each for each, name in LOGIN_MODULES.items() if name == module.name]
    if not mechanisms:
        known = ", ".join(dict.fromkeys(LOGIN_MODULES.values()))
        raise InvalidSecurity(f"sasl.jaas.config: the login module {module.name} is not known; there are {known}")
    if mechanism not in mechanisms:
        raise InvalidSecurity(
            f"sasl.mechanism={mechanism} and sasl.jaas.config contradict each other: {module.name} is for "
            f"{' and '.join(mechanisms)}"
        )
    return module.options


def _kerberos(keys: _Keys, options: Mapping[str, str] | None) -> KerberosLogin:
    from kafka_zk.security.kerberos import gssapi_module

    service, of_module = keys.text(_SERVICE, ""), (options or {}).get("serviceName", "")
    if service and of_module and service != of_module:
        raise InvalidSecurity(f"{_SERVICE} and serviceName in sasl.jaas.config contradict each other")
    if not service and not of_module:
        raise InvalidSecurity(f"{_SERVICE} is needed with GSSAPI: the first part of the brokers' principals")
    gssapi_module()
    if options is None:
        principal, keytab = keys.text("sasl.kerberos.principal", ""), keys.text("sasl.kerberos.keytab", "")
        return KerberosLogin(service, principal, _keytab("sasl.kerberos.keytab", keytab) if keytab else "")
    return kerberos_login(service or of_module, options)


def kerberos_login(service: str, options: Mapping[str, str]) -> KerberosLogin:
    """The login described by the options of a Krb5LoginModule. Raises InvalidSecurity."""
    principal, keytab = options.get("principal", ""), options.get("keyTab", "")
    if options.get("useKeyTab", "").lower() == "true":
        if not principal or not keytab:
            raise InvalidSecurity('sasl.jaas.config: useKeyTab=true needs keyTab="…" and principal="…"')
        return KerberosLogin(service, principal, _keytab("sasl.jaas.config: keyTab", keytab))
    if options.get("useTicketCache", "").lower() == "true":
        return KerberosLogin(service, principal, cache=options.get("ticketCache", ""))
    raise InvalidSecurity("sasl.jaas.config: Krb5LoginModule needs useKeyTab=true or useTicketCache=true")


def _keytab(key: str, path: str) -> str:
    if not Path(path).is_file():
        raise InvalidSecurity(f"{key}={path}: there is no such file")
    return path


def _tokens(keys: _Keys, options: Mapping[str, str] | None) -> Any:
    from kafka_zk.security.token_sources import ClientCredentials, TokenCallback, UnsecuredTokens

    callback = keys.raw("oauth.cb") or keys.raw(_CALLBACK)
    config = keys.secret("sasl.oauthbearer.config") or NO_PASSWORD
    if callable(callback):
        return TokenCallback(callback, config)
    if callback is not None and _PYTHON_NAME.fullmatch(str(callback)):
        return TokenCallback(str(callback), config)
    if callback is not None and callback not in (*_ENDPOINT_HANDLERS, _UNSECURED_HANDLER):
        raise InvalidSecurity(
            f"{_CALLBACK}={callback}: a Java class cannot be loaded; give a Python function as module:function, which "
            "returns the token and its expiry in s since the epoch"
        )
    if keys.has(_TOKEN_URL) or callback in _ENDPOINT_HANDLERS:
        url = keys.needed(_TOKEN_URL, f"with {_CALLBACK}={callback}")
        if not url.lower().startswith(("http://", "https://")):
            raise InvalidSecurity(f"{_TOKEN_URL}={url}: must be an http or https URL")
        return ClientCredentials(url, *_client(keys, options), _endpoint_authorities(keys))
    if options is not None:
        return _checked_unsecured(UnsecuredTokens(tuple(sorted(options.items()))))
    words = dict(word.split("=", 1) for word in config.value.split() if "=" in word)
    if "principal" in words:  # these are librdkafka's unsecured tokens
        lifetime = words.get("lifeSeconds", "3600")
        return _checked_unsecured(UnsecuredTokens((("unsecuredLoginLifetimeSeconds", lifetime),
                                                   ("unsecuredLoginStringClaim_sub", words["principal"]))))  # fmt: skip
    raise InvalidSecurity(
        f"sasl.mechanism=OAUTHBEARER needs {_TOKEN_URL}, {_CALLBACK}=module:function, or a sasl.jaas.config that "
        "describes an unsecured token"
    )


def _endpoint_authorities(keys: _Keys) -> str | None:
    """Trusted certificates for the token endpoint, not for brokers; None: the system's."""
    if not keys.has("https.ca.location"):
        return None
    data = keys.file("https.ca.location")
    with _about(keys, "https.ca.location"):
        return stores.authorities(data, "PEM", None)


def _checked_unsecured(tokens: Any) -> Any:
    try:
        tokens.fetch(0)
    except ValueError as error:
        raise InvalidSecurity(f"sasl.jaas.config: {error}") from None
    return tokens


def _client(keys: _Keys, options: Mapping[str, str] | None) -> tuple[str, Password, str | None, Any]:
    if options is not None:
        for name in ("clientId", "clientSecret"):
            if not options.get(name):
                raise InvalidSecurity(f'sasl.jaas.config: {name}="…" is needed with {_TOKEN_URL}')
        extensions = tuple((key.removeprefix("extension_"), value) for key, value in sorted(options.items())
                           if key.startswith("extension_"))  # fmt: skip
        return options["clientId"], Password(options["clientSecret"]), options.get("scope"), extensions
    hint = f"with {_TOKEN_URL} (or sasl.jaas.config with clientId and clientSecret)"
    client_id = keys.needed("sasl.oauthbearer.client.id", hint)
    secret = keys.needed_secret("sasl.oauthbearer.client.secret", hint)
    pairs = (pair.split("=", 1) for pair in keys.text("sasl.oauthbearer.extensions", "").split(",") if "=" in pair)
    return client_id, secret, keys.text("sasl.oauthbearer.scope", "") or None, tuple((k, v) for k, v in pairs)
