"""The analyses in examples/flights, on an extraction and on a topic, compared with plain Python over the input."""

import csv
import io
import itertools
import os
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pyarrow.dataset
import pyspark
import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.learn.demo.flights import FILE, SCHEMA, find_flights, read_flights
from kafka_zk.spark_jobs.session import prepare_environment
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import ROOT, kafka_zk
from tests.integration.spark.sessions import LOCAL, SMALL

pytestmark = [pytest.mark.integration, pytest.mark.spark]
EXAMPLES = ROOT / "examples" / "flights"
COUNT = 3_000
TIMEOUT_S = 400
CONF = [f"--conf={name}={value}" for name, value in SMALL.items()]
SUBMIT = ["--master", "local[1]", "--driver-memory", "700m", *CONF]


class Delays(NamedTuple):
    flights: int
    cancelled: int
    mean_delay: float | None
    late: float | None


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    name = make_topic(partitions=2)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for flight in itertools.islice(read_flights(find_flights()), COUNT):
            producer.send(name, flight.value, flight.key)
        producer.flush()
    return name


def rows() -> Iterator[dict[str, str]]:
    """The input's first rows, as the CSV file has them."""
    with zipfile.ZipFile(find_flights()) as archive, archive.open(FILE) as file:
        yield from itertools.islice(csv.DictReader(io.TextIOWrapper(file, "utf-8", newline="")), COUNT)


def environ() -> dict[str, str]:
    made = {**os.environ, **LOCAL, "PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": " ".join([*SUBMIT, "pyspark-shell"])}
    prepare_environment(made)
    return made


def run(*command: object) -> str:
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, env=environ(), timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def test_delays_per_carrier_and_hour_of_an_extraction(
    kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    lake, to = tmp_path / "lake", tmp_path / "delays"
    extracted = kafka_zk(
        "extract", "--zookeeper", kafka_zk_cluster.zookeeper_connect, "--group", f"lake-{topic}", "--topic", topic,
        "--to", lake, "--decode", "json", "--schema", SCHEMA, "--master", "local[1]",
        *CONF, timeout_s=TIMEOUT_S,
    )  # fmt: skip
    assert extracted.returncode == 0, extracted.stderr
    told = run(sys.executable, EXAMPLES / "delays.py", "--lake", lake, "--to", to)
    assert told.startswith(f"{COUNT:,} flights")
    found = {
        (row["carrier"], row["hour"]): Delays(row["flights"], row["cancelled"], row["mean_delay"], row["late"])
        for row in pyarrow.dataset.dataset(to / "delays.parquet").to_table().to_pylist()
    }
    expected: dict[tuple[str, int], list[float | None]] = defaultdict(list)
    for row in rows():
        delay = row["dep_delay"]
        expected[row["carrier"], int(row["hour"])].append(float(delay) if delay not in ("", "NA") else None)
    assert found.keys() == expected.keys()
    for key, delays in expected.items():
        left = [delay for delay in delays if delay is not None]
        late = [float(delay > 15) for delay in left]
        assert found[key] == pytest.approx(Delays(len(delays), len(delays) - len(left), mean(left), mean(late)))
    picture = ElementTree.parse(to / "delays.svg").getroot()
    drawn = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert len(drawn) == sum(each.mean_delay is not None for each in found.values())


@pytest.mark.weekly
def test_a_row_for_each_route_and_day_of_a_topic_with_spark_submit(
    kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    to = tmp_path / "routes"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    run(submit, *SUBMIT, EXAMPLES / "routes.py", "--bootstrap-server", kafka_zk_cluster.bootstrap, "--topic", topic,
        "--to", to)  # fmt: skip
    columns = ("flights", "cancelled", "carriers", "mean_arr_delay", "max_arr_delay", "miles")
    found = {
        (str(row["date"]), row["origin"], row["dest"]): [row[name] for name in columns]
        for row in pyarrow.dataset.dataset(to / "routes.parquet").to_table().to_pylist()
    }
    days: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows():
        date = f"{int(row['year']):04d}-{int(row['month']):02d}-{int(row['day']):02d}"
        days[date, row["origin"], row["dest"]].append(row)
    assert found.keys() == days.keys()
    for key, flights in days.items():
        flew = [row for row in flights if row["dep_time"] not in ("", "NA")]
        late = [float(row["arr_delay"]) for row in flights if row["arr_delay"] not in ("", "NA")]
        carriers = {row["carrier"] for row in flights}
        expected = [len(flights), len(flights) - len(flew), len(carriers), mean(late), max(late, default=None),
                    sum(int(row["distance"]) for row in flew)]  # fmt: skip
        assert found[key] == pytest.approx(expected)
    assert ElementTree.parse(to / "routes.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("name", ["delays.py", "routes.py"])
def test_an_analysis_explains_itself(name: str) -> None:
    shown = run(sys.executable, EXAMPLES / name, "--help")
    assert "--lake" in shown and "--bootstrap-server" in shown
