"""Checks whether Spark can run. It needs the packages of ``pip install 'kafka-zk[spark]'`` and a recent Java."""

import importlib.util
import os
from collections.abc import Mapping

from kafka_zk.embedded.errors import JavaNotFound
from kafka_zk.embedded.java import find_java

OLDEST_JAVA = 17
PACKAGES = ("pyspark", "pyarrow", "pandas", "numba", "rich")


def absent_packages() -> str | None:
    """A sentence that names the missing packages; None if all are installed."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"Spark needs {', '.join(absent)}: pip install 'kafka-zk[spark]'" if absent else None


def obstacle(environ: Mapping[str, str] = os.environ) -> str | None:
    """A sentence that says why Spark cannot run; None if it can."""
    if told := absent_packages():
        return told
    try:
        find_java(environ, OLDEST_JAVA)
    except JavaNotFound as error:
        return str(error)
    return None
