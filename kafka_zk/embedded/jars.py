"""Finds the real ZooKeeper's jars in the package ``kafka_zk_zookeeper``, or among the many jars of ``pyspark``.

Neither package is imported. Read: docs/decisions/0002-real-zookeeper-from-pyspark-jars.md.
"""

import importlib.util
from pathlib import Path

from kafka_zk.embedded.errors import JarsNotFound

# The jars that ZooKeeperServerMain needs from pyspark's folder. The whole folder would double the start time.
ARTIFACTS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
    "netty-buffer",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
)
# Additional jars for TLS, which depend on the version of Netty.
TLS_ARTIFACTS = (
    "netty-codec",
    "netty-codec-base",
    "netty-tcnative-classes",
    "netty-transport-classes-epoll",
    "netty-transport-native-unix-common",
)


def find_zookeeper_jars() -> list[Path]:
    """The jars of the package ``kafka_zk_zookeeper`` if it is installed, otherwise those of ``pyspark``.

    Raises: JarsNotFound if neither is installed, or if the package lacks jars.
    """
    if (folder := _package("kafka_zk_zookeeper")) is not None:
        return _all_jars(folder / "jars")
    if (folder := _package("pyspark")) is not None:
        return _chosen_jars(folder / "jars")
    raise JarsNotFound(
        "ZooKeeper is not installed: `pip install 'kafka-zk[embedded]'` installs it; in a clone, "
        "`pip install ./docker/zookeeper-wheel` does"
    )


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _all_jars(folder: Path) -> list[Path]:
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        raise JarsNotFound(f"{folder} has no jars: install kafka-zk-zookeeper again")
    return jars


def _chosen_jars(folder: Path) -> list[Path]:
    jars = {artifact: sorted(folder.glob(f"{artifact}-[0-9]*.jar")) for artifact in ARTIFACTS}
    missing = [artifact for artifact, files in jars.items() if not files]
    if "zookeeper" in missing or "zookeeper-jute" in missing:
        raise JarsNotFound(f"no ZooKeeper: {folder} has no {' and no '.join(missing)} jar")
    if missing:  # pyspark does not have the expected jars: use all, which is slower
        return [folder / "*"]
    tls = [files[-1] for artifact in TLS_ARTIFACTS if (files := sorted(folder.glob(f"{artifact}-[0-9]*.jar")))]
    return [files[-1] for files in jars.values()] + tls
