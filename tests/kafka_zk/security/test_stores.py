"""Key and trust stores, as Java 17's keytool wrote them (in ``stores/``) and as PEM."""

import builtins
from pathlib import Path
from typing import Any

import pytest

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


def test_a_jks_trust_store_needs_no_password() -> None:
    assert "BEGIN CERTIFICATE" in stores.authorities(read("truststore", "JKS"), "JKS", None)


@pytest.mark.parametrize("kind", SUFFIXES)
@pytest.mark.parametrize("password", [None, Password("wr0ng")])
def test_a_wrong_or_missing_password_of_a_key_store(kind: str, password: Password | None) -> None:
    with pytest.raises(InvalidSecurity, match="password") as refused:
        stores.identity(read("keystore", kind), kind, password, None)
    assert "wr0ng" not in str(refused.value)


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
