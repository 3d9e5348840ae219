"""Departure delays by carrier and hour of the day: Parquet and a heat map.

    kafka-zk demo --keep                               # leaves a cluster with the flights, and a lake of them
    python examples/flights/delays.py --lake LAKE --to delays
    spark-submit examples/flights/delays.py --bootstrap-server 127.0.0.1:9092 --to delays

Cancelled flights are counted but not included in means, because they have no delay.
"""

from pathlib import Path
from typing import Any

from charts import heat_map
from flights import parse_arguments, read_flights


def delays(flights: Any) -> Any:
    """Columns: carrier, hour, flights, cancelled, mean_delay in minutes, and late, the share that left over 15 minutes
    late.
    """
    from pyspark.sql import functions as f

    delay = f.col("dep_delay")
    return (
        flights.groupBy("carrier", "hour")
        .agg(
            f.count("*").alias("flights"),
            f.count_if(delay.isNull()).alias("cancelled"),
            f.avg(delay).alias("mean_delay"),
            f.avg((delay > 15).cast("int")).alias("late"),
        )
        .orderBy("carrier", "hour")
    )


def main() -> None:
    arguments = parse_arguments(str(__doc__).splitlines()[0])
    result = delays(read_flights(arguments))
    result.coalesce(1).write.mode("overwrite").parquet(f"{arguments.to}/delays.parquet")
    rows = result.collect()
    cells = {(row.carrier, f"{row.hour:02d}"): row.mean_delay for row in rows if row.mean_delay is not None}
    chart = Path(arguments.to) / "delays.svg"
    carriers, hours = sorted({row.carrier for row in rows}), [f"{hour:02d}" for hour in range(24)]
    heat_map(chart, "Mean delay at departure in minutes, by carrier and hour", carriers, hours, cells)
    print(f"{sum(row.flights for row in rows):,} flights, {len(carriers)} carriers: {chart}")


if __name__ == "__main__":
    main()
