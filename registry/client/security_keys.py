"""Configuration keys for a secure connection to ZooKeeper, from ``server.properties`` or a tool's
``--zk-tls-config-file``.

The keys ``zookeeper.set.acl`` and ``zookeeper.ssl.*`` are Kafka's. Stores must be PEM; for JKS and PKCS12, the error
says how to convert them. SASL DIGEST-MD5 uses a JAAS login file; its keys are named like Kafka's JVM options:
``java.security.auth.login.config``, ``zookeeper.sasl.client``, ``zookeeper.sasl.clientconfig``. The key
``zookeeper.auth.digest=user:password``, for ZooKeeper's scheme ``digest``, is not in Kafka.

Source: ZkConfigs.java@3.9, JaasUtils.java@3.9; ZooKeeper's ClientX509Util and ZooKeeperSaslClient@3.9.
"""

from collections.abc import Mapping
from pathlib import Path

from kafka_zk.registry.client.errors import InvalidSecurity
from kafka_zk.registry.client.security import Credentials, Security, Tls
from kafka_zk.security import jaas

SET_ACL = "zookeeper.set.acl"
JAAS_FILE = "java.security.auth.login.config"
SASL_CLIENT = "zookeeper.sasl.client"
SASL_SECTION = "zookeeper.sasl.clientconfig"
DIGEST = "zookeeper.auth.digest"
SSL = "zookeeper.ssl."
DIGEST_LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"

KEYS = frozenset(
    {SET_ACL, JAAS_FILE, SASL_CLIENT, SASL_SECTION, DIGEST, "zookeeper.clientCnxnSocket"}
    | {
        SSL + name
        for name in (
            "cipher.suites", "client.enable", "crl.enable", "enabled.protocols", "endpoint.identification.algorithm",
            "keystore.location", "keystore.password", "keystore.type", "ocsp.enable", "protocol",
            "truststore.location", "truststore.password", "truststore.type",
        )
    }
)  # fmt: skip
"""``zookeeper.clientCnxnSocket`` names a Java class; it is accepted and has no effect."""

_PEM_SUFFIXES = (".pem", ".crt", ".cer", ".key")
_CONVERSION = {
    "truststore": "keytool -list -rfc -keystore {file} > truststore.pem",
    "keystore": "openssl pkcs12 -in {file} -out keystore.pem",
}


def zookeeper_security(properties: Mapping[str, str]) -> Security:
    """The settings in ``properties``; other keys are ignored.

    Raises: InvalidSecurity for the first unusable value or file.
    """
    properties = {key: properties[key].strip() for key in KEYS & properties.keys()}
    security = Security(
        _tls(properties), _sasl(properties), _digest(properties), _boolean(properties, SET_ACL, default=False)
    )
    if security.set_acl and not security.has_identity:
        raise InvalidSecurity(
            f"{SET_ACL}=true: allowed with an identity only: a login file ({JAAS_FILE}), "
            f"{SSL}keystore.location or {DIGEST}"
        )
    return security


def _tls(properties: Mapping[str, str]) -> Tls | None:
    if not _boolean(properties, SSL + "client.enable", default=False):
        return None
    for unsupported in ("crl.enable", "ocsp.enable"):
        if _boolean(properties, SSL + unsupported, default=False):
            raise InvalidSecurity(f"{SSL}{unsupported}=true: must be false, because revocation is not supported")
    algorithm = properties.get(SSL + "endpoint.identification.algorithm", "HTTPS")
    tls = Tls(
        truststore=_store(properties, "truststore"),
        keystore=_store(properties, "keystore"),
        keystore_password=properties.get(SSL + "keystore.password") or None,
        check_hostname=algorithm.upper() == "HTTPS",
        protocols=_items(properties.get(SSL + "enabled.protocols") or properties.get(SSL + "protocol", "")),
        cipher_suites=_items(properties.get(SSL + "cipher.suites", "")),
    )
    from kafka_zk.registry.client.tls import client_context  # brokers without TLS never load ssl

    client_context(tls)  # unusable files are configuration errors
    return tls


def _store(properties: Mapping[str, str], name: str) -> Path | None:
    key = f"{SSL}{name}.location"
    location = properties.get(key)
    if not location:
        return None
    kind = properties.get(f"{SSL}{name}.type", "").upper()
    if kind != "PEM" if kind else not location.lower().endswith(_PEM_SUFFIXES):
        command = _CONVERSION[name].format(file=location)
        raise InvalidSecurity(f"{key}={location}: must be a PEM file; create one with `{command}`")
    return Path(location)


def _sasl(properties: Mapping[str, str]) -> Credentials | None:
    location = properties.get(JAAS_FILE)
    if not location or not _boolean(properties, SASL_CLIENT, default=True):
        return None
    section = properties.get(SASL_SECTION) or "Client"
    where = f"{JAAS_FILE}={location}"
    try:
        modules = jaas.parse_file(Path(location).read_text(encoding="utf-8")).get(section, ())
    except OSError as error:
        raise InvalidSecurity(f"{where}: {error.strerror}") from None
    except (jaas.InvalidJaas, UnicodeDecodeError) as error:
        raise InvalidSecurity(f"{where}: not a JAAS login file: {error}") from None
    if not modules:  # the file is for other logins; Kafka accepts this, too
        return None
    module = modules[0]
    if module.name != DIGEST_LOGIN_MODULE:
        raise InvalidSecurity(
            f"{where}: {section} has {module.name}; use {DIGEST_LOGIN_MODULE} (Kerberos is not supported)"
        )
    if not module.options.get("username") or "password" not in module.options:
        raise InvalidSecurity(f"{where}: {section} lacks username or password")
    return Credentials(module.options["username"], module.options["password"])


def _digest(properties: Mapping[str, str]) -> Credentials | None:
    text = properties.get(DIGEST)
    if not text:
        return None
    username, colon, password = text.partition(":")
    if not (username and colon):
        raise InvalidSecurity(f"{DIGEST}: must be user:password")
    return Credentials(username, password)


def _boolean(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = properties.get(key) or str(default)
    if text.lower() not in ("true", "false"):
        raise InvalidSecurity(f"{key}={text}: must be true or false")
    return text.lower() == "true"


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())
