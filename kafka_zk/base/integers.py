"""Decimal integers in texts from outside: options, configurations, files, znodes.

Python's ``int`` reads more than these texts may hold (digits of any script, underscores, spaces), ``str.isdigit`` is
true of digits that ``int`` cannot read, and of more than 4,300 digits ``int`` reads none.
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
"""0 is any free one."""

_DECIMAL = re.compile(r"-?[0-9]{1,20}")


def decimal_integer(text: str, within: range) -> int | None:
    """The integer that ASCII digits write, after a minus sign or without one; None if there is none in the range.

    ``within``: not beyond 64 bits.
    """
    if _DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in within else None
