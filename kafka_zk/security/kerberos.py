"""SASL/GSSAPI with Kerberos, both sides (RFC 4752). As in Kafka, there is no security layer; only TLS encrypts.

After tokens have established a context, the broker offers its security layers, and the client selects "none". If the
client names a user to act as, that has no effect, as in Kafka.

Needs ``pip install 'kafka-zk[gssapi]'``, keytabs and /etc/krb5.conf (KRB5_CONFIG). As in Kafka, clients try again after
a replayed or not yet valid ticket. Without a valid ticket, a client's first login fails permanently. Later logins are
retried, because ``kinit`` may renew the ticket late.
Source: SaslServerAuthenticator, SaslServerCallbackHandler, KerberosLogin, KerberosError@3.9; GssKrb5Server (Java 17).
Tests with a KDC: tests/peers/secured/test_kerberos.py.
"""

import itertools
from collections import defaultdict, deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from kafka_zk.security.client_security import KerberosLogin
from kafka_zk.security.errors import InvalidSecurity, RefusedForNow, SaslAuthenticationFailed

_NO_LAYER = 1
_NONE_OFFERED = bytes((_NO_LAYER, 0, 0, 0))  # the buffer size is 0, because messages are not wrapped
_KRB5_ERRORS = -1765328384  # first of krb5's error codes
_RETRIABLE = frozenset((_KRB5_ERRORS + code) % 2**32 for code in (21, 33, 34))  # client or ticket not yet valid, replay
_KDC_UNREACHABLE = (_KRB5_ERRORS + 156) % 2**32
_TICKET_EXPIRED = (_KRB5_ERRORS + 32) % 2**32
_WITHOUT_CREDENTIALS = (7, 11)  # GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED (RFC 2744)
_cache_numbers = itertools.count()
_free_caches: dict[tuple[str, str], deque[str]] = defaultdict(deque)  # by keytab and principal
_had_ticket: set[KerberosLogin] = set()


class TicketUnavailable(ConnectionError):
    """The Kerberos server is unreachable, or there is no valid ticket at the moment; retrying may help."""


def gssapi_module() -> Any:
    """Raises InvalidSecurity if ``gssapi`` or the system's Kerberos library is missing."""
    try:
        import gssapi
    except (ImportError, OSError):
        raise InvalidSecurity(
            "GSSAPI: install the Kerberos libraries and the package gssapi: pip install 'kafka-zk[gssapi]'"
        ) from None
    return gssapi


def default_realm() -> str:
    """The default realm in krb5.conf; empty if the file names none."""
    gssapi = gssapi_module()
    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).partition("@")[2]


class KerberosService:
    """The broker's key, with which it verifies clients. Raises InvalidSecurity if the keytab lacks it."""

    def __init__(self, principal: str, keytab: str) -> None:
        self._gssapi = gssapi_module()
        name, mechs = self._gssapi.Name(principal, self._gssapi.NameType.kerberos_principal), _mechs(self._gssapi)
        try:
            self._credentials = self._gssapi.Credentials(
                name=name, usage="accept", mechs=mechs, store={"keytab": keytab}
            )
        except self._gssapi.exceptions.GSSError as error:
            raise InvalidSecurity(f"GSSAPI: the keytab {keytab} has no usable key of {principal}: {error}") from None

    def login(self) -> "GssapiServer":
        return GssapiServer(self._gssapi, self._credentials)


