"""Reads key stores and trust stores (PEM, PKCS12, Java's JKS) and converts them to PEM. Pure.

PKCS12 needs the package ``cryptography`` (``kafka-zk[security]``).

Source: sun.security.provider.JavaKeyStore, KeyProtector, sun.security.pkcs12.PKCS12KeyStore,
sun.security.validator.TrustStoreUtil (Java 17); DefaultSslEngineFactory.java@3.9.
"""

import base64
import hashlib
import hmac
import re
import struct
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_zk.security import der, distinguished_name
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.tls_settings import Identity

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, PKCS12KeyAndCertificates
    from cryptography.x509 import Name

TYPES = ("PEM", "PKCS12", "JKS")
_PEM_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)
_CERTIFICATES = ("CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE")
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JKS_KEY, _JKS_CERTIFICATE = 1, 2
_JKS_ALGORITHM = "1.3.6.1.4.1.42.2.17.1.1"
_JKS_WHITENER = b"Mighty Aphrodite"
_SHA1_BYTES = 20


def type_of(data: bytes) -> str:
    """Detect which of ``TYPES`` a store is; PKCS12 if it is neither PEM nor JKS."""
    if data[:4] == _JKS_MAGIC:
        return "JKS"
    return "PEM" if b"-----BEGIN " in data else "PKCS12"


def identity(data: bytes, kind: str, store_password: Password | None, key_password: Password | None) -> Identity:
    """The first private key of a key store.

    Args:
        kind: one of ``TYPES``.
        key_password: None: the same as ``store_password``.

    Raises InvalidSecurity; the caller names the store.
    """
    if kind == "PEM":
        return pem_identity(data, data, key_password)
    read: Callable[[bytes, Password, Password], Identity] = _pkcs12_identity if kind == "PKCS12" else _jks_identity
    if store_password is None:
        raise InvalidSecurity("a key store of this type needs a password")
    return read(data, store_password, key_password or store_password)


def authorities(data: bytes, kind: str, store_password: Password | None) -> str:
    """The trusted certificates: the store's own entries and, if it contains a key, the key's certificate.

    As in Java, the key's issuers are not trusted. Raises InvalidSecurity like ``identity``.
    """
    if kind == "PEM":
        found = [block for label, block in _pem_blocks(data) if label in _CERTIFICATES]
    elif kind == "PKCS12":
        found = _pkcs12_authorities(data, store_password)
    else:
        entries = _jks_entries(data, store_password)
        found = [_pem("CERTIFICATE", each) for entry in entries for each in entry.certificates[:1]]
    if not found:
        raise InvalidSecurity("it contains no certificate")
    return "\n".join(found) + "\n"


def _pem_blocks(data: bytes) -> list[tuple[str, str]]:
    return [(found["label"], found[0]) for found in _PEM_BLOCK.finditer(data.decode("latin-1"))]


def pem_identity(key: bytes, certificates: bytes, key_password: Password | None) -> Identity:
    """Read the key and the certificates from PEM data; both arguments may be the same file. Raises InvalidSecurity."""
    keys = [block for label, block in _pem_blocks(key) if label.endswith("PRIVATE KEY")]
    chain = [block for label, block in _pem_blocks(certificates) if label in _CERTIFICATES]
    if len(keys) != 1 or not chain:
        raise InvalidSecurity(
            f"expected one private key and its certificates in PEM format, but found {len(keys)} keys and "
            f"{len(chain)} certificates"
        )
    is_encrypted = "ENCRYPTED" in keys[0]
    if is_encrypted and key_password is None:
        raise InvalidSecurity("its private key is encrypted: ssl.key.password is needed")
    return Identity(Password(keys[0]), "\n".join(chain) + "\n", key_password if is_encrypted else None)


def _pem(label: str, data: bytes) -> str:
    return "\n".join([f"-----BEGIN {label}-----", *textwrap.wrap(base64.b64encode(data).decode(), 64),
                      f"-----END {label}-----"])  # fmt: skip


# --- PKCS12 ---


def _pkcs12_identity(data: bytes, store_password: Password, key_password: Password) -> Identity:
    store = _pkcs12(data, store_password)
    from cryptography.hazmat.primitives import serialization  # installed, because otherwise ``_pkcs12`` has failed

    if store.key is None or store.cert is None:
        raise InvalidSecurity("it contains no private key with its certificate")
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = map(_pkcs12_pem, (store.cert, *store.additional_certs))
    return Identity(Password(key.decode().strip()), "\n".join(chain) + "\n")


def _pkcs12_authorities(data: bytes, password: Password | None) -> list[str]:
    store = _pkcs12(data, password)
    try:
        return [_pkcs12_pem(each) for each in (store.cert, *_pkcs12_entries(store)) if each is not None]
    except ValueError:
        raise InvalidSecurity("it contains an invalid certificate") from None


