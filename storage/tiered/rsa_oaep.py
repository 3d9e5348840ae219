"""RSAES-OAEP with SHA3-512, also in its mask generation function MGF1: how Aiven's plugin encrypts data keys. Pure.

The library ``cryptography``, which reads the keys, has no OAEP with SHA-3, so that the padding and the arithmetic are
here. The private operation is blinded with a random factor, and an invalid ciphertext has one outcome, whatever its
fault is. Otherwise, the time or the message would help to decrypt one (Manger's attack).
Source: RFC 8017, sections 5.1, 7.1 and B.2.1; RsaEncryptionProvider.java of Aiven-Open/tiered-storage-for-apache-kafka.
"""

import hashlib
import hmac
from math import gcd
from typing import NamedTuple

from kafka_zk.base.randomness import SYSTEM_RANDOM

_HASH_BYTES = 64
_LABEL_HASH = hashlib.sha3_512(b"").digest()
OVERHEAD_BYTES = 2 * _HASH_BYTES + 2
"""The bytes by which the message must be shorter than the modulus."""


class RsaPublicNumbers(NamedTuple):
    """``n``: the modulus. ``e``: the public exponent."""

    n: int
    e: int

    @property
    def size_bytes(self) -> int:
        """The size of the modulus and of each ciphertext."""
        return -(-self.n.bit_length() // 8)


class RsaPrivateNumbers:
    """The primes ``p`` and ``q``, the exponents modulo each prime minus one, and the inverse of ``q`` modulo ``p``. The
    object's text shows none of them."""

    __slots__ = ("_dmp1", "_dmq1", "_iqmp", "_p", "_q", "public")

    def __init__(self, public: RsaPublicNumbers, p: int, q: int, d: int) -> None:
        self.public = public
        self._p, self._q = p, q
        self._dmp1, self._dmq1, self._iqmp = d % (p - 1), d % (q - 1), pow(q, -1, p)

    def decrypt(self, value: int) -> int:
        """The private operation on a number below the modulus."""
        n, e = self.public
        factor = _random_unit(n)
        blinded = value * pow(factor, e, n) % n
        of_p, of_q = pow(blinded, self._dmp1, self._p), pow(blinded, self._dmq1, self._q)
        found = of_q + self._q * ((of_p - of_q) * self._iqmp % self._p)
        return found * pow(factor, -1, n) % n


def oaep_encrypt(key: RsaPublicNumbers, message: bytes) -> bytes:
    """``message``: shorter than the modulus by at least OVERHEAD_BYTES."""
    size = key.size_bytes
    assert len(message) <= size - OVERHEAD_BYTES
    block = _LABEL_HASH + bytes(size - OVERHEAD_BYTES - len(message)) + b"\x01" + message
    seed = SYSTEM_RANDOM.randbytes(_HASH_BYTES)
    masked = _xor(block, _mask(seed, len(block)))
    encoded = _xor(seed, _mask(masked, _HASH_BYTES)) + masked
    return pow(int.from_bytes(encoded, "big"), key.e, key.n).to_bytes(size, "big")


def oaep_decrypt(key: RsaPrivateNumbers, ciphertext: bytes) -> bytes | None:
    """The message; None if the ciphertext is damaged or was made with another key."""
    size, value = key.public.size_bytes, int.from_bytes(ciphertext, "big")
    if len(ciphertext) != size or value >= key.public.n:
        return None
    encoded = key.decrypt(value).to_bytes(size, "big")
    masked_seed, masked = encoded[1 : 1 + _HASH_BYTES], encoded[1 + _HASH_BYTES :]
    seed = _xor(masked_seed, _mask(masked, _HASH_BYTES))
    block = _xor(masked, _mask(seed, len(masked)))
    rest = block[_HASH_BYTES:]
    start = len(rest) - len(rest.lstrip(b"\x00"))
    faults = encoded[0] | (not hmac.compare_digest(block[:_HASH_BYTES], _LABEL_HASH))
    faults |= not hmac.compare_digest(rest[start : start + 1], b"\x01")
    return None if faults else rest[start + 1 :]


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1."""
    count = -(-size // _HASH_BYTES)
    return b"".join(hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(count))[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    size = len(one)
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(size, "big")


def _random_unit(n: int) -> int:
    """A random number that has an inverse modulo ``n``."""
    while True:
        found = SYSTEM_RANDOM.randrange(2, n)
        if gcd(found, n) == 1:
            return found
