"""The value that stands for an unchanged column stored out of line (TOAST), which PostgreSQL does not send again."""

from typing import Any

TEXT = "__debezium_unavailable_value"
_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_BYTES = TEXT.encode()
_ALONE = (TEXT, _BASE64, _BYTES)


def is_placeholder(value: Any) -> bool:
    """True for the placeholder as a string, Base64 or bytes, and for an array or a map that contains only the
    placeholder. A column that really holds this string looks the same, so its value counts as unchanged.
    """
    if isinstance(value, list):
        return len(value) == 1 and value[0] in _ALONE
    if isinstance(value, dict):
        return list(value.items()) == [(TEXT, TEXT)]
    return isinstance(value, (str, bytes)) and value in _ALONE
