"""Passwords as Kafka stores them in ZooKeeper, encrypted with ``password.encoder.secret``.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,iterations:4096,
    salt:<base64>,initializationVector:<base64>,encryptedPassword:<base64>,passwordLength:7

Needs the package ``cryptography`` (``kafka-zk[security]``). An encrypted password contains its parameters, which this
module bounds.
Source: EncryptingPasswordEncoder, IvParamsEncoder.java@3.9.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password

CIPHER = "AES/CBC/PKCS5Padding"
KEY_FACTORY = "PBKDF2WithHmacSHA512"
ITERATIONS, KEY_LENGTH_BITS = 4096, 128
MOST_ITERATIONS = 100_000
"""Maximum number of iterations; 100,000 take 0.1 s of a broker's time."""

_HASHES = {"PBKDF2WithHmacSHA512": "sha512", "PBKDF2WithHmacSHA256": "sha256", "PBKDF2WithHmacSHA1": "sha1"}
_KEY_LENGTHS_BITS = (128, 192, 256)
_SALT_BYTES, _BLOCK_BYTES = 256, 16
_LONGEST_CHARACTERS = 200_000
_MAX_CACHED = 32


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """Encodes with these parameters; decodes any password encoded with the same secret."""

    secret: Password = field(repr=False)
    key_factory: str = KEY_FACTORY
    key_length_bits: int = KEY_LENGTH_BITS
    iterations: int = ITERATIONS

    @classmethod
    def of(cls, properties: Mapping[str, str], secret_key: str = "password.encoder.secret") -> "PasswordEncoder | None":
        """Create an encoder from the ``password.encoder.*`` keys of a broker; None if there is no secret. Raises
        InvalidSecurity."""
        secret = properties.get(secret_key)
        if not secret:
            return None
        cipher = properties.get("password.encoder.cipher.algorithm", CIPHER).strip()
        if cipher != CIPHER:
            raise InvalidSecurity(f"password.encoder.cipher.algorithm={cipher}: must be {CIPHER}")
        factory = properties.get("password.encoder.keyfactory.algorithm", "").strip() or KEY_FACTORY
        if factory not in _HASHES:
            raise InvalidSecurity(
                f"password.encoder.keyfactory.algorithm={factory}: must be one of {', '.join(_HASHES)}"
            )
        bits = _number(properties, "password.encoder.key.length", KEY_LENGTH_BITS)
        iterations = _number(properties, "password.encoder.iterations", ITERATIONS)
        if bits not in _KEY_LENGTHS_BITS:
            raise InvalidSecurity(f"password.encoder.key.length={bits}: must be 128, 192 or 256")
        if not 1024 <= iterations <= MOST_ITERATIONS:
            raise InvalidSecurity(f"password.encoder.iterations={iterations}: must be 1024 to {MOST_ITERATIONS}")
        return cls(Password(secret), factory, bits, iterations)

    def encode(self, password: Password, random: Random = SYSTEM_RANDOM) -> str:
        """Encrypt a password, with a random salt. Raises InvalidSecurity if the package is missing."""
        salt, vector = random.randbytes(_SALT_BYTES), random.randbytes(_BLOCK_BYTES)
        key = self._key(self.key_factory, salt, self.iterations, self.key_length_bits)
        plain = password.value.encode()
        pad = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
        encryptor = _cipher(key, vector).encryptor()
        encrypted = encryptor.update(plain + bytes([pad]) * pad) + encryptor.finalize()
        fields = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": CIPHER,
            "keyLength": self.key_length_bits,
            "iterations": self.iterations,
            "salt": base64.b64encode(salt).decode(),
            "initializationVector": base64.b64encode(vector).decode(),
            "encryptedPassword": base64.b64encode(encrypted).decode(),
            "passwordLength": _java_length(password.value),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> Password:
        """Raises InvalidSecurity, whose message omits the encoded password."""
        return _decode(self, text)

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(_HASHES[factory], self.secret.value.encode(), salt, iterations, bits // 8)


@lru_cache(maxsize=_MAX_CACHED)
def _decode(encoder: PasswordEncoder, text: str) -> Password:
    """Cached, because every change of a broker's configuration decodes its passwords again."""
    if len(text) > _LONGEST_CHARACTERS:
        raise InvalidSecurity("an encoded password that is too long")
    fields = dict(part.partition(":")[::2] for part in text.split(","))
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    try:
        factory, cipher = fields["keyFactoryAlgorithm"], fields["cipherAlgorithm"]
        bits, iterations, length = (int(fields[name]) for name in ("keyLength", "iterations", "passwordLength"))
        salt, vector, encrypted = (
            base64.b64decode(fields[name], validate=True)
            for name in ("salt", "initializationVector", "encryptedPassword")
        )
    except (KeyError, ValueError, binascii.Error):
        raise InvalidSecurity("it is not an encoded password") from None
    if cipher != CIPHER or factory not in _HASHES or bits not in _KEY_LENGTHS_BITS:
        raise InvalidSecurity(f"its encoding is unknown: this broker reads only {CIPHER} with PBKDF2")
    if not 1 <= iterations <= MOST_ITERATIONS or len(vector) != _BLOCK_BYTES or len(encrypted) % _BLOCK_BYTES:
        raise InvalidSecurity("it is not an encoded password")
    decryptor = _cipher(encoder._key(factory, salt, iterations, bits), vector).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    pad = padded[-1] if padded else 0
    if not 1 <= pad <= _BLOCK_BYTES or padded[-pad:] != bytes([pad]) * pad:
        raise InvalidSecurity("it was encoded with another password.encoder.secret")
    try:
        password = padded[:-pad].decode()
    except UnicodeDecodeError:
        password = ""
    if _java_length(password) != length:
        raise InvalidSecurity("it was encoded with another password.encoder.secret")
    return Password(password)


def _cipher(key: bytes, vector: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CBC
    except ImportError:
        raise InvalidSecurity(
            "passwords in ZooKeeper need the package cryptography: pip install 'kafka-zk[security]'"
        ) from None
    return Cipher(AES(key), CBC(vector))


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default)).strip()
    if not text.isdecimal():
        raise InvalidSecurity(f"{key}={text}: must be a number")
    return int(text)


def _java_length(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2
