"""Values at the limits of narrow and wide types, in Avro and as rows with a key."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from typing import Any

Row = tuple[int, float, Decimal]

NARROW: list[Row] = [
    (2**31 - 1, 2.0**24, Decimal("9999999.99")),
    (-(2**31), -0.5, Decimal("-9999999.99")),
]  # fmt: skip
WIDE: list[Row] = [
    (2**31, 2.0**24 + 1, Decimal("999999999999999999.99")),
    (2**53 + 1, 0.1, Decimal("10000000.00")),
    (-(2**63), 2.0**53 - 1, Decimal("-999999999999999999.99")),
]  # fmt: skip
CHANGES = "i: INT → BIGINT, f: FLOAT → DOUBLE, d: DECIMAL(9,2) → DECIMAL(20,2)"
COLUMNS = ("i", "f", "d")
CDC_NARROW = "id INT, i INT, f FLOAT, d DECIMAL(9,2)"
CDC_WIDE = "id INT, i BIGINT, f DOUBLE, d DECIMAL(20,2)"


def avro_schema(*, wide: bool) -> str:
    precision = 20 if wide else 9
    fields = [
        {"name": "i", "type": "long" if wide else "int"},
        {"name": "f", "type": "double" if wide else "float"},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}},
    ]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


def in_avro(row: Row, *, wide: bool) -> bytes:
    import fastavro

    out = io.BytesIO()
    schema: Any = json.loads(avro_schema(wide=wide))
    fastavro.schemaless_writer(out, schema, dict(zip(COLUMNS, row, strict=True)))
    return out.getvalue()


def in_json(number: int, row: Row) -> bytes:
    """As Debezium writes a row without schemas: decimals are Base64 of the unscaled number."""
    unscaled = int(row[2].scaleb(2)).to_bytes(12, "big", signed=True)
    return json.dumps({"id": number, "i": row[0], "f": row[1], "d": base64.b64encode(unscaled).decode()}).encode()