class GssapiServer:
    """The broker's side of one login. It may block: the Kerberos library uses files.

    ``principal``: the client's; empty until authenticated.
    """

    def __init__(self, gssapi: Any, credentials: Any) -> None:
        self._gssapi = gssapi
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        # With True, the library returns an error token and raises only in the next step. Clients reject that token, so
        # there is no next step.
        self._context.__DEFER_STEP_ERRORS__ = False
        self._has_offered = False
        self.principal = ""

    def answer(self, message: bytes) -> bytes:
        """Raises SaslAuthenticationFailed."""
        try:
            if not self._context.complete:
                token = bytes(self._context.step(message) or b"")
                return token if token or not self._context.complete else self._offer()
            if not self._has_offered:
                if message:
                    raise SaslAuthenticationFailed("GSSAPI: a token after the last one")
                return self._offer()
            self._select(self._context.unwrap(message).message)
        except self._gssapi.exceptions.GSSError as error:
            refused = RefusedForNow if error.min_code % 2**32 in _RETRIABLE else SaslAuthenticationFailed
            raise refused("GSSAPI failed", f"GSSAPI: {error}") from None
        return b""

    def _offer(self) -> bytes:
        self._has_offered = True
        return bytes(self._context.wrap(_NONE_OFFERED, False).message)

    def _select(self, message: bytes) -> None:
        if len(message) < len(_NONE_OFFERED) or message[0] != _NO_LAYER:
            raise SaslAuthenticationFailed("GSSAPI: the client selects a security layer that was not offered")
        try:
            self.principal = str(self._context.initiator_name)
        except UnicodeDecodeError:
            raise SaslAuthenticationFailed("GSSAPI: the client's principal is not UTF-8") from None


def gssapi_client(login: KerberosLogin, host: str) -> Generator[bytes, bytes, None]:
    """The client's messages to the broker at ``host``. Blocks while it asks the Kerberos server.

    Raises TicketUnavailable, SaslAuthenticationFailed, also from the generator.
    """
    gssapi = gssapi_module()
    try:
        target = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
        with _store(login) as store:
            context = gssapi.SecurityContext(
                name=target, creds=_credentials(gssapi, login, store), usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=(gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity),
            )  # fmt: skip
            first = bytes(context.step() or b"")  # the ticket from the cache or the Kerberos server
    except gssapi.exceptions.GSSError as error:
        raise _client_failure(error, "", had_ticket=login in _had_ticket) from None
    _had_ticket.add(login)
    return _messages(gssapi, context, first)


def _messages(gssapi: Any, context: Any, token: bytes) -> Generator[bytes, bytes, None]:
    try:
        while not context.complete:
            answer = yield token
            token = bytes(context.step(answer) or b"")
        offer = context.unwrap((yield token)).message
    except gssapi.exceptions.GSSError as error:
        raise _client_failure(error, "the broker cannot be verified: ") from None
    if len(offer) != len(_NONE_OFFERED) or not offer[0] & _NO_LAYER:
        raise SaslAuthenticationFailed("GSSAPI: the broker demands a security layer, which Kafka does not have")
    yield bytes(context.wrap(_NONE_OFFERED, False).message)


def _client_failure(error: Any, what: str, *, had_ticket: bool = False) -> Exception:
    said = f"GSSAPI: {what}{error}"
    code = error.min_code % 2**32
    is_without_ticket = code == _TICKET_EXPIRED or error.maj_code >> 16 & 0xFF in _WITHOUT_CREDENTIALS
    if code in _RETRIABLE | {_KDC_UNREACHABLE} or (had_ticket and is_without_ticket):
        return TicketUnavailable(said)
    return SaslAuthenticationFailed(said)


@contextmanager
def _store(login: KerberosLogin) -> Iterator[dict[str, str] | None]:
    """The store in which the library finds tickets: the user's cache, or a keytab with a cache that no other login uses
    concurrently.

    Later logins use that cache and its valid tickets again.
    """
    if not login.keytab:
        yield {"ccache": login.cache} if login.cache else None
        return
    free = _free_caches[login.keytab, login.principal]
    try:
        cache = free.pop()
    except IndexError:
        cache = f"MEMORY:kafka-zk-{next(_cache_numbers)}"
    try:
        yield {"client_keytab": login.keytab, "ccache": cache}
    finally:
        free.append(cache)


def _credentials(gssapi: Any, login: KerberosLogin, store: dict[str, str] | None) -> Any:
    """Credentials of a keytab, for which the library gets tickets when needed, or of the user's ticket cache."""
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
    return gssapi.Credentials(name=name, usage="initiate", mechs=_mechs(gssapi), store=store)


def _mechs(gssapi: Any) -> list[Any]:
    """The mechanisms to offer: only Kerberos, because the library may support others."""
    return [gssapi.MechType.kerberos]
