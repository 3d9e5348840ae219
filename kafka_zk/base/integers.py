"""Decimal integers in options, configurations, files and znodes.

Python's ``int`` accepts too much: digits of any script, underscores and spaces. It rejects more than 4,300 digits, and
some digits that ``str.isdigit`` accepts.
"""

import re

INT8 = range(-(2**7), 2**7)
INT16 = range(-(2**15), 2**15)
INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
COUNTS = range(1, 2**31)
NATURAL_INT32 = range(2**31)
NATURAL_INT64 = range(2**63)
PORTS = range(1, 2**16)
PORTS_TO_LISTEN_ON = range(2**16)
"""Port 0 means any free port."""

_DECIMAL = re.compile(r"-?[0-9]{1,20}")


def decimal_integer(text: str, within: range) -> int | None:
    """Parse ASCII digits with an optional minus sign; None if the string is not an integer in the range.

    ``within``: a range within 64 bits.
    """
    if _DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in within else None
