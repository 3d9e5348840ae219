"""SASL SCRAM-SHA-256 and -512, both sides, and the credentials that Kafka keeps in ZooKeeper. Pure.

An unknown user is rejected only at the end, like a wrong password. Until then, the salt sent to the client derives from
the name and the cluster's secret, so it is the same in every attempt and on every broker.

As in Kafka, names and passwords are not normalized (SASLprep). A client's final nonce must only end with the server's
part: librdkafka before 2.6.1 sends its own twice.

Source: RFC 5802, RFC 7677; ScramSaslClient.java, ScramSaslServer.java, ScramMessages.java, ScramCredentialUtils.java
@3.9.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_zk.security.errors import SaslAuthenticationFailed

MECHANISMS: Mapping[str, str] = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism -> name of its hash function in ``hashlib``."""

MECHANISM_NUMBERS: Mapping[str, int] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Numbers in Kafka's protocol. Source: ScramMechanism.java@3.9."""

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Limits of the broker in AlterUserScramCredentials. Clients accept ``_MOST_ITERATIONS``."""

NONCE_BITS = 130
_MOST_ITERATIONS = 1_000_000  # 1 s of a client's time; a hostile server could request hours
_GS2 = "n,,"
_VALUE = r"[^\0,]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_PLAIN = r"[^\0,=]"  # a character of a name; commas and equals signs are escaped
_NAME = rf"(?:{_PLAIN}|=2C|=3D){_PLAIN}*(?:=(?:2C|3D){_PLAIN}*)*"  # one alternative per letter would be slow
_BASE64 = r"[A-Za-z0-9/+]+={0,2}"
_EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z][A-Za-z0-9]*={_VALUE})*)"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+)(?:,.*)?"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64}))(?:,.*)?")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker stores instead of a user's password, for one mechanism."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class SaltedPassword:
    """A user's new password, as clients send it."""

    mechanism: str
    salted: bytes = field(repr=False)
    salt: bytes
    iterations: int

    @property
    def credential(self) -> ScramCredential:
        return credential(self.mechanism, self.salted, self.salt, self.iterations)


class ScramLogin(NamedTuple):
    """``iterations``: None if the credential cannot be decoded."""

    user: str
    mechanism: str
    iterations: int | None


class TokenCredential(NamedTuple):
    """The data that a broker stores for a delegation token. ``owner``: its user. ``expires_ms``: since the epoch."""

    credential: ScramCredential
    owner: str = ""
    expires_ms: int | None = None


