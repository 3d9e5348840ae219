"""TLS contexts for ZooKeeper connections, and explanations of failed handshakes."""

import ssl

from kafka_zk.registry.client.errors import InvalidSecurity
from kafka_zk.registry.client.security import Tls
from kafka_zk.security.tls import NAME_MISMATCH, UNKNOWN_ISSUER, VERSIONS, reason


def client_context(tls: Tls) -> ssl.SSLContext:
    """The context for all connections of one client.

    Raises: InvalidSecurity, which names the unusable file or value.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    if unknown := [name for name in tls.protocols if name not in VERSIONS]:
        raise InvalidSecurity(f"{unknown[0]} is not a supported TLS version; use one of {', '.join(VERSIONS)}")
    versions = sorted(ssl.TLSVersion[VERSIONS[name]] for name in tls.protocols or VERSIONS)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if tls.cipher_suites:
        try:
            context.set_ciphers(":".join(tls.cipher_suites))
        except ssl.SSLError:
            raise InvalidSecurity(f"OpenSSL knows none of the cipher suites {', '.join(tls.cipher_suites)}") from None
    if tls.truststore is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(tls.truststore)
        except (OSError, ssl.SSLError) as error:
            raise InvalidSecurity(f"{tls.truststore}: no certificates in PEM format ({reason(error)})") from None
    if tls.keystore is not None:
        _load_keystore(context, tls)
    return context


def _load_keystore(context: ssl.SSLContext, tls: Tls) -> None:
    try:
        # Without a password, OpenSSL would ask on a terminal; an empty one is an error.
        context.load_cert_chain(str(tls.keystore), password=tls.keystore_password or "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise InvalidSecurity(
            f"{tls.keystore}: no private key with its certificates in PEM format, or the password is wrong"
            f" ({reason(error)})"
        ) from None


def is_distrust(error: BaseException) -> bool:
    """True if the client rejected the server's certificate, so that further attempts are pointless."""
    return isinstance(_ssl_cause(error), ssl.SSLCertVerificationError)


def explain(error: BaseException, tls: Tls | None) -> str:
    """Why a connection failed, as text that can end a sentence."""
    cause = _ssl_cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in NAME_MISMATCH:
            return f"the server's certificate is for another host: {cause.verify_message}"
        if cause.verify_code in UNKNOWN_ISSUER:
            where = tls.truststore if tls and tls.truststore else "the system's authorities"
            return f"the server's certificate is not signed by an authority of {where}: {cause.verify_message}"
        return f"the server's certificate is not valid: {cause.verify_message}"
    if cause is not None:
        return f"the TLS handshake failed: {reason(cause)}"
    return str(_root(error)) or type(error).__name__


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _root(error: BaseException) -> BaseException:
    return next((each for each in _chain(error) if isinstance(each, OSError)), error)


def _ssl_cause(error: BaseException) -> ssl.SSLError | None:
    return next((each for each in _chain(error) if isinstance(each, ssl.SSLError)), None)
