"""Remembers the tiered partitions of deleted topics, whose remote segments may still exist.

Before a replica deletes its log, the broker records the partition in a file in the log directory. So a crash or an
unavailable store only delays the deletion in remote storage, and other replicas complete it if the leader is gone. The
deletion begins when the topic is gone from ZooKeeper; until then, a controller may still abandon it. Kafka's leader
deletes remote segments during StopReplica, and forgets those that it cannot delete.

As in Kafka 3.9, no RemotePartitionDeleteMetadata records are written. After DELETE_PARTITION_FINISHED, another record
of the partition would stop the metadata consumer of a Kafka broker that still hosts it (ConsumerTask.java@3.9).
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.base.threads import RunInThread
from kafka_zk.protocol import uuids
from kafka_zk.registry.znodes.topics import TopicAssignment
from kafka_zk.storage.files import files
from kafka_zk.storage.files.checkpoints import MAX_INT, format_checkpoint, parse_checkpoint, parse_number
from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.files.findings import discard
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.tiered.segment_metadata import TopicIdPartition
from kafka_zk.storage.tiered.uuid_text import ID, id_of

FILE = "remote-log-deletion-checkpoint"
"""A file with rows of topic, partition and topic id. Apache Kafka's brokers ignore the file."""

_log = Logger()
_ID = re.compile(ID, re.ASCII)


class Topics(Protocol):
    """The method of ``TopicRegistry`` that this module uses."""

    async def assignments(self, names: Iterable[str]) -> dict[str, TopicAssignment]: ...


class DeletedPartitions:
    def __init__(self, logs: LogManager, topics: Topics, run_in_thread: RunInThread) -> None:
        self._logs = logs
        self._topics = topics
        self._run_in_thread = run_in_thread
        self._known: dict[Path, set[TopicIdPartition]] = {}
        self._unwritten: set[Path] = set()
        self._writes = DeferredLock()

    @property
    def pending(self) -> list[TopicIdPartition]:
        """The recorded partitions in live log directories, including those that earlier processes recorded."""
        return sorted({tp for directory in self._logs.live_directories for tp in self._of(directory)})

    async def of_gone_topics(self) -> list[TopicIdPartition]:
        """The pending partitions whose topic no longer exists. Raises: RegistryError."""
        pending = self.pending
        existing = await self._topics.assignments(sorted({tp.topic for tp in pending}))
        ids = {name: assignment.topic_id for name, assignment in existing.items()}
        return [tp for tp in pending if ids.get(tp.topic, "") not in (None, uuids.to_text(tp.topic_id))]

    async def note(self, logs: Iterable[Log]) -> None:
        """Record the partitions of tiered logs durably. If this fails, the log directory goes offline."""
        noted: dict[Path, Log] = {}
        for log in logs:
            if log.config.is_tiered and log.topic_id is not None:
                directory = self._logs.log_dir_of(log.tp)
                topic_id = uuids.from_text(log.topic_id)
                self._of(directory).add(TopicIdPartition(topic_id, *log.tp))
                noted[directory] = log
        for directory, log in noted.items():
            try:
                await self._write(directory)
            except OSError as error:
                self._logs.fail_directory(log, error)

    async def forget(self, tp: TopicIdPartition) -> None:
        """Forget a partition whose remote segments are deleted. Skips failed and closed directories, because they may
        have another owner by now."""
        for directory in self._logs.live_directories:
            if tp in self._of(directory):
                self._of(directory).remove(tp)
                try:
                    await self._write(directory)
                except OSError as error:
                    _log.warn("{path}: {error}", path=directory / FILE, error=error)  # a restart repeats the deletion

    async def _write(self, directory: Path) -> None:
        """Write the file of a directory; concurrent calls share one write. Raises: OSError."""
        self._unwritten.add(directory)
        async with self._writes:
            if directory not in self._unwritten:
                return
            self._unwritten.discard(directory)
            rows = [(tp.topic, tp.partition, uuids.to_text(tp.topic_id)) for tp in sorted(self._known[directory])]
            path, data = f"{directory}/{FILE}", format_checkpoint(rows)
            try:
                await self._run_in_thread(lambda: files.write_atomically(path, data))
            except OSError:
                self._unwritten.add(directory)
                raise

    def _of(self, directory: Path) -> set[TopicIdPartition]:
        """The partitions in a directory, read on first use."""
        known = self._known.get(directory)
        if known is None:
            known = self._known[directory] = _read(f"{directory}/{FILE}")
        return known


def _read(path: str) -> set[TopicIdPartition]:
    try:
        data = files.read_file(path)
        return set() if data is None else {_parsed(row, path) for row in parse_checkpoint(data, 3, path)}
    except CorruptCheckpoint as error:
        found = discard(path, error, "remote segments of deleted topics may remain; `kafka-zk tier check` finds them")
        _log.error("{path} {problem}: {meaning}", path=path, problem=found.problem, meaning=found.meaning)
    except OSError as error:
        _log.error("{path}: {error}", path=path, error=error)
    return set()


def _parsed(row: list[str], path: str) -> TopicIdPartition:
    """The partition in a row of the file. Raises: CorruptCheckpoint."""
    topic, partition, topic_id = row
    if not _ID.fullmatch(topic_id):
        raise CorruptCheckpoint(f"{path}: {topic_id[:30]!r} is not a topic id")
    return TopicIdPartition(id_of(topic_id), topic, parse_number(partition, MAX_INT, path))

