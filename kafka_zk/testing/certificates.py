"""A certificate authority for tests. Needs the package ``cryptography``: ``pip install 'kafka-zk[embedded]'``.

Its certificates have what RFC 5280 (section 4.2.1) demands of an authority's. Python 3.13 and later verify that: their
default context sets ``ssl.VERIFY_X509_STRICT``.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=2)
_CLOCK_SKEW = datetime.timedelta(hours=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class CertificateAuthority:
    """Signs certificates for servers and clients; everything it writes is PEM."""

    def __init__(self, name: str = "kafka-zk test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._key_identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(True, None), True)
            .add_extension(_SIGNS_CERTIFICATES, True)
            .add_extension(self._key_identifier, False)
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    def write_truststore(self, path: Path) -> Path:
        """Write the authority's own certificate, by which others are checked."""
        path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        return path

    def write_keystore(self, path: Path, name: str, hosts: Sequence[str] = (), password: str | None = None) -> Path:
        """Write a new private key with its certificate for ``hosts`` (names or addresses) and the authority's."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_identifier)
        builder = (
            _builder(_name(name), self._name, key)
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(issuer_key, False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        pem = serialization.Encoding.PEM
        path.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption)
            + certificate.public_bytes(pem)
            + self._certificate.public_bytes(pem)
        )
        return path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )
