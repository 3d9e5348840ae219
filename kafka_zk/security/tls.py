"""TLS contexts, and readable reasons for failed handshakes.

Importing this module loads OpenSSL.
"""

import contextlib
import socket
import ssl
from dataclasses import replace
from functools import lru_cache

from kafka_zk.base.operating_system.files import secret_file
from kafka_zk.security import cipher_suites
from kafka_zk.security.errors import InvalidSecurity, SslAuthenticationFailed
from kafka_zk.security.tls_settings import Identity, TlsSettings

VERSIONS = {"TLSv1.2": "TLSv1_2", "TLSv1.3": "TLSv1_3"}
"""Java's names of the supported versions -> Python's names."""

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

UNKNOWN_ISSUER = (2, 7, 18, 19, 20, 21)  # X509_V_ERR_*: issuer not found, other issuer of that name, self-signed
NAME_MISMATCH = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA", "HANDSHAKE_FAIL")


@lru_cache(maxsize=16)
def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of all client connections with these settings. Raises InvalidSecurity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verify and settings.check_host_name
    context.verify_mode = ssl.CERT_REQUIRED if settings.verify else ssl.CERT_NONE
    _set_versions(context, settings)
    if settings.authorities is not None:
        _load_authorities(context, settings.authorities)
    elif settings.verify:
        context.load_default_certs()
    if settings.identity is not None:
        load_identity(context, settings.identity)
    return context


@lru_cache(maxsize=16)
def server_context(settings: TlsSettings, client_auth: str) -> ssl.SSLContext:
    """The context of a listener's connections. ``client_auth``: ``none``, ``requested`` or ``required``.

    As in Kafka, a requested certificate may be missing, but not invalid. Renegotiation is rejected; a client gets one
    session ticket. Raises InvalidSecurity.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 1
    _set_versions(context, settings)
    assert settings.identity is not None, "a listener has a key"
    load_identity(context, settings.identity)
    context.verify_mode = _CLIENT_AUTH[client_auth]
    if client_auth != "none":
        if settings.authorities is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            _load_authorities(context, settings.authorities)
    return context


def _load_authorities(context: ssl.SSLContext, authorities: str) -> None:
    # As in Java, a chain may end at any certificate of the store: an intermediate authority, or the peer's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        raise InvalidSecurity(f"the trust store's certificates cannot be used: {reason(error)}") from None


def can_connect(client: TlsSettings, server: TlsSettings, client_auth: str) -> str | None:
    """Why a client with these settings cannot connect to the server; None if it can. Host names are not checked."""
    asking = client_context(replace(client, check_host_name=False))
    answering = server_context(server, client_auth)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [asking.wrap_bio(to_client, to_server), answering.wrap_bio(to_server, to_client, server_side=True)]
    sizes = None
    try:
        while sizes != (sizes := (to_client.pending, to_server.pending, len(sides))):
            for side in list(sides):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                    sides.remove(side)
    except ssl.SSLError as error:
        return error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else reason(error)
    return None if not sides else "the handshake does not end"


def check_connection(client: TlsSettings, server: TlsSettings, client_auth: str) -> None:
    """Check that brokers with these settings can connect. Raises InvalidSecurity, with Kafka's sentence."""
    if problem := can_connect(client, server, client_auth):
        raise InvalidSecurity(
            "A client SSLEngine created with the provided settings can't connect to a server SSLEngine created "
            f"with those settings: {problem}"
        )


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Load the key and certificates from a temporary file, in memory or on disk, because Python reads only files.
    Raises InvalidSecurity."""
    password = identity.key_password.value if identity.key_password else ""
    text = identity.private_key.value + "\n" + identity.certificate_chain
    try:
        with secret_file(text.encode()) as path:
            # None would make OpenSSL ask on the terminal; an empty password fails.
            context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:
        raise InvalidSecurity(
            f"the private key does not match its certificate, or its password is wrong ({reason(error)}): check "
            "ssl.keystore.location and ssl.key.password"
        ) from None


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set versions and suites together, because a suite only has an effect in its own TLS version."""
    allowed = [name for name in VERSIONS if not settings.protocols or name in settings.protocols]
    modern = cipher_suites.TLS_1_3 & set(settings.suites)
    older = [cipher_suites.openssl_name(name) or name for name in settings.suites if name not in cipher_suites.TLS_1_3]
    if settings.suites:
        if modern and modern != cipher_suites.TLS_1_3 and "TLSv1.3" in allowed:
            raise InvalidSecurity(
                f"ssl.cipher.suites: for TLS 1.3, Python uses all of {', '.join(sorted(cipher_suites.TLS_1_3))} or "
                "none; list all three, or none of them"
            )
        if not modern:
            allowed = [name for name in allowed if name != "TLSv1.3"]
        if not older:
            allowed = [name for name in allowed if name == "TLSv1.3"]
    if not allowed:
        raise InvalidSecurity("ssl.cipher.suites has no suite of a version in ssl.enabled.protocols")
    versions = sorted(ssl.TLSVersion[VERSIONS[name]] for name in allowed)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise InvalidSecurity(f"ssl.cipher.suites: OpenSSL knows none of {', '.join(settings.suites)}") from None


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """True if a server answers TLS handshakes, whatever certificates it has or wants. Blocks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout_s) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return error.reason not in _NOT_TLS
    except OSError:
        return False


def handshake_failure(error: BaseException, peer: str, settings: TlsSettings) -> SslAuthenticationFailed:
    """The exception for an error of a TLS connection to ``peer``; its message says what to do."""
    return SslAuthenticationFailed(f"TLS with {peer} failed: {_explanation(error, settings)}")


def closed_early(settings: TlsSettings, *, in_handshake: bool) -> str:
    """Why a broker may close a connection right after the handshake. The broker may also have been stopped, so a retry
    can help."""
    if in_handshake:
        return "the broker closed the connection during the TLS handshake; does it speak TLS at this port?"
    wants = "does not accept this client's certificate" if settings.identity else "asks for a client certificate"
    return (
        f"the broker closed the connection after the TLS handshake; perhaps it {wants} (ssl.keystore.location or "
        "ssl.certificate.location)"
    )


def _explanation(error: BaseException, settings: TlsSettings) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        told = error.verify_message.rstrip(".")
        if error.verify_code in NAME_MISMATCH:
            return (
                f"the broker's certificate is for another host ({told}); connect to a host name that it "
                "contains, or issue one that has this name"
            )
        if error.verify_code in UNKNOWN_ISSUER:
            where = "the trust store" if settings.authorities is not None else "the system's trust store"
            return (
                f"the broker's certificate is not signed by an authority of {where} ({told}); check "
                "ssl.truststore.location or ssl.ca.location"
            )
        if error.verify_code == _EXPIRED:
            return f"the broker's certificate has expired ({told})"
        return f"the broker's certificate is not valid: {told}"
    code = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLError):
        if code in _NOT_TLS:
            return "it does not speak TLS at this port; check the port and security.protocol"
        if "ALERT" in code and any(word in code for word in _WANTS_CERTIFICATE):
            has = "does not accept this client's certificate" if settings.identity else "asks for a client certificate"
            return f"the broker {has} ({reason(error)}); check ssl.keystore.location or ssl.certificate.location"
    return reason(error)


def reason(error: BaseException) -> str:
    """OpenSSL's reason, without module and line."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