class ClientFirst(NamedTuple):
    """``is_token``: the user name is a delegation token's id."""

    username: str
    nonce: str
    bare: str
    is_token: bool


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The key derived from a password; a few ms with 4096 iterations."""
    return hashlib.pbkdf2_hmac(MECHANISMS[mechanism], password.encode(), salt, iterations)


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    client_key = _hmac(mechanism, salted, b"Client Key")
    stored_key = hashlib.new(MECHANISMS[mechanism], client_key).digest()
    return ScramCredential(salt, stored_key, _hmac(mechanism, salted, b"Server Key"), iterations)


def encode_credential(credential: ScramCredential) -> str:
    """Encode a credential as in ``/config/users/<user>``."""
    salt, stored, server = map(_base64, (credential.salt, credential.stored_key, credential.server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def decode_credential(text: str) -> ScramCredential:
    """Raises ValueError, whose message omits the credential."""
    fields = dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part)
    try:
        salt, stored, server = (
            base64.b64decode(fields[key], validate=True) for key in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored, server, int(fields["iterations"]))
    except (KeyError, ValueError):
        raise ValueError("not a SCRAM credential: salt, stored_key, server_key and iterations are needed") from None


def invented_credential(mechanism: str, username: str, secret: bytes) -> ScramCredential:
    """A credential for an unknown user: it depends only on name and secret, and matches no password."""
    seed = hmac.digest(secret, f"{mechanism}\0{username}".encode(), "sha512")
    size = hashlib.new(MECHANISMS[mechanism]).digest_size
    salt = nonce_text(int.from_bytes(seed) % (1 << NONCE_BITS))
    return ScramCredential(salt.encode(), bytes(size), bytes(size), MIN_ITERATIONS)


def scram_client(
    mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
) -> Generator[bytes, bytes, None]:
    """Yields the client's messages; send it the broker's responses.

    Args:
        nonce: random, printable and without a comma.
        is_token: the user name is a delegation token's id.
    Raises SaslAuthenticationFailed if the broker rejects the login, or does not prove that it knows the password.
    """
    extensions = ",tokenauth=true" if is_token else ""
    bare = f"n={_escaped(username)},r={nonce}{extensions}"
    server_first = yield (_GS2 + bare).encode()
    found = _SERVER_FIRST.fullmatch(_text(server_first))
    if found is None:
        raise SaslAuthenticationFailed("Invalid SASL/SCRAM server first message")
    iterations = int(found["iterations"][:10])
    if not found["nonce"].startswith(nonce):
        raise SaslAuthenticationFailed("Invalid server nonce: it does not begin with ours")
    if not MIN_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise SaslAuthenticationFailed(
            f"The server asks for {iterations} iterations; allowed are {MIN_ITERATIONS} to {_MOST_ITERATIONS}"
        )
    salted = salted_password(mechanism, password, _bytes(found["salt"]), iterations)
    without_proof = f"c={_base64(_GS2.encode())},r={found['nonce']}"
    signed = f"{bare},{_text(server_first)},{without_proof}".encode()
    keys = credential(mechanism, salted, b"", iterations)
    proof = _xor(_hmac(mechanism, salted, b"Client Key"), _hmac(mechanism, keys.stored_key, signed))
    server_final = yield f"{without_proof},p={_base64(proof)}".encode()
    ended = _SERVER_FINAL.fullmatch(_text(server_final))
    if ended is None:
        raise SaslAuthenticationFailed("Invalid SASL/SCRAM server final message")
    if ended["error"]:
        raise SaslAuthenticationFailed(f"SASL/SCRAM server final message has an error: {ended['error']}")
    if not hmac.compare_digest(_bytes(ended["signature"]), _hmac(mechanism, keys.server_key, signed)):
        raise SaslAuthenticationFailed("Invalid server signature: the server does not know the password")


def client_first(message: bytes) -> ClientFirst:
    """Raises SaslAuthenticationFailed."""
    found = _CLIENT_FIRST.fullmatch(_text(message))
    if found is None:
        raise SaslAuthenticationFailed("Invalid SASL/SCRAM client first message")
    username = _unescaped(found["name"])
    if found["authzid"] and _unescaped(found["authzid"]) != username:
        raise SaslAuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    extensions = dict(part.split("=", 1) for part in found["extensions"].split(",") if part)
    return ClientFirst(username, found["nonce"], found["bare"], extensions.get("tokenauth", "").lower() == "true")


class ScramServer:
    """The broker's side, with the user's credential or an invented one."""

    def __init__(self, mechanism: str, first: ClientFirst, credential: ScramCredential, nonce: str) -> None:
        """``nonce``: random, printable, no comma. Raises SaslAuthenticationFailed for too few iterations."""
        if credential.iterations < MIN_ITERATIONS:
            raise SaslAuthenticationFailed(
                f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS} for {mechanism}"
            )
        self._mechanism = mechanism
        self.credential = credential
        self._bare = first.bare
        self._nonce = first.nonce + nonce
        self._server_nonce = nonce
        self.first_message = f"r={self._nonce},s={_base64(credential.salt)},i={credential.iterations}".encode()

    def final_message(self, client_final: bytes) -> bytes:
        """Raises SaslAuthenticationFailed if the client does not prove that it knows the password."""
        found = _CLIENT_FINAL.fullmatch(_text(client_final))
        if found is None:
            raise SaslAuthenticationFailed("Invalid SASL/SCRAM client final message")
        if not found["nonce"].endswith(self._server_nonce):
            raise SaslAuthenticationFailed("Invalid client nonce in the final message")
        signed = b",".join((self._bare.encode(), self.first_message, found["without_proof"].encode()))
        signature = _hmac(self._mechanism, self.credential.stored_key, signed)
        client_key = _xor(signature, _bytes(found["proof"]))
        stored_key = hashlib.new(MECHANISMS[self._mechanism], client_key).digest()
        if not hmac.compare_digest(stored_key, self.credential.stored_key):
            raise SaslAuthenticationFailed("Invalid client credentials")
        return f"v={_base64(_hmac(self._mechanism, self.credential.server_key, signed))}".encode()


def nonce_text(random_bits: int) -> str:
    """``NONCE_BITS`` random bits in base 36, as Kafka writes nonces and salts."""
    digits = ""
    while random_bits:
        random_bits, digit = divmod(random_bits, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, MECHANISMS[mechanism])


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise SaslAuthenticationFailed("Invalid client proof: its length is wrong")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslAuthenticationFailed("Invalid base64 in a SASL/SCRAM message") from None


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("Invalid SASL/SCRAM message: it is not UTF-8") from None


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
