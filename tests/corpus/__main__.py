"""Record the corpus again: `python -m tests.corpus` runs tests of the peers (a quarter of an hour) against brokers that
record the requests, and selects some of them. Needs what `make test-peers` needs.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from kafka_zk.protocol import uuids
from tests.corpus import requests
from tests.corpus.recording_broker import FILE, HEAD
from tests.corpus.requests import Corpus, Recorded, Topic
from tests.integration.processes import ROOT

SUITES = (
    "tests/peers/test_client_programs.py",
    "tests/peers/transactions/test_transactional_clients.py",
    "tests/peers/transactions/test_transactional_programs.py",
    "tests/peers/groups/test_group_rounds.py",
    "tests/peers/test_matrix.py",
)
"""All client libraries of the peers' tests take part in one of them."""

_TOPIC_ID = re.compile(r"^topic_id: (\S+)$", re.MULTILINE)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kafka-zk-corpus-") as name:
        folder = Path(name)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.corpus.recording"]
        command += ["-m", "peers and not soak", "-k", "kafka-zk and not apache", "--rounds", "1"]
        command += [f"--basetemp={folder / 'tests'}", *SUITES]
        subprocess.run(command, cwd=ROOT, check=True)
        corpus = only_named(Corpus(topics(folder), list(requests.select(recorded(folder)))))
    requests.write(corpus)
    kinds = Counter(requests.header_of(frame)[0][3] for _, frame in corpus.requests)
    print(*(f"{count:4} {client}" for client, count in sorted(kinds.items(), key=str)), sep="\n")
    print(f"{len(corpus.requests)} requests, {requests.FILE.stat().st_size:,} bytes")


def recorded(folder: Path) -> Iterator[Recorded]:
    """All requests of all brokers, in the order of the files."""
    numbers: dict[tuple[Path, int], int] = {}
    for path in sorted(folder.rglob(FILE)):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            connection, size_bytes = HEAD.unpack_from(data, position)
            position += HEAD.size
            number = numbers.setdefault((path, connection), len(numbers))
            yield Recorded(number, data[position : position + size_bytes])
            position += size_bytes


def topics(folder: Path) -> dict[str, Topic]:
    """The topics whose partitions the brokers have at the end."""
    ids: dict[str, bytes] = {}
    partitions: dict[str, set[str]] = defaultdict(set)
    for path in folder.rglob("partition.metadata"):
        topic, _, partition = path.parent.name.rpartition("-")
        found = _TOPIC_ID.search(path.read_text())
        if found is not None and not topic.startswith("__"):
            ids[topic] = uuids.from_text(found[1]).bytes
            partitions[topic].add(partition)
    return {topic: Topic(ids[topic], len(partitions[topic])) for topic in sorted(ids)}


def only_named(corpus: Corpus) -> Corpus:
    """The corpus without the topics that no request names."""
    frames = b"".join(request.frame for request in corpus.requests)
    topics = corpus.topics.items()
    return corpus._replace(
        topics={name: topic for name, topic in topics if name.encode() in frames or topic.topic_id in frames}
    )


if __name__ == "__main__":
    main()
