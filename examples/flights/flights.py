"""The flights as a DataFrame, from the folder that ``kafka-zk extract`` filled or directly from the topic."""

import argparse
from typing import Any

from kafka_zk.spark_jobs import spark_session

SCHEMA = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
    "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)


def parse_arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--lake", metavar="DIR", help="where kafka-zk extract left the flights as Parquet")
    source.add_argument("--bootstrap-server", metavar="HOST:PORT", help="read the topic itself")
    parser.add_argument("--topic", default="flights", help="with --bootstrap-server (default: flights)")
    parser.add_argument("--to", metavar="DIR", required=True, help="folder for the Parquet files and the chart")
    return parser.parse_args()


def read_flights(arguments: argparse.Namespace) -> Any:
    """One row per flight with the columns of SCHEMA, even if the extraction did not decode the values."""
    from pyspark.sql import functions as f

    spark = spark_session("flights")
    if arguments.lake:
        frame = spark.read.parquet(arguments.lake)
    else:
        source = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", arguments.bootstrap_server)
        frame = source.option("subscribe", arguments.topic).load()
    if "value" in frame.columns:
        frame = frame.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")
    return frame
