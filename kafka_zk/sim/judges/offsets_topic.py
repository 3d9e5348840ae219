"""One group's records in ``__consumer_offsets``, read as any client does."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import GroupKey, OffsetKey, decode_group_value, decode_key, decode_offset_value
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.protocol.consumer_protocol import read_assignment
from kafka_zk.sim.world.history import Assigned, Kept


class OffsetsTopic(NamedTuple):
    """All of the group's records, in log order. Compaction removes nothing during a run."""

    commits: list[Kept]
    generations: list[Assigned]


async def read_offsets_topic(reader: Reader, partition_count: int, group_id: str) -> OffsetsTopic:
    """Closes the reader."""
    tps = [TopicPartition(OFFSETS_TOPIC, number) for number in range(partition_count)]
    ends = await reader.end_offsets(tps)
    reader.assign({tp: 0 for tp in tps})
    found = OffsetsTopic([], [])
    async for records in reader.batches(ends):
        for record in records:
            assert record.key is not None
            _add(found, group_id, record.key, record.value)
    await reader.close()
    return found


def _add(found: OffsetsTopic, group_id: str, raw_key: bytes, value: bytes | None) -> None:
    key = decode_key(raw_key)
    if isinstance(key, OffsetKey) and key.group_id == group_id:
        found.commits.append(Kept(key.tp, decode_offset_value(value).offset if value is not None else -1))
    if isinstance(key, GroupKey) and key.group_id == group_id and value is not None:
        group = decode_group_value(value)
        given = {each.member_id: tuple(read_assignment(each.assignment)) for each in group.members if each.assignment}
        if given:
            found.generations.append(Assigned(group.generation_id, given))
