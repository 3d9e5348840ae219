"""The encryption of segments by Aiven's plugin: AES-256-GCM for each chunk, with a data key for each segment.

::

    chunk or index: 12 bytes IV, ciphertext, 16 bytes tag; an empty index stays empty
    dataKey in the manifest: id of the key pair, a colon, and base64 of the data key under RSA-OAEP (``rsa_oaep``)
    aad in the manifest: base64 of the additional authenticated data of all chunks and indexes, 32 random bytes

A segment is compressed first, and then encrypted. Segments remain readable as long as the broker has the private key of
the pair that their manifest names. The library is ``cryptography`` of the extra ``[security]``. Neither errors nor
``repr`` contain keys.
Source: AesEncryptionProvider.java, EncryptedDataKey.java and EncryptionChunkEnumeration.java of
Aiven-Open/tiered-storage-for-apache-kafka.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.rsa_oaep import RsaPrivateNumbers, RsaPublicNumbers, oaep_decrypt, oaep_encrypt

_KEY_BYTES = 32
_AAD_BYTES = 32
_IV_BYTES = 12
OVERHEAD_BYTES = _IV_BYTES + 16
"""The bytes that encryption adds to a chunk or an index."""
_LEAST_RSA_BITS = 2048


class UndecryptableData(StorageError):
    """Data are damaged, or the key that they need is not there. The message contains no key."""


class SegmentEncryption(NamedTuple):
    """What a manifest says. ``data_key``: the encrypted data key, as text. ``aad``: additional authenticated data."""

    data_key: str
    aad: bytes


class KeyPairFiles(NamedTuple):
    """Paths of two PEM files: the public key (X.509) and the unencrypted private key (PKCS 8)."""

    public: str
    private: str


class SegmentCipher:
    """Encrypts and decrypts the chunks and indexes of one segment. Several threads may use it."""

    __slots__ = ("_aad", "_aes", "_invalid_tag")

    def __init__(self, data_key: bytes, aad: bytes) -> None:
        """``data_key``: 32 bytes."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._aes = AESGCM(data_key)
        self._aad = aad
        self._invalid_tag = InvalidTag

    def encrypt(self, content: bytes) -> bytes:
        iv = SYSTEM_RANDOM.randbytes(_IV_BYTES)
        return iv + self._aes.encrypt(iv, content, self._aad)

    def decrypt(self, stored: bytes) -> bytes:
        """Raises UndecryptableData if any byte is not what was encrypted."""
        if len(stored) < OVERHEAD_BYTES:
            raise UndecryptableData(f"{len(stored)} bytes are too few for an encrypted chunk")
        try:
            return self._aes.decrypt(stored[:_IV_BYTES], stored[_IV_BYTES:], self._aad)
        except self._invalid_tag:
            raise UndecryptableData("the tag of encrypted data is wrong: they or their manifest are damaged") from None


class KeyRing:
    """The key pairs of a broker, by id. ``active``: id of the pair for the segments that are copied; None to copy
    segments without encryption."""

    def __init__(self, pairs: Mapping[str, RsaPrivateNumbers], active: str | None) -> None:
        self._pairs = dict(pairs)
        self._active = active

    def new_encryption(self) -> tuple[SegmentEncryption, SegmentCipher] | None:
        """A new data key for one segment; None if segments are not encrypted."""
        if self._active is None:
            return None
        data_key, aad = SYSTEM_RANDOM.randbytes(_KEY_BYTES), SYSTEM_RANDOM.randbytes(_AAD_BYTES)
        encrypted = base64.b64encode(oaep_encrypt(self._pairs[self._active].public, data_key)).decode()
        return SegmentEncryption(f"{self._active}:{encrypted}", aad), SegmentCipher(data_key, aad)

    def cipher(self, encryption: SegmentEncryption) -> SegmentCipher:
        """Raises UndecryptableData without the key pair, and for a damaged data key."""
        pair_id, _, encoded = encryption.data_key.partition(":")
        pair = self._pairs.get(pair_id)
        if pair is None:
            raise UndecryptableData(
                f"encrypted with the key pair {pair_id!r:.100}, which is not among this broker's encryption.key.pairs"
            )
        try:
            data_key = oaep_decrypt(pair, base64.b64decode(encoded, validate=True))
        except (binascii.Error, ValueError):
            data_key = None
        if data_key is None or len(data_key) != _KEY_BYTES:
            raise UndecryptableData(
                f"its data key cannot be decrypted with the key pair {pair_id!r:.100}: it is damaged, or the pair is "
                "another one of the same name"
            )
        return SegmentCipher(data_key, encryption.aad)


def read_key_ring(pairs: Mapping[str, KeyPairFiles], active: str | None) -> KeyRing:
    """Read the key pairs' files. Raises ObjectStoreError, which names the file."""
    return KeyRing({pair_id: _read_pair(paths) for pair_id, paths in pairs.items()}, active)


def _read_pair(paths: KeyPairFiles) -> RsaPrivateNumbers:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    except ImportError:
        raise ObjectStoreError("encryption needs kafka-zk[security]: pip install 'kafka-zk[security]'") from None
    public_key = _pem_key(paths.public, load_pem_public_key)
    if not isinstance(public_key, RSAPublicKey):
        raise ObjectStoreError(f"{paths.public}: not a PEM file with a public RSA key (X.509)")
    private_key = _pem_key(paths.private, lambda data: load_pem_private_key(data, None))
    if not isinstance(private_key, RSAPrivateKey):
        raise ObjectStoreError(f"{paths.private}: not a PEM file with a private RSA key without a password (PKCS 8)")
    public, private = public_key.public_numbers(), private_key.private_numbers()
    if private.public_numbers != public:
        raise ObjectStoreError(f"{paths.private}: not the private key of {paths.public}")
    if public.n.bit_length() < _LEAST_RSA_BITS:
        raise ObjectStoreError(f"{paths.public}: an RSA key of less than {_LEAST_RSA_BITS} bits")
    return RsaPrivateNumbers(RsaPublicNumbers(public.n, public.e), private.p, private.q, private.d)


def _pem_key(path: str, load: Callable[[bytes], object]) -> object | None:
    """The key in a file; None if it is not a key that the library reads. Raises ObjectStoreError."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        data = files.read_file(path)
    except OSError as error:
        raise ObjectStoreError(f"{path}: {error.strerror or error}") from None
    if data is None:
        raise ObjectStoreError(f"{path}: no such file")
    try:
        return load(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
