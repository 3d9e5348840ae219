"""Subject names, compared with those that Java 17's X500Principal.getName() prints for the same files."""

import ssl
from pathlib import Path

import pytest

from kafka_zk.security.distinguished_name import name_text, subject

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


@pytest.mark.parametrize("whole", [b"", b"\x30\x00", b"\x31\x00", b"\x30\x02\x30\x00", b"\x30\x80", b"\xff"])
def test_what_is_no_certificate_is_refused(whole: bytes) -> None:
    with pytest.raises(ValueError):
        subject(whole)


UTF8, PRINTABLE, T61, IA5, UNIVERSAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1C, 0x1E


@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        (PRINTABLE, b"M\xfcller", "M\ufffdller"),
        (PRINTABLE, "Müller".encode(), "Müller"),
        (IA5, b"\xe9", "\ufffd"),
        (T61, b"M\xfcller", "M\ufffdller"),
        (T61, "é".encode(), "é"),
        (UTF8, b"a\xc3", "a\ufffd"),
        (UTF8, b"  a  b  ", r"\ \ a  b\ \ "),
        (UTF8, b"\ra\r", "\\\ra\\\r"),
        (UTF8, b"admin\0.example", r"admin\00.example"),
        (UTF8, b"a\nb\x7f", "a\nb\x7f"),
        (BMP, "ab".encode("utf-16-be"), r"\00a\00b"),
        (UNIVERSAL, b"\0\0\0a", "#1c0400000061"),
        (UTF8, b"", ""),
    ],
)
def test_a_text_is_read_as_java_reads_it(tag: int, value: bytes, text: str) -> None:
    """Every type is read as UTF-8, with a replacement for invalid bytes. The expected strings are from
    X500Principal.getName()."""
    common_name = element(0x30, b"\x06\x03\x55\x04\x03" + element(tag, value))
    assert name_text(element(0x30, element(0x31, common_name))) == f"CN={text}"


def element(tag: int, content: bytes) -> bytes:
    """A DER element."""
    return bytes([tag, len(content)]) + content
