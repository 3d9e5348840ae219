"""A certificate's subject in Java's form, which is a principal's name. Pure.

An attribute for which Java has no keyword is written as an object identifier and the value's DER in hexadecimal.
Source: RFC 2253; X500Principal.getName() and sun.security.x509.AVA (Java 17), RFC 5280 4.1.
"""

from kafka_zk.security import der

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS = {0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E}
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString; all decoded as UTF-8, as in Java."""

_BLANKS = " \r"
_OUTER = str.maketrans({each: f"\\{each}" for each in _BLANKS})
_INNER = str.maketrans({"\0": "\\00", **{each: f"\\{each}" for each in ',+"\\<>;=#'}})
_VERSION_TAG = 0xA0


def subject(certificate: bytes) -> str:
    """The subject of a DER certificate, for example ``CN=alice,O=Example``. Raises ValueError."""
    parts = list(der.elements(der.element(certificate).content))
    fields = list(der.elements(parts[0].content)) if parts else []
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) < 6:
        raise ValueError("a certificate without a subject")
    return name_text(fields[4].encoded)  # serial number, signature, issuer, validity, subject


def name_text(name: bytes) -> str:
    """A DER Name as text, last part first. Raises ValueError."""
    parts = list(der.elements(der.element(name).content))
    return ",".join("+".join(map(_attribute, der.elements(part.content))) for part in reversed(parts))


def _attribute(attribute: der.Element) -> str:
    kind, value = der.elements(attribute.content)
    identifier = der.object_identifier(kind.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    without_start = text.lstrip(_BLANKS)
    inner = without_start.rstrip(_BLANKS)
    start, end = text[: len(text) - len(without_start)], without_start[len(inner) :]
    return start.translate(_OUTER) + inner.translate(_INNER) + end.translate(_OUTER)
