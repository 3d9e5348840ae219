"""The data that a broker reads from its own certificates."""

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from kafka_zk.embedded.certificates import CertificateAuthority
from kafka_zk.security.certificate import Certificate, certificate, certificates

STORES = Path(__file__).parent / "stores"
DAY_MS = 86_400_000


def test_a_chain_is_read_as_others_read_it(tmp_path: Path) -> None:
    keystore = CertificateAuthority("authority").write_keystore(
        tmp_path / "broker.pem", "broker", ["kafka-0", "127.0.0.1", "::1"], lifetime=datetime.timedelta(days=10)
    )
    own, authority = certificates(keystore.read_text())
    assert own.subject == "CN=broker" and authority.subject == "CN=authority"
    assert own.names == {"kafka-0", "127.0.0.1", "::1"} and not authority.names
    for read, expected in zip((own, authority), x509.load_pem_x509_certificates(keystore.read_bytes()), strict=True):
        assert read.not_after_ms == expected.not_valid_after_utc.timestamp() * 1000


def test_days_are_counted_down_beyond_the_end() -> None:
    made = Certificate("CN=a", frozenset(), 10 * DAY_MS)
    assert [made.days_left(day * DAY_MS) for day in (0, 10, 12)] == [10, 0, -2]


@pytest.mark.parametrize("file", sorted(path.name for path in STORES.glob("*.pem")))
def test_foreign_certificates_are_read(file: str) -> None:
    text = (STORES / file).read_text()
    expected = [each.not_valid_after_utc.timestamp() * 1000 for each in x509.load_pem_x509_certificates(text.encode())]
    assert [each.not_after_ms for each in certificates(text)] == expected


@pytest.mark.parametrize("cut", [0, 1, 5, 40, 100, 200])
def test_a_certificate_that_is_cut_off_is_refused(cut: int) -> None:
    whole = ssl.PEM_cert_to_DER_cert((STORES / "escapes.pem").read_text())
    with pytest.raises(ValueError):
        certificate(whole[:cut])


@pytest.mark.parametrize("whole", [b"", b"\x30\x00", b"\x31\x00", b"\x30\x02\x30\x00", b"\x30\x80", b"\xff"])
def test_what_is_no_certificate_is_refused(whole: bytes) -> None:
    with pytest.raises(ValueError):
        certificate(whole)


def test_what_is_not_in_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="base64"):
        certificates("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n")
