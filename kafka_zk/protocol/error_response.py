"""The response to a request that fails as a whole, with the error code at the top level or else in each result.

A result repeats the names in the request's entry; other fields have Kafka's defaults. For some APIs, Kafka's
``getErrorResponse`` differs: it repeats the entries even if the code is at the top level, or has other messages.
"""

from collections.abc import Iterable
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.message import Message

_CODES, _REASON = ("error_code", "partition_error_code"), "error_message"
_NO_NODE = {"node_id": -1, "port": -1}  # for FindCoordinator, whose table has no defaults for these fields


class _Failure:
    def __init__(self, version: int, code: ErrorCode, reason: str) -> None:
        self._version = version
        self._code = code
        self._reason = reason

    def fields(self, table: Table) -> dict[str, Field]:
        return {field.name: field for field in table.untagged(self._version)}

    def fill(self, response: Any, entry: Any) -> None:
        """``entry``: the request, or the struct, name or number in it, to which ``response`` corresponds."""
        fields = self.fields(response.table)
        code = next((name for name in _CODES if name in fields), None)
        if code is not None:
            setattr(response, code, self._code)
            if _REASON in fields:
                response.error_message = self._reason
        for field in fields.values():
            if field.struct is not None and field.is_array:
                is_above = code is not None or not self._has_code(field.struct)
                results = [] if is_above else self._results(field.struct, self._entries(field, entry))
                setattr(response, field.name, results)
            elif field.name not in (*_CODES, _REASON) and not field.default:  # a nonzero default stands for "unknown"
                self._repeat(response, field, entry)

    def _has_code(self, table: Table) -> bool:
        fields = self.fields(table)
        has_code = not fields.keys().isdisjoint(_CODES)
        return has_code or any(each.struct and self._has_code(each.struct) for each in fields.values())

    def _entries(self, field: Field, entry: Any) -> Iterable[Any]:
        """Return the request's array of the same name, or else the request's only array."""
        if not isinstance(entry, Message):
            return ()
        arrays = {name: each for name, each in self.fields(entry.table).items() if each.is_array}
        name = field.name if field.name in arrays else next(iter(arrays)) if len(arrays) == 1 else None
        return () if name is None else getattr(entry, name) or ()

    def _results(self, table: Table, entries: Iterable[Any]) -> list[Any]:
        results = []
        for entry in entries:
            result = table.message_class()
            self.fill(result, entry)
            results.append(result)
        return results

    def _repeat(self, response: Any, field: Field, entry: Any) -> None:
        if isinstance(entry, Message):
            given = self.fields(entry.table).get(field.name)
            value = getattr(entry, field.name) if given is not None and given.type_name == field.type_name else None
        else:
            named = [each for name, each in self.fields(response.table).items() if name not in (*_CODES, _REASON)]
            value = entry if field is named[0] else None
        if value is not None:
            setattr(response, field.name, value)


def error_response(api_key: int, version: int, request: Any, code: ErrorCode, reason: str) -> Any:
    """None if the client expects no response (Produce with ``acks=0``).

    ``reason``: text for the client, if the response has a field for it.
    """
    if api_key == ApiKey.PRODUCE and request.acks == 0:
        return None
    response = codec.response(api_key)(**(_NO_NODE if api_key == ApiKey.FIND_COORDINATOR else {}))
    _Failure(version, code, reason).fill(response, request)
    return response
