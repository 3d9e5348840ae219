"""Compares ZooKeeper with the brokers' responses: does each broker lead the partitions that it should?

A registered broker that knows a controller may not have received its topics yet.
"""

from collections.abc import Collection, Mapping

from kafka_zk.base.integers import INT32
from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.probe import ask_leaders, ask_unserved
from kafka_zk.protocol.topic_names import is_legal_name
from kafka_zk.registry.client.errors import InvalidZnode, NoAuth, RegistryError
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import Found, readable
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH, decode_epoch
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

SESSION_TIMEOUT_MS = 6_000


class LeadershipCheck:
    """``properties``: a broker's properties, for the login to ZooKeeper. ``login``: for connections to brokers.

    Raises: RegistryError if ZooKeeper cannot be reached.
    """

    def __init__(
        self, zookeeper_connect: str, properties: Mapping[str, str], login: ClientSecurity = NO_SECURITY
    ) -> None:
        self._login = login
        self._client = KazooBlockingClient(
            zookeeper_connect, SESSION_TIMEOUT_MS, security=zookeeper_security(properties)
        )
        self._client.start()

    def close(self) -> None:
        self._client.close()

    def missing(self, ports: Mapping[int, int]) -> set[TopicPartition] | None:
        """Partitions that these brokers should lead but do not serve, or that some broker does not know; None if a
        broker or ZooKeeper does not respond. ``ports``: local ports of the brokers by id.
        """
        try:
            expected, _ = run_blocking(leadable(self._client, ports.keys()))
        except RegistryError:
            return None
        missing: set[TopicPartition] = set()
        leaders: dict[TopicPartition, int] = {}
        for port in ports.values() if expected else ():
            told = ask_leaders(LOCALHOST, port, self._login)
            if told is None:
                return None
            missing |= expected - told.keys()
            leaders |= told
        for broker_id, port in ports.items():
            led = [tp for tp in expected - missing if leaders[tp] == broker_id]
            unserved = ask_unserved(LOCALHOST, port, led, self._login) if led else set()
            if unserved is None:
                return None
            missing |= unserved
        return missing

    def leaderless(self, broker_ids: Collection[int]) -> dict[TopicPartition, list[int]]:
        """Partitions that none of these brokers can lead, with the brokers of their replicas.

        Raises: RegistryError.
        """
        _, others = run_blocking(leadable(self._client, broker_ids))
        return others


async def leadable(
    client: KazooBlockingClient, broker_ids: Collection[int]
) -> tuple[set[TopicPartition], dict[TopicPartition, list[int]]]:
    """Partitions that one of these brokers can lead (a replica in the ISR, or any replica before the first leader), and
    the other partitions with their replicas.

    Topics with invalid znodes, and those being deleted, are in neither.
    Raises: RegistryError; InvalidZnode while no controller can be elected.
    """
    topics = TopicRegistry(client)
    epoch = decode_epoch((await client.get(CONTROLLER_EPOCH))[0])
    deleting = set(await topics.deletions())
    names = [name for name in await topics.names() if is_legal_name(name) and name not in deleting]
    replicas: dict[TopicPartition, list[int]] = {}
    for name, answer in zip(names, await readable(client.get(znodes.topic_path(n)) for n in names), strict=True):
        try:
            assignment = znodes.decode_assignment(name, _data(answer))
        except InvalidZnode:
            continue
        replicas.update({TopicPartition(name, number): ids for number, ids in assignment.partitions.items()})
    answers = await readable(client.get(znodes.state_path(*tp)) for tp in replicas)
    can_lead = {
        tp
        for (tp, ids), answer in zip(replicas.items(), answers, strict=True)
        if not _candidates(tp, ids, _data(answer), epoch).isdisjoint(broker_ids)
        or (answer is None and not set(ids).isdisjoint(broker_ids))
    }
    return can_lead, {tp: ids for tp, ids in replicas.items() if tp not in can_lead}


def _data(answer: Found | NoAuth | None) -> bytes | None:
    """The data of a znode; None also if an ACL hides the data."""
    return None if answer is None or isinstance(answer, NoAuth) else answer[0]


def _candidates(tp: TopicPartition, replicas: list[int], state_data: bytes | None, epoch: int) -> set[int]:
    """Replicas that can lead the partition; none if a controller of this epoch cannot change the state."""
    try:
        state = znodes.decode_state(*tp, state_data)
    except InvalidZnode:
        return set()
    is_final = state.controller_epoch > epoch or state.leader_epoch + 1 not in INT32
    return set() if is_final else set(state.isr) & set(replicas)
