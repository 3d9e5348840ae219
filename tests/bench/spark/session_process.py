"""A Spark session as a process of its own, told by JSON lines on stdin what to read: one for each source.

So each source has its own JVM and Python workers, whose CPU and memory the bench reads from /proc, and the runs of two
sources can alternate while both stay warm.
"""

import json
import sys
import time
from typing import Any

from kafka_zk.spark_jobs.session import spark_session
from tests.peers import jars

SPARK, OURS = "spark", "kafka_zk"
FORMATS = {SPARK: "kafka", OURS: "kafka_zk"}


def serve(source: str, master: str, bootstrap: str, folder: str) -> None:
    """Answer requests until stdin ends: ``check`` counts and sums a topic, everything else is a sink to write to."""
    config = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    if source == SPARK:
        config["spark.jars"] = ",".join(map(str, sorted(jars.jars(jars.SPARK_KAFKA).glob("*.jar"))))
    session = spark_session(f"bench-{source}", master, config)
    _say({"event": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        reader = session.read.format(FORMATS[source]).option("kafka.bootstrap.servers", bootstrap)
        for name, value in request["options"].items():
            reader = reader.option(name, value)
        frame = reader.load()
        started_s = time.monotonic()
        if request["sink"] == "check":
            row = frame.selectExpr("count(*)", "sum(offset)", "sum(hash(key, value))").first()
            _say({"check": list(row), "seconds": time.monotonic() - started_s})
            continue
        writer = frame.write.format(request["sink"]).mode("overwrite")
        if request["sink"] == "noop":
            writer.save()
        else:
            writer.save(f"{folder}/{source}-{request['sink']}")
        _say({"seconds": time.monotonic() - started_s})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
