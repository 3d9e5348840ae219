"""The real ZooKeeper's jars in the ``pyspark`` wheel, found without importing pyspark."""

import importlib.util
from pathlib import Path

from kafka_zk.embedded.errors import JarsNotFound

# The jars that ZooKeeperServerMain needs. The whole folder would double the start time.
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
    """Raises: JarsNotFound if pyspark is not installed or has none of the jars."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsNotFound("no ZooKeeper: its jars come with pyspark, so `pip install 'kafka-zk[embedded]'`")
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    jars = {artifact: sorted(folder.glob(f"{artifact}-[0-9]*.jar")) for artifact in ARTIFACTS}
    missing = [artifact for artifact, files in jars.items() if not files]
    if "zookeeper" in missing or "zookeeper-jute" in missing:
        raise JarsNotFound(f"no ZooKeeper: {folder} has no {' and no '.join(missing)} jar")
    if missing:  # pyspark is packaged differently: slower, but complete
        return [folder / "*"]
    tls = [files[-1] for artifact in TLS_ARTIFACTS if (files := sorted(folder.glob(f"{artifact}-[0-9]*.jar")))]
    return [files[-1] for files in jars.values()] + tls
