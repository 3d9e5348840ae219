"""``--mask COLUMN=KIND``: masks columns whose values must not reach the target.

    hmac    HMAC-SHA-256 with a secret key, in hexadecimal: equal values stay equal, and can be joined
    null    nothing
    keep4   the last four characters, and an asterisk for each character before them

A masked column becomes text, except with ``null``, which keeps its type. Null stays null. Columns are masked as soon as
keys and values are decoded, so --where, --select, --partition-by and the staged files see only masks.
"""

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import WronglyAsked

HMAC, NULL, KEEP4 = "hmac", "null", "keep4"
KINDS = (HMAC, NULL, KEEP4)
_KEPT = 4
_LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 4096


class Mask(NamedTuple):
    """``kind``: one of KINDS."""

    column: str
    kind: str


def parse(text: str) -> Mask:
    """Raises WronglyAsked."""
    column, _, kind = text.rpartition("=")
    if not column or kind not in KINDS:
        raise WronglyAsked(f"--mask: {text!r} is not COLUMN=KIND, where KIND is {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return Mask(column, kind)


def check(masks: Sequence[Mask], key: bytes | None) -> None:
    """Raises WronglyAsked, never with the key."""
    names = [each.column.lower() for each in masks]
    if twice := [name for name in names if names.count(name) > 1]:
        raise WronglyAsked(f"--mask: {twice[0]} is listed twice")
    if any(each.kind == HMAC for each in masks) != (key is not None):
        raise WronglyAsked(f"--mask COLUMN={HMAC} and --mask-key-file must be given together")
    if key is not None and not _LEAST_KEY_BYTES <= len(key) <= _MOST_KEY_BYTES:
        raise WronglyAsked(
            f"--mask-key-file must have {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES:,} bytes, such as those of "
            "openssl rand -hex 32"
        )


def read_key(path: Path) -> bytes:
    """The file's bytes without surrounding white space; one byte more than allowed if it is longer. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(_MOST_KEY_BYTES + 1)
    return data if len(data) > _MOST_KEY_BYTES else data.strip()


def check_columns(masks: Sequence[Mask], columns: Any) -> None:
    """``columns``: those that can be masked, a ``StructType``. Raises WronglyAsked."""
    from pyspark.sql.types import AtomicType, VariantType

    types = {field.name.lower(): field.dataType for field in columns}
    names = [field.name.lower() for field in columns]
    for mask in masks:
        if names.count(mask.column.lower()) > 1:
            raise WronglyAsked(f"--mask: several column names differ only in case: {mask.column}")
        kind = types.get(mask.column.lower())
        if kind is None:
            raise WronglyAsked(f"--mask: there is no column {mask.column}, only {', '.join(columns.fieldNames())}")
        is_plain = isinstance(kind, AtomicType) and not isinstance(kind, VariantType)
        if mask.kind != NULL and (not is_plain or (mask.kind == KEEP4 and kind.typeName() == "binary")):
            raise WronglyAsked(f"--mask: {mask.column} is {kind.simpleString()}: only {NULL} can mask it")


def masked(frame: Any, masks: Sequence[Mask], key: bytes | None) -> Any:
    """``frame`` with the masks in place of its columns. Raises WronglyAsked."""
    from pyspark.sql import functions as f

    check_columns(masks, frame.schema)
    own_names = {name.lower(): name for name in frame.columns}
    for mask in masks:
        name = own_names[mask.column.lower()]
        column, kind = f.col(f"`{name}`"), frame.schema[name].dataType
        if mask.kind == NULL:
            content = f.lit(None).cast(kind)
        elif mask.kind == KEEP4:
            content = f.udf(lambda value: keep4(value), "string")(column.cast("string"))
        else:
            assert key is not None, "checked with the options"
            source = column if kind.typeName() == "binary" else column.cast("string")
            content = f.udf(lambda value: digest(key, value), "string")(source)
        frame = frame.withColumn(name, content)
    return frame


def digest(key: bytes, value: str | bytes | None) -> str | None:
    """The HMAC in hexadecimal; None for null. Text is encoded as UTF-8."""
    if value is None:
        return None
    return hmac.digest(key, value.encode() if isinstance(value, str) else bytes(value), "sha256").hex()


def keep4(value: str | None) -> str | None:
    """Keep the last four characters. A value of four characters or fewer keeps none."""
    if value is None:
        return None
    kept = value[-_KEPT:] if len(value) > _KEPT else ""
    return "*" * (len(value) - len(kept)) + kept
