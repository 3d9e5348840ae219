"""The bench of groups sends valid requests of the APIs, and its table shows ratios."""

from io import StringIO

from rich.console import Console

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.bench.groups.__main__ import BENCH
from tests.bench.groups.life import FIGURES
from tests.bench.groups.wire import commit_body
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK


def test_a_commit_is_one() -> None:
    request = codec.decode_request(ApiKey.OFFSET_COMMIT, 7, commit_body("g", "t", range(3), 9))
    [named] = request.topics
    assert (request.group_id, request.member_id, named.name) == ("g", "", "t")
    assert [(each.partition_index, each.committed_offset) for each in named.partitions] == [(0, 9), (1, 9), (2, 9)]


def test_the_table_has_ratios_of_the_pairs() -> None:
    samples = {"one_per_s": {APACHE_KAFKA: [1000.0, 2000.0], KAFKA_ZK: [2000.0, 2000.0]}}
    console = Console(width=160, record=True, file=StringIO())
    console.print(BENCH.table(samples, 2, 0.5))
    text = console.export_text()
    assert "1.50 (1.00–2.00)" in text and "≥ 1.2" in text and "0.5 of all" in text
    assert FIGURES["heartbeat_cpu"].name not in text
