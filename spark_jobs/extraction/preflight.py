"""Checks Spark's master and the target folder before Spark's slow start.

Uncertain cases are left to Spark.
"""

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kafka_zk.base.integers import PORTS, decimal_integer
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import ICEBERG

_LOCAL = re.compile(r"local(\[(\*|[1-9][0-9]*)(, *[1-9][0-9]*)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]")
_HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_CONFIGURED = (*_HADOOP_FOLDERS, "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
"""If one of these is set, a path without a scheme may be in any file system, or Spark is already running."""
_DEFAULT_FILE_SYSTEM = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
WITHOUT_CONNECT = "use a classic session (--master, without SPARK_REMOTE and spark.remote)"
_CONNECT_TIMEOUT_S = 1.0


def check_not_connect(master: str | None, config: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
    """Raises WronglyAsked for a Spark Connect server, because its sessions have no Java process that can be called."""
    remote = config.get("spark.remote") or environ.get("SPARK_REMOTE")
    if remote or (master or "").startswith("sc://"):
        raise WronglyAsked(f"{remote or master} is a Spark Connect server: {WITHOUT_CONNECT}")


def check_master(master: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raises WronglyAsked if Spark would not accept the master, or a standalone master cannot be reached."""
    if master == "yarn":
        if not any(environ.get(name) for name in _HADOOP_FOLDERS):
            raise WronglyAsked(f"--master yarn: neither {' nor '.join(_HADOOP_FOLDERS)} is set")
    elif master.startswith("spark://"):
        _check_standalone(master)
    elif not master.startswith("k8s://") and not _LOCAL.fullmatch(master):
        raise WronglyAsked(
            f"--master: Spark knows no {master!r}, only local, local[N], local[*], spark://HOST:PORT, yarn and "
            "k8s://URL"
        )


def _check_standalone(master: str) -> None:
    """Connect to the master, because Spark would retry for a minute without one. A timeout is left to Spark."""
    refusals = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        number = decimal_integer(port, PORTS)
        if not host or number is None:
            raise WronglyAsked(f"--master: {master!r} is not spark://HOST:PORT[,HOST:PORT...]")
        try:
            socket.create_connection((host.strip("[]"), number), _CONNECT_TIMEOUT_S).close()
            return
        except TimeoutError:
            return
        except OSError as error:
            refusals.append(f"{address}: {error.strerror or error}")
    raise WronglyAsked(f"--master: no Spark master responds ({'; '.join(refusals)})")


def check_target(target: str, format: str, config: Mapping[str, str]) -> None:
    """Names of Iceberg tables are checked by their catalog. Raises WronglyAsked."""
    if format != ICEBERG:
        check_folder(target, config)


def check_folder(target: str, config: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> None:
    """Raises WronglyAsked if a local folder is not writable."""
    scheme = urlsplit(target).scheme.lower()
    if scheme == "file":
        _check_folder(target, Path(unquote(urlsplit(target).path)))
    elif not scheme and not _is_configured(config, environ):
        _check_folder(target, Path(target))


def _is_configured(config: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in _CONFIGURED) or any(name in config for name in _DEFAULT_FILE_SYSTEM)


def _check_folder(target: str, path: Path) -> None:
    there = path.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise WronglyAsked(f"{target} is a file, not a folder" if there == path.absolute() else f"{there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise WronglyAsked(f"--to: {there} is not writable")
