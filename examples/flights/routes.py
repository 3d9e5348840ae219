"""One row per day and route: Parquet, partitioned by month, and a chart of flights per day.

    python examples/flights/routes.py --lake LAKE --to routes
    spark-submit examples/flights/routes.py --bootstrap-server 127.0.0.1:9092 --to routes
"""

from pathlib import Path
from typing import Any

from charts import line
from flights import parse_arguments, read_flights


def route_days(flights: Any) -> Any:
    """Columns: day, origin, dest, flights, cancelled, carriers, mean_arr_delay and max_arr_delay in minutes, miles
    flown.
    """
    from pyspark.sql import functions as f

    flew = f.col("dep_time").isNotNull()
    return (
        flights.withColumn("date", f.make_date("year", "month", "day"))
        .groupBy("date", "month", "origin", "dest")
        .agg(
            f.count("*").alias("flights"),
            f.count_if(~flew).alias("cancelled"),
            f.count_distinct("carrier").alias("carriers"),
            f.avg("arr_delay").alias("mean_arr_delay"),
            f.max("arr_delay").alias("max_arr_delay"),
            f.sum(f.when(flew, f.col("distance")).otherwise(0)).alias("miles"),
        )
    )


def main() -> None:
    arguments = parse_arguments(str(__doc__).splitlines()[0])
    result = route_days(read_flights(arguments)).cache()
    files = result.repartition("month").sortWithinPartitions("date", "origin", "dest")
    files.write.mode("overwrite").partitionBy("month").parquet(f"{arguments.to}/routes.parquet")
    days = result.groupBy("date").sum("flights").orderBy("date").collect()
    chart = Path(arguments.to) / "routes.svg"
    line(chart, "Flights a day from New York City", [(str(day["date"]), day["sum(flights)"]) for day in days])
    print(f"{result.count():,} days of routes over {len(days)} days: {chart}")


if __name__ == "__main__":
    main()
