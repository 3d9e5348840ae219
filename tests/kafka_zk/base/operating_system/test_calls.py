"""Calls that exist only on Linux: where each is allowed, and a cluster that runs without them."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.import_graph import ROOT
from tests.kafka_zk.base.operating_system.other_systems import PYTEST, WITHOUT_LINUX, run_on

FOLDERS = ("kafka_zk", "rebalance", "registry", "spark_jobs", "storage")
ALLOWED_IN = ROOT / "kafka_zk" / "base" / "operating_system"
ONLY_LINUX = {
    "F_OFD_SETLK", "F_OFD_SETLKW", "MADV_HUGEPAGE", "MSG_MORE", "O_DIRECT", "O_TMPFILE", "RLIMIT_AS", "RWF_NOWAIT",
    "SO_PEERCRED", "TCP_QUICKACK", "TIOCOUTQ", "copy_file_range", "epoll", "eventfd", "fdatasync", "fsync",
    "memfd_create", "pidfd_open", "pipe2", "posix_fadvise", "posix_fallocate", "preadv", "prlimit", "pwritev",
    "sched_getaffinity", "sendfile", "splice",
}  # fmt: skip
"""Linux-only names in Python's modules; ``fsync`` is among them because it guarantees less on macOS."""
_CANDIDATE = re.compile(rf"\b(?:{'|'.join(ONLY_LINUX)})\b|/proc|sys\.platform")

PROGRAM = '''
from kafka_zk import BlockingProducer, BlockingReader, TopicPartition
from kafka_zk.base.operating_system import files, memory, sockets, tcp_sockets


def test_records_come_back(kafka_zk_cluster, make_topic):
    """In frames that need more memory than one step, and from segments that are no longer active."""
    assert (sockets.HAS_EPOLL, sockets.send_file, files._NOWAIT) == (False, sockets._copy_file, None)
    values = [bytes([number]) * 900_000 for number in range(12)]
    topic = make_topic(config={"segment.bytes": "7000000", "max.message.bytes": "8000000"})
    options = {"batch_size": 7_000_000, "max_request_size": 8_000_000, "linger_ms": 100}
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap, **options) as producer:
        for written in [producer.send(topic, value, partition=0) for value in values]:
            written.result()
    with BlockingReader(bootstrap_servers=kafka_zk_cluster.bootstrap) as reader:
        reader.assign({TopicPartition(topic, 0): 0})
        found = []
        while len(found) < len(values):
            found += [record.value for record in reader.poll(10_000)]
    assert found == values
'''


@pytest.mark.integration
def test_a_cluster_works_without_any_of_them(tmp_path: Path) -> None:
    """Only the launcher still makes such a call, because it ignores ``sitecustomize``."""
    (tmp_path / "test_cluster.py").write_text(PROGRAM)
    (tmp_path / "lsof").write_text(LSOF)
    (tmp_path / "lsof").chmod(0o755)
    done = run_on(WITHOUT_LINUX, tmp_path, *PYTEST, "-o", "kafka_zk_brokers=1", path=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


LSOF = f"""#!{sys.executable} -IS
import runpy, sys
found = runpy.run_path({str(ALLOWED_IN / "tcp_sockets.py")!r})["tcp_sockets"](int(sys.argv[4]))
for local_port, is_listening in found:
    print(f"n127.0.0.1:{{local_port}}", f"TST={{'LISTEN' if is_listening else 'ESTABLISHED'}}", sep="\\n")
"""
"""A replacement for lsof, which this machine may not have."""


def _only_linux(path: Path) -> set[str]:
    text = path.read_text()
    if not _CANDIDATE.search(text):
        return set()
    tree = ast.parse(text)
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    found = names & ONLY_LINUX | {"/proc" for text in texts if text.startswith("/proc")}
    return found | ({"sys.platform"} if "platform" in names and "sys.platform" in text else set())


def test_they_are_made_in_one_package() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not path.is_relative_to(ALLOWED_IN) and (names := _only_linux(path))
    }
    assert found == {}