def _pkcs12_entries(store: "PKCS12KeyAndCertificates") -> list["PKCS12Certificate"]:
    """The certificates, without those of the key and its issuers.

    ``cryptography`` hides Java's mark of trusted entries, so issuers are recognized by their subject. As the alias
    (friendly name) of each issuer of a key, Java uses the issuer's subject. So if several entries have an issuer's
    subject, and one of them also has it as its alias, only that entry is the issuer; the others are kept.
    """
    if store.key is None:
        return list(store.additional_certs)
    chain = [each for each in store.additional_certs if _is_named_by_subject(each)]
    told_apart = {each.certificate.subject for each in chain}
    issuers = _issuers(store) - told_apart
    return [each for each in store.additional_certs if each not in chain and each.certificate.subject not in issuers]


def _issuers(store: "PKCS12KeyAndCertificates") -> set["Name"]:
    """Subjects of the key's issuers, if the store contains their certificates."""
    found: set[Name] = set()
    ahead = [store.cert] if store.cert else []
    while ahead:
        certificate = ahead.pop().certificate
        if certificate.issuer not in (certificate.subject, *found):
            found.add(certificate.issuer)
            ahead += [each for each in store.additional_certs if each.certificate.subject == certificate.issuer]
    return found


def _is_named_by_subject(entry: "PKCS12Certificate") -> bool:
    from cryptography.hazmat.primitives.serialization import Encoding

    subject = distinguished_name.subject(entry.certificate.public_bytes(Encoding.DER))
    return entry.friendly_name == subject.encode()


def _pkcs12_pem(entry: "PKCS12Certificate") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return entry.certificate.public_bytes(Encoding.PEM).decode().strip()


def _pkcs12(data: bytes, password: Password | None) -> "PKCS12KeyAndCertificates":
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise InvalidSecurity(
            "PKCS12 needs the package cryptography: pip install 'kafka-zk[security]', or convert the store to PEM"
        ) from None
    try:
        return pkcs12.load_pkcs12(data, password.value.encode() if password else None)
    except ValueError:
        tried = "with this password" if password else "without a password"
        raise InvalidSecurity(f"it is not a PKCS12 file, or cannot be read {tried}") from None


# --- JKS ---


@dataclass(frozen=True, slots=True)
class _JksEntry:
    protected_key: bytes | None
    certificates: list[bytes]


class _JksReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._position + size > len(self._data):
            raise InvalidSecurity("it is a truncated JKS file")
        self._position += size
        return self._data[self._position - size : self._position]

    def number(self, layout: str) -> int:
        layout = ">" + layout
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def text(self) -> None:
        self.take(self.number("H"))

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.text()  # X.509
        return self.take(self.number("i"))


def _jks_entries(data: bytes, password: Password | None) -> list[_JksEntry]:
    """Read all entries. If a password is given, the store's integrity is checked first."""
    if data[:4] != _JKS_MAGIC:
        raise InvalidSecurity("it is not a JKS file")
    if password is not None:
        body, digest = data[:-_SHA1_BYTES], data[-_SHA1_BYTES:]
        expected = hashlib.sha1(_utf16(password) + _JKS_WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise InvalidSecurity("its password is wrong, or it is damaged")
    reader = _JksReader(data)
    reader.take(4)
    version, count = reader.number("i"), reader.number("i")
    entries = []
    for _ in range(count):
        tag = reader.number("i")
        reader.text()  # alias
        reader.number("q")  # time
        if tag == _JKS_KEY:
            key = reader.take(reader.number("i"))
            entries.append(_JksEntry(key, [reader.certificate(version) for _ in range(reader.number("i"))]))
        elif tag == _JKS_CERTIFICATE:
            entries.append(_JksEntry(None, [reader.certificate(version)]))
        else:
            raise InvalidSecurity("it is a JKS file with an entry of unknown kind")
    return entries


def _jks_identity(data: bytes, store_password: Password, key_password: Password) -> Identity:
    for entry in _jks_entries(data, store_password):
        if entry.protected_key is not None and entry.certificates:
            key = _jks_key(entry.protected_key, key_password)
            chain = "\n".join(_pem("CERTIFICATE", each) for each in entry.certificates)
            return Identity(Password(_pem("PRIVATE KEY", key)), chain + "\n")
    raise InvalidSecurity("it contains no private key with its certificate")


def _jks_key(protected: bytes, password: Password) -> bytes:
    """Decrypt a key with Java's own protection: a stream of SHA-1 digests XORed with the key, and a digest as a
    check."""
    try:
        algorithm, sealed = der.elements(der.element(protected).content)
        kind = der.object_identifier(next(der.elements(algorithm.content)).content)
    except (ValueError, StopIteration):
        raise InvalidSecurity("its private key cannot be read") from None
    if kind != _JKS_ALGORITHM or len(sealed.content) < 2 * _SHA1_BYTES:
        raise InvalidSecurity("its private key is protected in an unknown way")
    secret = _utf16(password)
    block = sealed.content[:_SHA1_BYTES]
    cipher_text, check = sealed.content[_SHA1_BYTES:-_SHA1_BYTES], sealed.content[-_SHA1_BYTES:]
    stream = b""
    while len(stream) < len(cipher_text):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(cipher_text, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise InvalidSecurity("the password of its private key is wrong (ssl.key.password)")
    return key


def _utf16(password: Password) -> bytes:
    return password.value.encode("utf-16-be")
