"""The table formats. A table's commit makes the records visible, and the group's offsets move afterwards
(``steps.py``)."""

import re

from kafka_zk.spark_jobs.errors import WronglyAsked

DELTA, ICEBERG = "delta", "iceberg"
TABLE_FORMATS = (DELTA, ICEBERG)
_PART = re.compile(r"`((?:[^`]|``)+)`|[A-Za-z0-9_]+")
_TABLE = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern})){{2,}}")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_table(format: str) -> bool:
    return format in TABLE_FORMATS


def check_table(format: str, target: str, merge_schema: bool) -> None:
    """Check the options that can be checked without the table. Raises WronglyAsked."""
    if merge_schema and not is_table(format):
        raise WronglyAsked(f"--merge-schema is for --format {' and '.join(TABLE_FORMATS)}: files have no common schema")
    if format == ICEBERG:
        iceberg_name(target)


def iceberg_name(target: str) -> str:
    """The table's name as Spark SQL writes it: backticks surround the parts that need them. Raises WronglyAsked."""
    return ".".join(_parts(target))


def catalog_and_name(target: str) -> tuple[str, str]:
    """The catalog, and the rest of the name as the content of an SQL string."""
    catalog, *name = _parts(target)
    return catalog, ".".join(name).replace("\\", "\\\\").replace("'", "\\'")


def with_suffix(name: str, suffix: str) -> str:
    """Another table beside this one. ``name``: as ``iceberg_name`` returns it."""
    return f"{name[:-1]}{suffix}`" if name.endswith("`") else f"{name}{suffix}"


def _parts(target: str) -> list[str]:
    if not _TABLE.fullmatch(target):
        raise WronglyAsked(
            f"--to: {target!r} is not an Iceberg table: give CATALOG.NAMESPACE.TABLE, with backticks around a name "
            "that has characters other than letters, digits and _ (lake.db.`my-table`), and the catalog's "
            "configuration with --conf spark.sql.catalog.CATALOG..."
        )
    return [_quoted(match[1].replace("``", "`") if match[1] else match[0]) for match in _PART.finditer(target)]


def _quoted(part: str) -> str:
    return part if _PLAIN.fullmatch(part) else f"`{part.replace('`', '``')}`"
