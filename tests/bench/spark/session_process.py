"""A Spark session as a process of its own, which gets its requests as JSON lines on stdin: one for each source.

Each source thus has its own JVM and Python workers, whose CPU and memory the bench reads from /proc, and the runs of
two sources can alternate while both stay warm.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.session import spark_session
from tests.peers import jars

SPARK, OURS = "spark", "kafka_zk"
FORMATS = {SPARK: "kafka", OURS: "kafka_zk"}
CHECK, NOOP, PARQUET, EXTRACT = "check", "noop", "parquet", "extract"


def serve(source: str, master: str, bootstrap: str, zookeeper: str, folder: str) -> None:
    """Answer requests until stdin ends: ``check`` counts and sums a topic, any other request is a sink to write to.

    ``extract`` is ``kafka-zk extract`` into a folder, from planning to publishing; for Spark's own source, it means
    ``parquet``.
    """
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    if source == SPARK:
        config["spark.sql.parquet.outputTimestampType"] = "TIMESTAMP_MICROS"  # the type that an extraction writes
        config["spark.jars"] = ",".join(map(str, sorted(jars.jars(jars.SPARK_KAFKA).glob("*.jar"))))
    session = spark_session(f"bench-{source}", master, config)
    _say({"event": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        out = Path(folder) / f"{source}-{request['sink']}"
        shutil.rmtree(out, ignore_errors=True)
        if (source, request["sink"]) == (OURS, EXTRACT):
            _say(_extracted(session, zookeeper, request["options"]["subscribe"], out))
            continue
        reader = session.read.format(FORMATS[source]).option("kafka.bootstrap.servers", bootstrap)
        for name, value in request["options"].items():
            reader = reader.option(name, value)
        frame = reader.load()
        started_s = time.monotonic()
        if request["sink"] == CHECK:
            row = frame.selectExpr("count(*)", "sum(offset)", "sum(hash(key, value))").first()
            _say({"check": list(row), "seconds": time.monotonic() - started_s})
        elif request["sink"] == NOOP:
            frame.write.format(NOOP).mode("overwrite").save()
            _say({"seconds": time.monotonic() - started_s, "bytes": 0})
        else:
            frame.write.mode("overwrite").parquet(str(out))
            _say({"seconds": time.monotonic() - started_s, "bytes": _size_bytes(out)})


def _extracted(session: Any, zookeeper: str, topic: str, out: Path) -> dict[str, Any]:
    """Extract the whole topic for a new group."""
    group = f"bench-{time.time_ns()}"
    started_s = time.monotonic()
    report = extract(session, Extraction(zookeeper=zookeeper, group=group, topics=(topic,), target=str(out)))
    seconds = time.monotonic() - started_s
    assert report.writer == "executors", report.writer
    return {"seconds": seconds, "bytes": _size_bytes(out), "records": report.records}


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
