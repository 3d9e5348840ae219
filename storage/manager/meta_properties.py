"""``meta.properties``: a log directory's owner. The format is version 0, of brokers in ZooKeeper mode.

Keys: ``version``, ``broker.id``, ``cluster.id``, and a migrating broker's ``directory.id``, which is kept. All are
optional, as in Kafka, so a file that a power loss emptied or filled with NUL is completed. An invalid value makes the
directory unusable; the id of another broker or cluster, or KRaft mode, stops the broker.
Source: MetaProperties.java, MetaPropertiesEnsemble.java, KafkaServer.startup@3.9.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.integers import INT32, decimal_integer
from kafka_zk.storage.files.errors import CorruptMetaProperties, InconsistentLogDir
from kafka_zk.storage.files.filenames import META_PROPERTIES
from kafka_zk.storage.files.files import read_file, write_atomically
from kafka_zk.storage.files.findings import Finding, Observe, ignore

_VERSION = 0  # for a file without a version
_KRAFT_VERSION = 1


class MetaProperties(NamedTuple):
    """``broker_id`` and ``cluster_id`` are None if the file does not contain them."""

    broker_id: int | None
    cluster_id: str | None
    directory_id: str | None = None


def read_meta_properties(directory: str) -> MetaProperties | None:
    """Read the file of a log directory; None if there is no file.

    Raises: InconsistentLogDir for KRaft mode, CorruptMetaProperties for an invalid value, OSError.
    """
    path = f"{directory}/{META_PROPERTIES}"
    data = read_file(path)
    if data is None:
        return None
    properties = {}
    for line in data.decode(errors="replace").replace("\r", "\n").split("\n"):
        name, separator, value = line.partition("=")
        if separator and not name.lstrip().startswith(("#", "!")):
            properties[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    version = _integer(path, properties, "version", "a version")
    if version == _KRAFT_VERSION:
        raise InconsistentLogDir(f"{path}: version {version}, but a ZooKeeper-mode broker has version {_VERSION}")
    if version not in (None, _VERSION):
        raise _corrupt(path, f"version={version} is not known")
    broker_id = _integer(path, properties, "broker.id", "a broker's id")
    return MetaProperties(broker_id, properties.get("cluster.id"), properties.get("directory.id"))


def _integer(path: str, properties: Mapping[str, str], name: str, meaning: str) -> int | None:
    """An integer property; None if it is missing."""
    text = properties.get(name)
    if text is None:
        return None
    number = decimal_integer(text, INT32)
    if number is None:
        raise _corrupt(path, f"{name}={text[:30]!r} is not {meaning}")
    return number


def _corrupt(path: str, problem: str) -> CorruptMetaProperties:
    return CorruptMetaProperties(f"{path}: {problem}; correct the file, or remove it if the directory is this broker's")


def write_meta_properties(directory: str, meta: MetaProperties) -> None:
    """Write the file atomically and durably."""
    lines = ["#", "version=0"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    write_atomically(f"{directory}/{META_PROPERTIES}", "\n".join([*lines, ""]).encode())


def check_meta_properties(directory: str, broker_id: int, cluster_id: str, observe: Observe = ignore) -> None:
    """Claim the directory for this broker.

    ``observe`` is called if the file names no broker and no cluster. Raises like ``read_meta_properties``;
    InconsistentLogDir for another broker or cluster.
    """
    found = read_meta_properties(directory)
    if found is None:
        write_meta_properties(directory, MetaProperties(broker_id, cluster_id))
        return
    if found.broker_id is not None and found.broker_id != broker_id:
        raise InconsistentLogDir(f"{directory} belongs to broker {found.broker_id}, but this is broker {broker_id}")
    if found.cluster_id is not None and found.cluster_id != cluster_id:
        raise InconsistentLogDir(f"{directory} belongs to cluster {found.cluster_id}, but this is cluster {cluster_id}")
    if found.broker_id is None and found.cluster_id is None:
        meaning = f"the directory is treated as belonging to broker {broker_id} of cluster {cluster_id}"
        observe(Finding(f"{directory}/{META_PROPERTIES}", "names no broker and no cluster", meaning))
    if found.broker_id is None or found.cluster_id is None:
        write_meta_properties(directory, MetaProperties(broker_id, cluster_id, found.directory_id))
