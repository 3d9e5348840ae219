"""Key and trust stores, as Java 17's keytool wrote them (in ``stores/``) and as PEM."""

import builtins
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from kafka_zk.security import stores
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.tls import client_context
from kafka_zk.security.tls_settings import Identity, TlsSettings

STORES = Path(__file__).parent / "stores"
SECRET = Password("storesecret")
KEY_SECRET = Password("keysecret")
SUFFIXES = {"JKS": "jks", "PKCS12": "p12"}


def read(name: str, kind: str) -> bytes:
    return (STORES / f"{name}.{SUFFIXES[kind]}").read_bytes()


def trusted(data: bytes, kind: str) -> list[str]:
    """The subjects of the certificates that a store trusts."""
    found = x509.load_pem_x509_certificates(stores.authorities(data, kind, SECRET).encode())
    return [each.subject.rfc4514_string() for each in found]


def key_of(kind: str) -> Identity:
    return stores.identity(read("keystore", kind), kind, SECRET, KEY_SECRET if kind == "JKS" else None)


@pytest.mark.parametrize("kind", SUFFIXES)
def test_openssl_takes_what_keytool_wrote(kind: str) -> None:
    authorities = stores.authorities(read("truststore", kind), kind, SECRET)
    client_context(TlsSettings(authorities, key_of(kind)))


@pytest.mark.parametrize("kind", SUFFIXES)
def test_the_same_in_pem(kind: str) -> None:
    key = key_of(kind)
    pem = (key.certificate_chain + key.private_key.value).encode()
    assert stores.identity(pem, "PEM", None, None).private_key == key.private_key
    assert stores.authorities(pem, "PEM", None).strip() == key.certificate_chain.strip()


@pytest.mark.parametrize("kind", SUFFIXES)
def test_a_trust_store_with_a_key_does_not_trust_the_keys_issuers(kind: str) -> None:
    """Java trusts certificate entries, and only the first certificate of a key's chain."""
    assert trusted(read("chained", kind), kind) == ["CN=broker", "CN=Partner"]


def test_an_issuer_that_is_also_an_entry_of_its_own_is_trusted() -> None:
    assert trusted(read("chained_and_root", "PKCS12"), "PKCS12") == ["CN=broker", "CN=Partner", "CN=Root"]


def test_names_that_openssl_gives_to_issuers_do_not_make_them_trusted() -> None:
    """``openssl pkcs12 -export -caname``, with an issuer twice and a certificate that is not an issuer."""
    key, own, others = pkcs12.load_key_and_certificates(read("chained", "PKCS12"), SECRET.value.encode())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    issuing, root, partner = others
    named = pkcs12.PKCS12Certificate(issuing, b"issuing")
    chain: list[x509.Certificate | pkcs12.PKCS12Certificate] = [named, root, issuing, partner]
    data = pkcs12.serialize_key_and_certificates(
        b"broker", key, own, chain, serialization.BestAvailableEncryption(SECRET.value.encode())
    )
    assert trusted(data, "PKCS12") == ["CN=broker", "CN=Partner"]


def test_a_jks_trust_store_needs_no_password() -> None:
    assert "BEGIN CERTIFICATE" in stores.authorities(read("truststore", "JKS"), "JKS", None)


@pytest.mark.parametrize("kind", SUFFIXES)
@pytest.mark.parametrize("password", [None, Password("wr0ng")])
def test_a_wrong_or_missing_password_of_a_key_store(kind: str, password: Password | None) -> None:
    with pytest.raises(InvalidSecurity, match="password") as refused:
        stores.identity(read("keystore", kind), kind, password, None)
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(
    ("password", "tried"), [(None, "without a password"), (Password("wr0ng"), "with this password")]
)
def test_an_unreadable_pkcs12_trust_store_says_how_it_was_read(password: Password | None, tried: str) -> None:
    with pytest.raises(InvalidSecurity, match=f"^it is not a PKCS12 file, or cannot be read {tried}$"):
        stores.authorities(read("truststore", "PKCS12"), "PKCS12", password)


def test_a_wrong_password_of_a_jks_key() -> None:
    with pytest.raises(InvalidSecurity, match=r"ssl\.key\.password"):
        stores.identity(read("keystore", "JKS"), "JKS", SECRET, Password("wrong"))


@pytest.mark.parametrize("kind", stores.TYPES)
def test_a_file_of_another_type_is_refused(kind: str) -> None:
    for data in (b"", b"something else", read("truststore", "PKCS12" if kind == "JKS" else "JKS")[:-1]):
        with pytest.raises(InvalidSecurity):
            stores.identity(data, kind, SECRET, None)
        with pytest.raises(InvalidSecurity):
            stores.authorities(data, kind, SECRET)


@pytest.mark.parametrize("name", ["keystore", "truststore"])
def test_a_jks_file_that_is_cut_off_is_refused(name: str) -> None:
    data = read(name, "JKS")
    for size in range(0, len(data) - 20, 7):
        with pytest.raises(InvalidSecurity):
            stores.authorities(data[:size], "JKS", None)


def test_an_encrypted_pem_key_needs_its_password() -> None:
    pem = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n" \
          b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"  # fmt: skip
    with pytest.raises(InvalidSecurity, match=r"ssl\.key\.password"):
        stores.identity(pem, "PEM", None, None)
    assert stores.identity(pem, "PEM", None, KEY_SECRET).key_password == KEY_SECRET


def test_without_cryptography_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real_import(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidSecurity, match=r"kafka-zk\[security\]"):
        stores.identity(read("keystore", "PKCS12"), "PKCS12", SECRET, None)


def test_keys_are_not_printed() -> None:
    assert "PRIVATE" not in repr(key_of("JKS"))
