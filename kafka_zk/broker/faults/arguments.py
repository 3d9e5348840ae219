"""Reads and checks the arguments of faults: names, numbers, APIs and error codes."""

from collections.abc import Callable, Mapping
from typing import Any

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

MOST_MS = 600_000
MOST_STEP_MS = 10 * 366 * 86_400_000
_MOST_COUNT = 1_000_000

REQUESTS, RESPONSES = MESSAGES = "requests", "responses"
"""What a function may intercept; both by default."""


def _number(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise ValueError(f"{value!r} is not a number from {lowest} to {highest}")
        return value

    return read


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a name")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError(f"{value!r} is not Unicode")
    return value


def read_api(value: Any) -> ApiKey:
    """Find an API by its number or by its name in either of Kafka's spellings: ``JoinGroup``, ``JOIN_GROUP``.

    Raises: ValueError.
    """
    wanted = str(value).replace("_", "").upper()
    for key in ApiKey:
        if wanted in (key.name.replace("_", ""), str(int(key))):
            return key
    raise ValueError(f"there is no API {value!r}: use a name such as JoinGroup")


def read_code(value: Any) -> ErrorCode:
    """Find an error code by its number or name. NONE is not an error code. Raises: ValueError."""
    wanted = str(value).upper()
    for code in ErrorCode:
        if wanted in (code.name, str(int(code))) and code is not ErrorCode.NONE:
            return code
    raise ValueError(f"there is no error {value!r}: use a name such as NOT_COORDINATOR")


def _messages(value: Any) -> str:
    if value not in MESSAGES:
        raise ValueError(f"{value!r} is not {' or '.join(MESSAGES)}")
    return str(value)


NUMBERS = frozenset({"times", "nth", "ms", "step_ms", "partition", "port"})
"""Names of the arguments that are numbers."""

ARGUMENTS: Mapping[str, Callable[[Any], Any]] = {
    "api": read_api,
    "code": read_code,
    "times": _number(1, _MOST_COUNT),
    "nth": _number(1, _MOST_COUNT),
    "ms": _number(1, MOST_MS),
    "step_ms": _number(-MOST_STEP_MS, MOST_STEP_MS),
    "partition": _number(0, 2**31 - 1),
    "port": _number(1, 2**16 - 1),
    "messages": _messages,
    "client_id": _name,
    "topic": _name,
    "group": _name,
    "transactional_id": _name,
}
"""Argument name -> function that reads and checks its value. Each function raises ValueError."""
