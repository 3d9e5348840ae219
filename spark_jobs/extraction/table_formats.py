"""The table formats: a table's commit shows the records, and the group's offsets follow it (``steps.py``)."""

from kafka_zk.spark_jobs.errors import WronglyAsked

DELTA, ICEBERG = "delta", "iceberg"
TABLE_FORMATS = (DELTA, ICEBERG)


def is_table(format: str) -> bool:
    return format in TABLE_FORMATS


def check_table(format: str, target: str, merge_schema: bool) -> None:
    """Check what needs no table. Raises WronglyAsked."""
    if merge_schema and not is_table(format):
        raise WronglyAsked(f"--merge-schema is for --format {' and '.join(TABLE_FORMATS)}: files have no common schema")
    if format == ICEBERG and (any(sign in target for sign in "/:`") or target.count(".") < 2):
        raise WronglyAsked(
            f"--to: {target!r} is not an Iceberg table: give CATALOG.NAMESPACE.TABLE, and the catalog's "
            "configuration by --conf spark.sql.catalog.CATALOG..."
        )
