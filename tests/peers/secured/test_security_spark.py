"""Our Spark source and sink against a secured Apache Kafka 3.9.1, and a search for secrets in Spark's files and UI.

Executors are processes of their own; they get the secrets, but no files.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kafka_zk.spark_jobs.session import spark_session
from tests.integration.spark.sessions import stop_shared
from tests.peers.secured_kafka import PASSWORD, STORE_PASSWORD, SecuredKafka, secured_kafka

pytestmark = pytest.mark.peers
_COUNT = 500


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    """A session and its event log, which needs a session of its own."""
    stop_shared()
    events = tmp_path_factory.mktemp("events")
    config = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.ui.port": "0",
              "spark.eventLog.compress": "false", "spark.redaction.regex": "nothing is hidden"}  # fmt: skip
    spark = spark_session("secured", "local[2]", config)
    yield spark, events
    spark.stop()


def options(kafka: SecuredKafka, way: str) -> dict[str, str]:
    keys = {"bootstrap.servers": kafka.bootstrap(way), **kafka.client_keys(way)}
    return {f"kafka.{key}": value for key, value in keys.items()}


def private_key(kafka: SecuredKafka) -> str:
    """A line of the client's key, as it would appear anywhere."""
    return (kafka.folder / "client.pem").read_text().splitlines()[1]


def inline_tls(kafka: SecuredKafka) -> dict[str, str]:
    """Mutual TLS with the key in the options themselves."""
    key, _, chain = (kafka.folder / "client.pem").read_text().partition("-----BEGIN CERTIFICATE-----")
    keys = {
        "bootstrap.servers": kafka.bootstrap("mutual TLS"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(kafka.folder / "authority.pem"),
        "ssl.key.pem": key,
        "ssl.certificate.pem": "-----BEGIN CERTIFICATE-----" + chain,
    }
    return {f"kafka.{name}": value for name, value in keys.items()}


def pages_of_ui(spark: Any) -> dict[str, str]:
    """The pages of Spark's UI that show plans and configurations, and the answers of its API."""
    context = spark.sparkContext
    root = f"http://127.0.0.1:{urlsplit(context.uiWebUrl).port}"
    api = f"/api/v1/applications/{context.applicationId}"

    def page(path: str) -> str:
        with urllib.request.urlopen(root + path, timeout=60) as answer:
            text: str = answer.read().decode()
        return text

    executions = [each["id"] for each in json.loads(page(f"{api}/sql?length=1000"))]
    assert executions, "the UI shows no query"
    paths = ["/jobs/", "/stages/", "/environment/", "/SQL/", "/StreamingQuery/", f"{api}/environment",
             f"{api}/sql?details=true&planDescription=true&length=1000",
             *(f"/SQL/execution/?id={number}" for number in executions)]  # fmt: skip
    return {path: page(path) for path in paths}


def places_with(secrets: list[str], places: dict[str, str]) -> list[tuple[str, str]]:
    return [(place, secret) for place, text in places.items() for secret in secrets if secret in text]


def files_below(*folders: Path) -> dict[str, str]:
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path): path.read_text(errors="replace") for path in paths}


@pytest.mark.parametrize("way", ["SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "mutual TLS", "inline"])
def test_writes_reads_and_streams_and_no_place_shows_a_secret(
    kafka: SecuredKafka, session: tuple[Any, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    spark, events = session
    given = inline_tls(kafka) if way == "inline" else options(kafka, way)
    topic = f"spark-{way.replace(' ', '-')}"
    written = spark.range(_COUNT).selectExpr("cast(id as string) as value")
    written.write.format("kafka_zk").options(**given, topic=topic).mode("append").save()
    frame = spark.read.format("kafka_zk").options(**given, subscribe=topic).load()
    assert frame.selectExpr("cast(value as string) as value").distinct().count() == _COUNT
    frame.explain(True)
    stream = spark.readStream.format("kafka_zk").options(**given, subscribe=topic, startingOffsets="earliest").load()
    copied = stream.select("value").writeStream.format("kafka_zk").options(
        **given, topic=f"{topic}-copy", checkpointLocation=str(tmp_path / "checkpoint")
    )  # fmt: skip
    query = copied.trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(True)
    copy = spark.read.format("kafka_zk").options(**given, subscribe=f"{topic}-copy").load()
    assert copy.count() == _COUNT
    said = capfd.readouterr()
    secrets = [PASSWORD, STORE_PASSWORD, private_key(kafka)]
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    conf = str(spark.sparkContext.getConf().getAll())
    places = {"stdout": said.out, "stderr": said.err, "ps": processes, "conf": conf}
    assert files_below(events) and files_below(tmp_path)
    pages = pages_of_ui(spark)
    assert any("kafka_zk" in text for text in pages.values()), "the UI shows no plan of the source"
    assert not places_with(secrets, {**places, **pages, **files_below(events, tmp_path)})


def test_a_wrong_password_is_told_by_the_driver(kafka: SecuredKafka, session: tuple[Any, Path]) -> None:
    spark, _ = session
    given = options(kafka, "SCRAM-SHA-256")
    given["kafka.sasl.jaas.config"] = given["kafka.sasl.jaas.config"].replace(PASSWORD, "wr0ng")
    with pytest.raises(Exception, match="logging in to") as refused:
        spark.read.format("kafka_zk").options(**given, subscribe="t").load().count()
    assert "wr0ng" not in str(refused.value)


def test_files_need_be_at_the_driver_only(kafka: SecuredKafka, session: tuple[Any, Path], tmp_path: Path) -> None:
    """Tasks run after the file was removed at the driver."""
    spark, _ = session
    given = options(kafka, "PLAIN")
    here = tmp_path / "authority.pem"
    here.write_bytes((kafka.folder / "authority.pem").read_bytes())
    given["kafka.ssl.truststore.location"] = str(here)
    written = spark.range(3).selectExpr("'x' as value").write.format("kafka_zk")
    written.options(**given, topic="here").mode("append").save()
    frame = spark.read.format("kafka_zk").options(**given, subscribe="here").load()
    planned = frame.rdd
    assert planned.getNumPartitions() >= 1  # the read is planned by now
    here.unlink()
    assert planned.count() == 3
