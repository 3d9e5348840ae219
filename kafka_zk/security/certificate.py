"""Reads a certificate's subject, host names and expiry. Pure.

Source: RFC 5280 4.1.
"""

import base64
import binascii
import datetime
import ipaddress
import re
from dataclasses import dataclass

from kafka_zk.security import der
from kafka_zk.security.distinguished_name import name_text

_BLOCK = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END ", re.DOTALL)
_VERSION_TAG, _EXTENSIONS_TAG = 0xA0, 0xA3
_UTC_TIME = 0x17
_ALTERNATIVE_NAMES = "2.5.29.17"
_NAME_TAG, _ADDRESS_TAG, _TEXT_TAGS = 0xA4, 0x87, (0x81, 0x82, 0x86)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that are read.

    Attributes:
        subject: distinguished name in Java's form.
        names: in subjectAltName: host names, addresses and others.
        not_after_ms: expiry, since the epoch.
    """

    subject: str
    names: frozenset[str]
    not_after_ms: int

    def days_left(self, now_ms: int) -> float:
        """Days until the certificate expires; negative afterwards."""
        return (self.not_after_ms - now_ms) / _DAY_MS


def certificates(pem: str) -> list[Certificate]:
    """Parse all certificates in PEM data, in order. Raises ValueError."""
    return [certificate(_decoded(block)) for block in _BLOCK.findall(pem)]


def certificate(data: bytes) -> Certificate:
    """Parse a DER certificate. Raises ValueError."""
    signed = list(der.elements(der.element(data).content))
    fields = list(der.elements(signed[0].content)) if signed else []
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) < 6:  # serial number, signature, issuer, validity, subject, key
        raise ValueError("a certificate that is cut off")
    _, not_after = der.elements(fields[3].content)  # any other number of elements raises ValueError
    return Certificate(name_text(fields[4].encoded), _alternative_names(fields[6:]), _time_ms(not_after))


def _decoded(block: str) -> bytes:
    try:
        return base64.b64decode("".join(block.split()), validate=True)
    except binascii.Error:
        raise ValueError("a certificate that is not in base64") from None


def _time_ms(time: der.Element) -> int:
    """Time in ms since the epoch. UTCTime has two digits for the years 1950 to 2049."""
    text = time.content.decode("ascii")
    if time.tag == _UTC_TIME:
        text = ("19" if text >= "50" else "20") + text
    read = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)
    return int(read.timestamp() * 1000)


def _alternative_names(fields: list[der.Element]) -> frozenset[str]:
    for field in fields:
        if field.tag == _EXTENSIONS_TAG:
            for extension in der.elements(der.element(field.content).content):
                kind, *_, value = der.elements(extension.content)
                if der.object_identifier(kind.content) == _ALTERNATIVE_NAMES:
                    return frozenset(map(_general_name, der.elements(der.element(value.content).content)))
    return frozenset()


def _general_name(name: der.Element) -> str:
    if name.tag in _TEXT_TAGS:
        return name.content.decode("latin-1")
    if name.tag == _ADDRESS_TAG:
        return str(ipaddress.ip_address(name.content))
    return name_text(name.content) if name.tag == _NAME_TAG else name.encoded.hex()
