"""A certificate authority for local clusters and tests; files are PEM of mode 0600.

Needs the package ``cryptography``: ``pip install 'kafka-zk[security]'``.

Certificates contain the extensions that RFC 5280 (section 4.2.1) requires, because Python 3.13 and later verify them
(``ssl.VERIFY_X509_STRICT``).
"""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kafka_zk.embedded.private_files import write_private

AUTHORITY_LIFETIME = datetime.timedelta(days=10 * 365)
LIFETIME = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(hours=1)
_PEM = serialization.Encoding.PEM
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class CertificateAuthority:
    """``key``: an existing authority's key; by default a new key."""

    def __init__(self, name: str = "kafka-zk test authority", key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._key = key or ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._key_identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = (
            _builder(self._name, self._name, self._key, AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(True, None), True)
            .add_extension(_SIGNS_CERTIFICATES, True)
            .add_extension(self._key_identifier, False)
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the authority from a file of ``write``. A certificate that expires within ``LIFETIME`` is replaced
        by a new one for the same key, which clients that trust the old one also accept. Raises: OSError, ValueError.
        """
        data = path.read_bytes()
        try:
            key = serialization.load_pem_private_key(data, None)
        except TypeError:
            raise ValueError("its key has a password") from None
        certificate = x509.load_pem_x509_certificate(data)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is not an elliptic-curve key")
        if key.public_key() != certificate.public_key():
            raise ValueError("its certificate is for another key")
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        authority = cls(str(name.value), key)
        if certificate.not_valid_after_utc - _now() > LIFETIME:
            authority._certificate = certificate
        return authority

    def write(self, path: Path) -> Path:
        key = self._key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return write_private(path, key + self._certificate.public_bytes(_PEM))

    def write_truststore(self, path: Path) -> Path:
        """Write the authority's certificate, as a trust store for its peers."""
        return write_private(path, self._certificate.public_bytes(_PEM))

    def write_keystore(
        self,
        path: Path,
        name: str,
        hosts: Sequence[str] = (),
        password: str | None = None,
        lifetime: datetime.timedelta = LIFETIME,
    ) -> Path:
        """Write a new private key, its certificate for ``hosts`` (names or addresses), and the authority's."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_identifier)
        builder = (
            _builder(_name(name), self._name, key, lifetime)
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(issuer_key, False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        private_key = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        return write_private(
            path, private_key + certificate.public_bytes(_PEM) + self._certificate.public_bytes(_PEM)
        )

    def vouches_for(self, keystore: Path, hosts: Sequence[str], at_least: datetime.timedelta) -> bool:
        """True if this authority signed the certificate for these hosts, and it stays valid for more than
        ``at_least``."""
        try:
            certificate = x509.load_pem_x509_certificate(keystore.read_bytes())
            certificate.verify_directly_issued_by(self._certificate)
            named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        is_for_hosts = {_general_name(host) for host in hosts} == set(named)
        return is_for_hosts and certificate.not_valid_after_utc - _now() > at_least


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lifetime: datetime.timedelta
) -> x509.CertificateBuilder:
    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )
