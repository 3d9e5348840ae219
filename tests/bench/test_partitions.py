"""The tables of the bench with many partitions, from made-up lives."""

import io

from rich.console import Console
from rich.table import Table

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.bench.partition_life import FIGURES, Measured
from tests.bench.partition_wire import leaders_in
from tests.bench.partitions import curve_table, pairs_table, ratio_text
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK


def life(create_s: float, descriptors: float = 14.0) -> Measured:
    return dict.fromkeys(FIGURES, 1.0) | {"create_s": create_s, "created_descriptors": descriptors}


def rows(table: Table) -> dict[str, list[str]]:
    """The other cells of each row, by its first cell."""
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    cells = [[cell.strip() for cell in line.strip("│┃").split("│")] for line in text.splitlines() if "│" in line]
    return {first: others for first, *others in cells}


def test_a_ratio_is_of_pairs() -> None:
    """The table shows the median of the pairs' ratios, because a machine that was slow during one pair was slow for
    both brokers.
    """
    assert ratio_text([10, 100, 20], [1, 30, 4]) == "0.20 (0.10–0.30)"
    assert ratio_text([10], [5]) == "0.50"
    assert ratio_text([], [5]) == "–"


def test_pairs_are_compared_with_what_is_wanted() -> None:
    """The table also shows the medians of each broker."""
    kafka, ours = [life(20, 5140), life(30, 5140), life(90, 5140)], [life(2), life(6), life(9)]
    table = rows(pairs_table(5000, {APACHE_KAFKA: kafka, KAFKA_ZK: ours}))
    created = next(cells for name, cells in table.items() if name.startswith("creation, until"))
    assert created == ["30.00", "6.00", "0.10 (0.10–0.20)", "≤ 0.2"]
    assert table["descriptors after creation"][:2] == ["5,140.00", "14.00"]


def test_the_curve_is_by_count() -> None:
    """The counts are in ascending order, whatever the order of the runs."""
    lives = {count: {KAFKA_ZK: [life(count / 1000)]} for count in (5000, 1000)}
    table = rows(curve_table(KAFKA_ZK, lives))
    created = next(cells for name, cells in table.items() if name.startswith("creation, until"))
    assert created == ["1.00", "5.00"]


def test_leaders_are_read_from_the_bytes_of_an_answer() -> None:
    response = codec.response(ApiKey.METADATA)
    brokers = [
        response.MetadataResponseBroker(node_id=n, host="h" * n, port=9092, rack=None if n else "r") for n in (0, 3)
    ]
    partition = response.MetadataResponseTopic.MetadataResponsePartition
    partitions = [
        partition(error_code=0, partition_index=0, leader_id=3, replica_nodes=[3, 0], isr_nodes=[3]),
        partition(error_code=5, partition_index=1, leader_id=-1, replica_nodes=[3], isr_nodes=[]),
        partition(error_code=0, partition_index=2, leader_id=0, replica_nodes=[], isr_nodes=[0, 3]),
    ]
    topic = response.MetadataResponseTopic(error_code=0, name="topic", is_internal=False, partitions=partitions)
    answer = response(brokers=brokers, controller_id=3, topics=[topic])
    assert leaders_in(bytes(codec.encode_body(answer, ApiKey.METADATA, 1))) == {0: 3, 2: 0}
