"""Whether Spark can run here: what ``pip install 'kafka-zk[spark]'`` brings, and a Java that is new enough."""

import importlib.util
import os
from collections.abc import Mapping

from kafka_zk.embedded.errors import JavaNotFound
from kafka_zk.embedded.java import find_java

OLDEST_JAVA = 17
PACKAGES = ("pyspark", "pyarrow", "pandas", "numba")


def absent_packages() -> str | None:
    """The sentence to tell when something of the extra is not installed; None when all is there."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"Spark needs {', '.join(absent)}: pip install 'kafka-zk[spark]'" if absent else None


def obstacle(environ: Mapping[str, str] = os.environ) -> str | None:
    """Why Spark cannot run here, in one sentence; None when it can."""
    if told := absent_packages():
        return told
    try:
        find_java(environ, OLDEST_JAVA)
    except JavaNotFound as error:
        return str(error)
    return None
