"""The znodes of a large cluster, and their changes after a broker's death, in the form of a ZooKeeper's log."""

import json
from collections.abc import Iterator

from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Operation,
    SessionClosed,
    SessionCreated,
    Transaction,
)

BEGIN_MS = 1_700_000_000_000
REPLICAS = 3
VICTIM = 17
GROUPS, MEMBERS = 3, 12
_CONTROLLER_SESSION = 1_000
_BROKER = {"version": 5, "host": "127.0.0.1", "timestamp": "1", "jmx_port": -1, "features": {},
           "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"}}  # fmt: skip


def large_cluster(brokers: int, topics: int, partitions: int) -> Iterator[Transaction]:
    """Topics with ``partitions`` each, and groups of many members. At the end, the broker VICTIM dies, and other
    brokers take over its partitions, except one that no other broker can lead.
    """
    zxid = 0
    made: set[str] = set()

    def one(session: int, *operations: Operation) -> Transaction:
        nonlocal zxid
        zxid += 1
        above = (each for operation in operations if isinstance(operation, Created) for each in _above(operation.path))
        missing = [each for each in dict.fromkeys(above) if each not in made]
        made.update(missing, (each.path for each in operations if isinstance(each, Created)))
        parents = (Created(each, None, ephemeral=False) for each in missing)
        return Transaction(zxid, BEGIN_MS + zxid, session, (*parents, *operations))

    def all_partitions() -> Iterator[tuple[str, int, list[int]]]:
        for topic in range(topics):
            for partition in range(partitions):
                yield f"topic-{topic:02}", partition, [(topic + partition + each) % brokers for each in range(REPLICAS)]

    for broker in range(brokers):
        yield one(_CONTROLLER_SESSION + broker, SessionCreated(6_000))
        data = {**_BROKER, "port": 9092 + broker, "endpoints": [f"PLAINTEXT://127.0.0.1:{9092 + broker}"]}
        yield one(_CONTROLLER_SESSION + broker, Created(f"/brokers/ids/{broker}", _json(data), ephemeral=True))
    controller = {"version": 2, "brokerid": 0, "timestamp": "1", "kraftMetadataOffset": -1}
    yield one(_CONTROLLER_SESSION, Created("/controller", _json(controller), ephemeral=True))
    yield one(_CONTROLLER_SESSION, Created("/controller_epoch", b"1", ephemeral=False))
    replicas: dict[str, dict[str, list[int]]] = {}
    for topic, partition, ids in all_partitions():
        replicas.setdefault(topic, {})[str(partition)] = ids
    for topic, assigned in replicas.items():
        data = {"version": 3, "partitions": assigned, "adding_replicas": {}, "removing_replicas": {}}
        yield one(_CONTROLLER_SESSION, Created(f"/brokers/topics/{topic}", _json(data), ephemeral=False))
    for topic, partition, ids in all_partitions():
        yield one(_CONTROLLER_SESSION, Created(_state_path(topic, partition), _state(ids[0], 0, ids), ephemeral=False))
    for group in range(GROUPS):
        yield from (one(2_000 + 100 * group + each, *_joined(group, each, partitions)) for each in range(MEMBERS))
    zxid += 10_000  # ten quiet seconds
    yield one(_CONTROLLER_SESSION + VICTIM, SessionClosed((f"/brokers/ids/{VICTIM}",)))
    for topic, partition, ids in all_partitions():
        if VICTIM in ids:
            isr = [each for each in ids if each != VICTIM]
            nobody = (topic, partition) == ("topic-00", VICTIM)
            state = _state(-1 if nobody else isr[0], 1, [VICTIM] if nobody else isr)
            yield one(_CONTROLLER_SESSION, DataSet(_state_path(topic, partition), state, 1))
    zxid += 5_000
    yield one(_CONTROLLER_SESSION, DataSet("/controller_epoch", b"1", 1))


def _joined(group: int, member: int, partitions: int) -> Iterator[Operation]:
    """A member that owns its share of a topic."""
    name = f"group-{group}"
    me = f"{name}_host-{1_700_000_000_000 + member}-{member + 1:04x}0000"
    yield Created(f"/consumers/{name}/ids/{me}", b"{}", ephemeral=True)
    for partition in range(member, partitions, MEMBERS):
        yield Created(f"/consumers/{name}/owners/topic-{group:02}/{partition}", f"{me}-0".encode(), ephemeral=True)


def _above(path: str) -> Iterator[str]:
    """The znodes that must exist first."""
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(2, len(parts)))


def _state_path(topic: str, partition: int) -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def _state(leader: int, epoch: int, isr: list[int]) -> bytes:
    return _json({"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": epoch, "isr": isr})


def _json(data: object) -> bytes:
    return json.dumps(data).encode()
