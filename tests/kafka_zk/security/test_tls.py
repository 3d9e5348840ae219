"""TLS contexts of clients: versions, suites, and sentences for failed handshakes."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.security import stores
from kafka_zk.security.cipher_suites import TLS_1_3
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.security.tls import client_context, closed_early, handshake_failure
from kafka_zk.security.tls_settings import Identity, TlsSettings

STORES = Path(__file__).parent / "stores"
OLDER = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


def versions(**settings: Any) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    context = client_context(TlsSettings(**settings))
    return context.minimum_version, context.maximum_version


def test_by_default_certificates_and_host_names_are_verified() -> None:
    context = client_context(TlsSettings())
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
    assert versions() == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_a_host_name_or_nothing_need_be_verified() -> None:
    assert client_context(TlsSettings(check_host_name=False)).verify_mode == ssl.CERT_REQUIRED
    assert client_context(TlsSettings(verify=False)).verify_mode == ssl.CERT_NONE


def test_suites_decide_on_the_versions() -> None:
    only_1_2, only_1_3 = (ssl.TLSVersion.TLSv1_2,) * 2, (ssl.TLSVersion.TLSv1_3,) * 2
    assert versions(suites=(OLDER,)) == only_1_2
    assert versions(suites=tuple(TLS_1_3)) == only_1_3
    assert versions(protocols=("TLSv1.3",)) == only_1_3
    assert versions(suites=(OLDER, *TLS_1_3)) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    names = [each["name"] for each in client_context(TlsSettings(suites=(OLDER,))).get_ciphers()]
    assert [name for name in names if not name.startswith("TLS_")] == ["ECDHE-RSA-AES256-GCM-SHA384"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (TlsSettings(suites=("TLS_AES_128_GCM_SHA256",)), "all of"),
        (TlsSettings(suites=("TLS_NONE",)), "knows none"),
        (TlsSettings(suites=(OLDER,), protocols=("TLSv1.3",)), "no suite of a version"),
        (TlsSettings(authorities="-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), "trust store"),
    ],
)
def test_settings_that_python_cannot_enforce_are_refused(settings: TlsSettings, told: str) -> None:
    with pytest.raises(InvalidSecurity, match=told):
        client_context(settings)


def test_a_key_that_does_not_fit_is_refused_without_showing_it() -> None:
    one = stores.identity((STORES / "keystore.jks").read_bytes(), "JKS", Password("storesecret"), Password("keysecret"))
    other = stores.identity((STORES / "keystore.p12").read_bytes(), "PKCS12", Password("storesecret"), None)
    mixed = Identity(one.private_key, other.certificate_chain)
    with pytest.raises(InvalidSecurity, match="does not match its certificate") as refused:
        client_context(TlsSettings(identity=mixed))
    assert one.private_key.value[30:50] not in str(refused.value)


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_code, error.verify_message = code, "told by OpenSSL"
    return error


def alert(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (verification(62), "another host"),
        (verification(19), "ssl.truststore.location"),
        (verification(10), "expired"),
        (verification(9), "not valid"),
        (alert("WRONG_VERSION_NUMBER"), "security.protocol"),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "asks for a client certificate"),
        (alert("NO_PROTOCOLS_AVAILABLE"), "no protocols available"),
    ],
)
def test_a_failed_handshake_says_what_to_do(error: ssl.SSLError, sentence: str) -> None:
    assert sentence in str(handshake_failure(error, "h:9093", TlsSettings()))


def test_a_connection_that_is_closed_early_has_a_likely_reason() -> None:
    without, with_key = TlsSettings(), TlsSettings(identity=Identity(Password("k"), "c"))
    assert "speak TLS at this port" in closed_early(without, in_handshake=True)
    assert "asks for a client certificate" in closed_early(without, in_handshake=False)
    assert "does not accept this client's certificate" in closed_early(with_key, in_handshake=False)
