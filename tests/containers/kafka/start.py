"""Become Apache Kafka's broker, with a configuration from the environment, as in our own image."""

import os
import subprocess
from pathlib import Path

import entrypoint  # of our image

PROPERTIES = Path("/tmp/server.properties")
CLUSTER_ID = "a2Fma2EtemstdGVzdHMhIQ"
JAVA = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "/kafka:/kafka/lib/*"]

properties = {**entrypoint.server_properties(os.environ, {}), "log.dirs": "/tmp/kafka-logs"}
PROPERTIES.write_text("".join(f"{key}={entrypoint.escape(value)}\n" for key, value in properties.items()))
if "process.roles" in properties:
    storage = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(PROPERTIES), "--ignore-formatted"]
    subprocess.run([*JAVA, *storage], check=True)
os.execvp(JAVA[0], [*JAVA, "-Dlog4j.configuration=file:/kafka/log4j.properties", "kafka.Kafka", str(PROPERTIES)])
