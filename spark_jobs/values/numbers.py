"""Decodes what Kafka's serializers of numbers write: big-endian, always of the same length.

Source: ``ShortSerializer``, ``IntegerSerializer``, ``LongSerializer``, ``FloatSerializer`` and ``DoubleSerializer`` of
Kafka's clients.
"""

import struct
from typing import Any

from kafka_zk.spark_jobs.values.framing import ValueUndecodable

_FORMATS = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
_TYPES = {"short": "ShortType", "int": "IntegerType", "long": "LongType", "float": "FloatType", "double": "DoubleType"}
NUMBERS = tuple(_FORMATS)


class NumberDecoder:
    """``name``: one of NUMBERS."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._format = struct.Struct(_FORMATS[name])

    @property
    def columns(self) -> Any:
        """The Spark type."""
        from pyspark.sql import types

        return getattr(types, _TYPES[self._name])()

    def decode(self, data: bytes) -> int | float:
        """Raises ValueUndecodable."""
        if len(data) != self._format.size:
            raise ValueUndecodable(f"{len(data):,} bytes are not a valid {self._name}, which has {self._format.size}")
        (number,) = self._format.unpack(data)
        assert isinstance(number, int | float)
        return number

    def __reduce__(self) -> Any:
        return NumberDecoder, (self._name,)
