"""Names of subjects, as Java 17's X500Principal.getName() prints those of the same files."""

import ssl
from pathlib import Path

import pytest

from kafka_zk.security.distinguished_name import subject

CERTIFICATES = Path(__file__).parent / "stores"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("rare_attributes.pem",
         r"CN=\ lead\#\=,O=Ex\, Inc,2.5.4.42=#0c0178,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63"),
        ("escapes.pem", r"STREET=s \"1\",L=x,ST=é,C=DE,UID=u\;1,CN=b+OU=A,DC=ex,DC=org"),
    ],
)  # fmt: skip
def test_a_subject_is_written_as_java_writes_it(file: str, name: str) -> None:
    assert subject(ssl.PEM_cert_to_DER_cert((CERTIFICATES / file).read_text())) == name


@pytest.mark.parametrize("cut", [0, 1, 5, 40, 200])
def test_a_certificate_that_is_cut_off_is_refused(cut: int) -> None:
    whole = ssl.PEM_cert_to_DER_cert((CERTIFICATES / "escapes.pem").read_text())
    with pytest.raises(ValueError):
        subject(whole[:cut])
