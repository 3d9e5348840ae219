"""The certificate authority of clusters and tests."""

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from kafka_zk.embedded import certificates
from kafka_zk.embedded.certificates import LIFETIME, CertificateAuthority

HOSTS = ("localhost", "127.0.0.1")
DAY = datetime.timedelta(days=1)


def serial_number(path: Path) -> int:
    return x509.load_pem_x509_certificate(path.read_bytes()).serial_number


def trusts(truststore: Path, keystore: Path) -> bool:
    """Whether a client with this trust store accepts a server with this key store, as localhost."""
    client, server = ssl.create_default_context(cafile=str(truststore)), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keystore)
    ends = [ssl.MemoryBIO() for _ in range(4)]
    sides = [client.wrap_bio(ends[0], ends[1], server_hostname="localhost"), server.wrap_bio(ends[2], ends[3], True)]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
            ends[2].write(ends[1].read())
            ends[0].write(ends[3].read())
    return True


def test_every_file_is_private(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    files = [
        authority.write(tmp_path / "authority.pem"),
        authority.write_truststore(tmp_path / "ca.pem"),
        authority.write_keystore(tmp_path / "broker.pem", "broker", HOSTS),
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_an_authority_that_is_read_again_signs_for_those_who_trust_it(tmp_path: Path) -> None:
    made = CertificateAuthority("one authority")
    truststore = made.write_truststore(tmp_path / "ca.pem")
    read = CertificateAuthority.read(made.write(tmp_path / "authority.pem"))
    keystore = read.write_keystore(tmp_path / "broker.pem", "broker", HOSTS)
    assert trusts(truststore, keystore)
    assert serial_number(read.write_truststore(tmp_path / "again.pem")) == serial_number(truststore)
    assert not trusts(CertificateAuthority("one authority").write_truststore(tmp_path / "other.pem"), keystore)


def test_an_authority_near_its_end_keeps_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates must not outlive the authority that signed them, and clients with the authority's old certificate
    must trust those that it signs later.
    """
    monkeypatch.setattr(certificates, "AUTHORITY_LIFETIME", LIFETIME - DAY)
    old = CertificateAuthority("authority")
    truststore = old.write_truststore(tmp_path / "ca.pem")
    monkeypatch.undo()
    renewed = CertificateAuthority.read(old.write(tmp_path / "authority.pem"))
    new_truststore = renewed.write_truststore(tmp_path / "new.pem")
    assert serial_number(new_truststore) != serial_number(truststore)
    keystore = renewed.write_keystore(tmp_path / "broker.pem", "broker", HOSTS)
    assert trusts(truststore, keystore) and trusts(new_truststore, keystore)


@pytest.mark.parametrize("text", ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_file_that_is_no_authority(tmp_path: Path, text: str) -> None:
    (tmp_path / "authority.pem").write_text(text)
    with pytest.raises(ValueError):
        CertificateAuthority.read(tmp_path / "authority.pem")


def test_an_authority_vouches_for_its_own_long_enough_and_for_these_hosts(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    keystore = authority.write_keystore(tmp_path / "broker.pem", "broker", HOSTS, lifetime=10 * DAY)
    assert authority.vouches_for(keystore, ("127.0.0.1", "localhost"), 9 * DAY)
    assert not authority.vouches_for(keystore, HOSTS, 11 * DAY)
    assert not authority.vouches_for(keystore, (*HOSTS, "kafka-0"), 9 * DAY)
    assert not CertificateAuthority().vouches_for(keystore, HOSTS, 9 * DAY)
    assert not authority.vouches_for(tmp_path / "absent.pem", HOSTS, 9 * DAY)
    (tmp_path / "damaged.pem").write_text("nothing")
    assert not authority.vouches_for(tmp_path / "damaged.pem", HOSTS, 9 * DAY)
