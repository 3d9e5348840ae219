#!/usr/bin/env python3
"""Entry point of the broker's image: converts the environment to ``server.properties``, like Kafka's usual images.

``KAFKA_LOG_RETENTION_HOURS=1`` becomes ``log.retention.hours=1``: the prefix is removed, ``_`` becomes ``.``, ``__``
becomes ``_``, ``___`` becomes ``-``. The environment overrides keys of a mounted ``/etc/kafka/server.properties``.
``-D`` options in ``KAFKA_OPTS`` are used if they secure the connection to ZooKeeper. Without ``KAFKA_LISTENERS`` the
broker listens on the ports that it advertises, or on 9092.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from kafka_zk.broker.config.broker_configs import BROKER_CONFIGS
from kafka_zk.registry.client.security_keys import KEYS as SECURITY_KEYS

MOUNTED = Path("/etc/kafka/server.properties")
WRITTEN = Path("/tmp/server.properties")  # writable for any user of the container
DATA = "/var/lib/kafka/data"
DEFAULT_PORT = 9092

NOT_KEYS = re.compile(r"KAFKA_(ZK_.*|OPTS|HEAP_OPTS|JVM_.*|GC_.*|JMX_.*|LOG4J_.*|VERSION|HOME|DEBUG|METRICS_PORT)")
SPELLINGS = {key.lower().replace(".", ""): key for key in (*BROKER_CONFIGS, *SECURITY_KEYS) if key != key.lower()}
"""Keys with capital letters, which variables cannot express. Variables may have a _ before each capital letter, or
not.
"""


def main() -> int:
    from kafka_zk.cli.terminal.properties import read_properties

    mounted = read_properties(MOUNTED) if MOUNTED.exists() else {}
    properties = server_properties(os.environ, mounted)
    if not properties.get("zookeeper.connect"):
        print("Error: set KAFKA_ZOOKEEPER_CONNECT, for example to zookeeper:2181", file=sys.stderr)
        return 1
    WRITTEN.touch(mode=0o600)
    WRITTEN.chmod(0o600)  # it may hold passwords, and may be left by an older image
    WRITTEN.write_text("".join(f"{key}={escape(value)}\n" for key, value in properties.items()))
    metrics_port = os.environ.get("KAFKA_METRICS_PORT")
    metrics = ["--metrics-port", metrics_port] if metrics_port else []
    faults_port = os.environ.get("KAFKA_ZK_FAULTS_PORT")  # on all interfaces: 127.0.0.1 is the container's own
    faults = ["--faults-port", faults_port, "--faults-host", "0.0.0.0"] if faults_port else []
    os.execvp("kafka-zk", ["kafka-zk", "broker", str(WRITTEN), *metrics, *faults])


def server_properties(environ: Mapping[str, str], mounted: Mapping[str, str]) -> dict[str, str]:
    """All keys of the broker. In increasing precedence: the image's defaults, the mounted file, ``KAFKA_OPTS``, the
    environment.
    """
    properties = {"log.dirs": DATA, **mounted, **options(environ.get("KAFKA_OPTS", ""))}
    for name, value in sorted(environ.items()):
        if name.startswith("KAFKA_") and not NOT_KEYS.fullmatch(name):
            properties[key_of(name)] = value
    if "listeners" not in properties:
        properties["listeners"] = listeners(properties.get("advertised.listeners", ""))
    return properties


def key_of(name: str) -> str:
    """The configuration key of an environment variable."""
    signs = {1: ".", 2: "_", 3: "-"}
    key = re.sub("_{1,3}", lambda match: signs[len(match[0])], name.removeprefix("KAFKA_").lower())
    return SPELLINGS.get(key.replace(".", ""), key)


def options(opts: str) -> dict[str, str]:
    """``-Dkey=value`` options that secure the connection to ZooKeeper."""
    found = (option[2:].partition("=") for option in opts.split() if option.startswith("-D"))
    return {key: value for key, _, value in found if key in SECURITY_KEYS}


def listeners(advertised: str) -> str:
    """Listeners on all interfaces for the advertised ones."""
    entries = [entry.strip().partition("://") for entry in advertised.split(",") if entry.strip()]
    listening = [f"{name}://0.0.0.0:{address.rpartition(':')[2]}" for name, _, address in entries]
    return ",".join(listening) or f"PLAINTEXT://0.0.0.0:{DEFAULT_PORT}"


def escape(value: str) -> str:
    """A value escaped for a properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


if __name__ == "__main__":
    sys.exit(main())
