"""Settings of a Spark session that hold for one job."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_TIMES = "spark.sql.parquet.outputTimestampType"


@contextmanager
def set_to(spark: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@contextmanager
def parquet_times_in_micros(spark: Any) -> Iterator[None]:
    """In the block, Spark writes timestamps as INT64, not as its old INT96, unless the session sets another format."""
    wanted = {} if spark.conf.get(_TIMES, None) else {_TIMES: "TIMESTAMP_MICROS"}
    with set_to(spark, wanted):
        yield
