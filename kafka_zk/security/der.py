"""Parses the parts of DER that occur in certificates and key stores.

Source: ITU-T X.690.
"""

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, OBJECT_IDENTIFIER, OCTET_STRING = 0x30, 0x06, 0x04


class Element(NamedTuple):
    """One DER element. ``encoded``: all its bytes; ``content``: without tag and length."""

    tag: int
    content: bytes
    encoded: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Iterate over consecutive elements. Raises ValueError."""
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise ValueError("DER ends in the middle of an element")
        tag, size = data[position], data[position + 1]
        position += 2
        if size >= 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("DER with an element of unknown or absurd length")
            size = int.from_bytes(data[position : position + count])
            position += count
        end = position + size
        if end > len(data):
            raise ValueError("DER ends in the middle of an element")
        yield Element(tag, data[position:end], data[start:end])
        position = end


def element(data: bytes) -> Element:
    """Parse exactly one element. Raises ValueError."""
    found = list(elements(data))
    if len(found) != 1:
        raise ValueError(f"DER with {len(found)} elements, 1 is expected")
    return found[0]


def object_identifier(content: bytes) -> str:
    """Decode an object identifier, for example ``2.5.4.3``. Raises ValueError."""
    numbers: list[int] = []
    number = 0
    for octet in content:
        number = number << 7 | octet & 0x7F
        if octet < 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] >= 0x80:
        raise ValueError("DER with an object identifier that is cut off")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))
