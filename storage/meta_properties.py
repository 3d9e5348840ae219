"""``meta.properties``: whose log directory this is. Version 0, the form of a broker in ZooKeeper mode.

Keys: ``version``, ``broker.id``, ``cluster.id``; a ``directory.id`` that a migrating broker wrote is kept.
Source: MetaProperties.java@3.9. Tests: tests/storage/test_log_manager.py.
"""

from typing import NamedTuple

from kafka_zk.storage.errors import InconsistentLogDir
from kafka_zk.storage.filenames import META_PROPERTIES
from kafka_zk.storage.files import read_file, write_atomically
from kafka_zk.system.integers import INT32, decimal_integer


class MetaProperties(NamedTuple):
    """``broker_id`` or ``cluster_id`` is None where the file does not say."""

    broker_id: int | None
    cluster_id: str | None
    directory_id: str | None = None


def read_meta_properties(directory: str) -> MetaProperties | None:
    """The file of a log directory, None without one. Raises InconsistentLogDir if it is not of version 0."""
    path = f"{directory}/{META_PROPERTIES}"
    data = read_file(path)
    if data is None:
        return None
    properties = {}
    for line in data.decode(errors="replace").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.lstrip().startswith(("#", "!")):
            properties[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    if properties.get("version") != "0":
        raise InconsistentLogDir(f"{path}: version {properties.get('version')}, a ZooKeeper-mode broker has version 0")
    stored_id = properties.get("broker.id")
    broker_id = None if stored_id is None else decimal_integer(stored_id, INT32)
    if stored_id is not None and broker_id is None:
        raise InconsistentLogDir(f"{path}: broker.id={stored_id} is not a broker's id")
    return MetaProperties(broker_id, properties.get("cluster.id"), properties.get("directory.id"))


def write_meta_properties(directory: str, meta: MetaProperties) -> None:
    """Write the file, durably and at once."""
    lines = ["#", "version=0"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    write_atomically(f"{directory}/{META_PROPERTIES}", "\n".join([*lines, ""]).encode())


def check_meta_properties(directory: str, broker_id: int, cluster_id: str) -> None:
    """Raise InconsistentLogDir unless the directory is ours or nobody's; claim it in the second case."""
    found = read_meta_properties(directory)
    if found is None:
        write_meta_properties(directory, MetaProperties(broker_id, cluster_id))
        return
    if found.broker_id is not None and found.broker_id != broker_id:
        raise InconsistentLogDir(f"{directory} belongs to broker {found.broker_id}, this is broker {broker_id}")
    if found.cluster_id is not None and found.cluster_id != cluster_id:
        raise InconsistentLogDir(f"{directory} belongs to cluster {found.cluster_id}, this is cluster {cluster_id}")
    if found.broker_id is None or found.cluster_id is None:
        write_meta_properties(directory, MetaProperties(broker_id, cluster_id, found.directory_id))
