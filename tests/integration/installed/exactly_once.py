"""Runs the exactly-once examples under kills and pauses, and checks the records that read_committed readers get."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.producer.blocking import BlockingProducer

EXAMPLES = Path(__file__).parents[3] / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}


def make_topics(bootstrap: str, source: str, target: str, partition_count: int) -> None:
    """Create both topics with the same number of partitions."""
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        for topic in (source, target):
            admin.create_topic(topic, partition_count, 1)


class Writer(threading.Thread):
    """Writes ``record-N`` to all partitions in transactions until ``finish``, with an aborted transaction now and then.
    """

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        super().__init__(name=f"writer of {topic}", daemon=True)
        self._servers, self._topic, self._partition_count = bootstrap, topic, partition_count
        self._enough = threading.Event()
        self.count = 0

    def run(self) -> None:
        name = f"writer-of-{self._topic}"
        with BlockingProducer(bootstrap_servers=self._servers, transactional_id=name) as producer:
            producer.init_transactions()
            while not self._enough.is_set():
                if self.count % 50 == 0:
                    producer.begin_transaction()
                    producer.send(self._topic, b"aborted", partition=self.count % self._partition_count)
                    producer.flush()
                    producer.abort_transaction()
                with producer.transaction():
                    for number in range(self.count, self.count + 10):
                        producer.send(self._topic, b"record-%d" % number, partition=number % self._partition_count)
                self.count += 10

    def finish(self) -> int:
        """Stop; returns the number of committed records."""
        self._enough.set()
        self.join()
        return self.count


def seen(bootstrap: str, topic: str, partition_count: int, isolation_level: str = "read_committed") -> Counter[bytes]:
    """The number of occurrences of each value in the topic."""
    return Counter(record.value for record in records_of(bootstrap, topic, partition_count, isolation_level))


def records_of(
    bootstrap: str, topic: str, partition_count: int, isolation_level: str = "read_committed"
) -> list[ConsumerRecord]:
    """All records of a topic."""
    tps = [TopicPartition(topic, number) for number in range(partition_count)]
    with BlockingReader(bootstrap_servers=bootstrap, isolation_level=isolation_level) as reader:
        reader.assign(dict.fromkeys(tps, "earliest"))
        return [record for records in reader.batches(reader.end_offsets(tps)) for record in records]


def is_settled(bootstrap: str, topic: str, partition_count: int) -> bool:
    """Whether no transaction is open in the topic."""
    tps = [TopicPartition(topic, number) for number in range(partition_count)]
    with (
        BlockingReader(bootstrap_servers=bootstrap, isolation_level="read_committed") as committed,
        BlockingReader(bootstrap_servers=bootstrap) as plain,
    ):
        return plain.end_offsets(tps) == committed.end_offsets(tps)


def has_consumed_all(bootstrap: str, topic: str, partition_count: int, group: str) -> bool:
    """Whether the group's committed offset is after the last record of each partition, so that no work is left."""
    following = {record.tp: record.offset + 1 for record in records_of(bootstrap, topic, partition_count)}
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        committed = admin.groups.committed(group)
    return all(tp in committed and committed[tp].offset >= offset for tp, offset in following.items())


def wait_for(condition: Callable[[], bool], deadline_s: float) -> None:
    """Wait for the condition or the deadline; the caller then checks what is missing."""
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.5)


def command_of(
    example: str, bootstrap: str, zookeeper: str, source: str, target: str, group: str
) -> Callable[[int], Sequence[str]]:
    """A function that returns the command line of a member by its number; the program runs until it is killed."""
    program = [sys.executable, str(EXAMPLES / example)]
    if example == "exactly_once.py":
        return lambda number: [*program, bootstrap, source, target, group, f"member-{number}", "600"]
    return lambda number: [*program, zookeeper, bootstrap, source, target, group, "600"]


class Members:
    """Numbered processes of one program."""

    def __init__(self, command_of: Callable[[int], Sequence[str]], folder: Path) -> None:
        self._command_of = command_of
        self._folder = folder
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int) -> None:
        with (self._folder / f"member-{number}.out").open("ab") as output:
            self._running[number] = subprocess.Popen(
                self._command_of(number), stdout=output, stderr=subprocess.STDOUT, env=ENVIRONMENT, cwd=self._folder
            )

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def pause(self, number: int, seconds: float) -> None:
        """Pause the process until the others must consider it dead, then resume it."""
        process = self._running[number]
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for number in list(self._running):
            self.kill(number)

    def output(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("member-*.out")))


def run_under_kills(
    members: Members,
    *,
    bootstrap: str,
    source: str,
    target: str,
    partition_count: int,
    group: str,
    seed: int,
    kills: int,
    pause_s: float,
    timeout_s: float = 120.0,
) -> None:
    """Run two members, with kills and one pause at random times while records are written. Check that the target has
    each record once.
    """
    rng = random.Random(seed)
    writer = Writer(bootstrap, source, partition_count)
    try:
        for number in (0, 1):
            members.start(number)
        writer.start()
        for _ in range(kills):
            time.sleep(rng.uniform(1.5, 4.0))
            victim = rng.randrange(2)
            members.kill(victim)
            time.sleep(rng.choice((0.0, 2.0)))
            members.start(victim)
        members.pause(rng.randrange(2), pause_s)
        count = writer.finish()
        deadline_s = time.monotonic() + timeout_s
        wait_for(lambda: len(seen(bootstrap, target, partition_count)) >= count, deadline_s)
        wait_for(lambda: has_consumed_all(bootstrap, source, partition_count, group), deadline_s)
        found = seen(bootstrap, target, partition_count)
        twice = sorted(value for value, times in found.items() if times > 1)
        assert not twice, f"more than once: {twice[:10]} of {count}\n{members.output()}"
        missing = sorted({b"RECORD-%d" % number for number in range(count)} - found.keys())
        assert not missing, f"missing: {missing[:10]} ({len(missing)} of {count})\n{members.output()}"
        assert found.total() == count, f"{found.total()} records instead of {count}"
    finally:
        members.stop()
        if writer.is_alive():
            writer.finish()
