"""Random histories of a ZooKeeper: transactions in the form of its log, with the znodes after each."""

from random import Random

from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    SessionClosed,
    SessionCreated,
    Transaction,
)

Znodes = dict[str, bytes | None]


def history(seed: int, length: int) -> list[tuple[Transaction, Znodes]]:
    """Each transaction with the znodes after it (path to data), according to a model that does not use trees."""
    random = Random(seed)
    znodes: Znodes = {}
    owners: dict[str, int] = {}
    versions: dict[str, int] = {}
    found = []
    sessions = [100]
    for zxid in range(1, length + 1):
        operations: list[Operation] = []
        session = random.choice(sessions)
        kind = random.random()
        if kind < 0.05:
            session = 100 + zxid
            sessions.append(session)
            operations.append(SessionCreated(6_000))
        elif kind < 0.1 and len(sessions) > 1:
            sessions.remove(session)
            gone = tuple(sorted(path for path, owner in owners.items() if owner == session))
            operations.append(SessionClosed(gone if random.random() < 0.5 else None))
            for path in gone:
                del znodes[path], owners[path], versions[path]
        else:
            for _ in range(random.choice((1, 1, 1, 3))):
                operations.append(_operation(random, session, znodes, owners, versions))
        found.append((Transaction(zxid, 1_000_000 + 10 * zxid, session, tuple(operations)), dict(znodes)))
    return found


def _operation(
    random: Random, session: int, znodes: Znodes, owners: dict[str, int], versions: dict[str, int]
) -> Operation:
    free = [path for path in (f"/z{number}" for number in range(40)) if path not in znodes]
    kind = random.random()
    if free and (kind < 0.4 or not znodes):
        path = random.choice(free)
        ephemeral = random.random() < 0.5
        data = random.choice((None, b"", random.randbytes(5)))
        znodes[path], versions[path] = data, 0
        if ephemeral:
            owners[path] = session
        return Created(path, data, ephemeral)
    path = random.choice(sorted(znodes))
    if kind < 0.8:
        versions[path] += 1
        znodes[path] = random.randbytes(4)
        return DataSet(path, znodes[path], versions[path])
    del znodes[path], versions[path]
    owners.pop(path, None)
    return Deleted(path)
