"""Old rules: the product without one of its safeguards. Scenarios run with and without such a rule.

Such rules broke clusters of Kafka or of other systems that stored state in ZooKeeper, or are counter-examples of papers
and issues; a scenario says which. A rule is patched into the product for one run.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.turns import run_in_turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.deletions import Deletions
from kafka_zk.broker.controller.store import ControllerStore
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.producer.transaction_state import TransactionState
from kafka_zk.rebalance import inputs
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.rebalance.lease import Lease
from kafka_zk.registry.client.client import Delete, RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, MultiFailed, SessionLost
from kafka_zk.registry.client.watches import Rereader
from kafka_zk.registry.consumers import MemberWatch
from kafka_zk.registry.offsets import Commit, OffsetRefused, OffsetRegistry
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.topics import TopicAssignment, decode_assignment_in_steps
from kafka_zk.sim.scenarios import old_replication_rules as replication
from kafka_zk.sim.scenarios.old_replication_rules import Patch

_RETRY_S = 0.001


class OldRule(NamedTuple):
    """``says``: the rule in one sentence."""

    says: str
    put_in_place: Callable[[Patch], None]


def every_controller_is_obeyed(patch: Patch) -> None:
    """A broker obeys every controller, even one that has been replaced."""
    patch.setattr(ReplicaManager, "accept_controller", lambda self, epoch: True)


def no_lease(patch: Patch) -> None:
    """A member delivers and commits until it learns that its session has ended."""
    patch.setattr(Lease, "may_act", lambda self: True)
    patch.setattr(Lease, "may_write", lambda self: not self.in_doubt)


def no_token(patch: Patch) -> None:
    """A commit is a plain write, which is repeated until it succeeds, even in a later session. There is no lease."""

    async def commit(self: OffsetRegistry, commits: Mapping[TopicPartition, Commit]) -> Mapping[TopicPartition, int]:
        await _until_connected(self._client, lambda: self.store({tp: each.offset for tp, each in commits.items()}))
        return {tp: commit.token for tp, commit in commits.items()}

    patch.setattr(OffsetRegistry, "commit", commit)
    no_lease(patch)


def no_reread_on_reconnect(patch: Patch) -> None:
    """After a reconnect, nothing is read again and no watch is set again."""
    patch.setattr(Rereader, "_session_changed", lambda self, state: None)


def release_by_version(patch: Patch) -> None:
    """In a new session, a member deletes the owner znodes of its former partitions if their version is 0, as always."""
    take, end_session = GroupDriver._take, GroupDriver._end_session
    lost: WeakKeyDictionary[GroupDriver, frozenset[TopicPartition]] = WeakKeyDictionary()

    async def release(driver: GroupDriver, tp: TopicPartition) -> None:
        owner = Delete(znodes.owner_path(driver.group, *tp), 0)
        await _until_connected(driver._client, lambda: driver._client.multi([owner]))

    def taken(self: GroupDriver, event: inputs.Input) -> None:
        if isinstance(event, inputs.OwnershipLost):
            lost[self] = lost.get(self, frozenset()) | event.partitions
        take(self, event)

    def ended(self: GroupDriver) -> None:
        owned = sorted(lost.pop(self, frozenset()) | self.owned.keys())
        end_session(self)
        for tp in owned:
            ensureDeferred(release(self, tp))

    patch.setattr(GroupDriver, "_take", taken)
    patch.setattr(GroupDriver, "_end_session", ended)


def commits_at_the_cached_version(patch: Patch) -> None:
    """A commit names the version cached from the last response, and is skipped if the znode has another version."""
    look_up = OffsetRegistry._look_up

    async def skip(
        self: OffsetRegistry,
        doubtful: list[TopicPartition],
        commits: Mapping[TopicPartition, Commit],
        write_at: dict[TopicPartition, int | None],
        settled: dict[TopicPartition, int | OffsetRefused],
    ) -> None:
        missing: dict[TopicPartition, int | OffsetRefused] = {}
        await look_up(self, doubtful, commits, write_at, missing)
        for tp in doubtful:
            if write_at.get(tp) is not None or tp in missing:
                write_at.pop(tp, None)
                settled[tp] = commits[tp].token

    patch.setattr(OffsetRegistry, "_look_up", skip)


def deletions_end_with_their_controller(patch: Patch) -> None:
    """A new controller does not look for deletions that were requested before it was elected."""

    known_orders = Deletions._known_orders
    of_another: WeakKeyDictionary[Deletions, set[str]] = WeakKeyDictionary()

    async def load(self: Deletions) -> None:
        of_another[self] = set(await known_orders(self))

    async def new_orders(self: Deletions) -> list[str]:
        return [topic for topic in await known_orders(self) if topic not in of_another.get(self, ())]

    patch.setattr(Deletions, "load", load)
    patch.setattr(Deletions, "_known_orders", new_orders)


def one_bad_znode_fails_all(patch: Patch) -> None:
    """If a znode of one topic cannot be parsed, the whole event fails, even for other topics."""

    def strict(self: ControllerStore, path: str, decode: Callable[[], Any]) -> Any:
        return decode()

    async def strict_assignment(self: ControllerStore, topic: str, path: str, data: bytes | None) -> TopicAssignment:
        assignment: TopicAssignment = await run_in_turns(self._clock, decode_assignment_in_steps(topic, data))
        return assignment

    patch.setattr(ControllerStore, "_understood", strict)
    patch.setattr(ControllerStore, "_assignment", strict_assignment)


def a_found_start_always_counts(patch: Patch) -> None:
    """A partition's start position is used when it is found, whatever was committed meanwhile."""
    found = GroupDelivery._start_found

    def start_found(self: GroupDelivery, tp: TopicPartition, offset: int) -> None:
        claim = self._claims.get(tp)
        if claim is not None:
            claim.committed = None
        found(self, tp, offset)

    patch.setattr(GroupDelivery, "_start_found", start_found)


def every_member_reads_all(patch: Patch) -> None:
    """At each change of the group, every member reads the registrations of all members."""
    patch.setattr(MemberWatch, "_missed_a_change", lambda self, stat, names: True)


def one_epoch_for_all_transactions(patch: Patch) -> None:
    """A producer whose request got no answer repeats it and keeps its epoch, as Kafka's producers up to 3.9 do."""
    patch.setattr(TransactionState, "answer_lost", lambda self: None)


OLD_RULES: dict[str, OldRule] = {
    rule.__name__: OldRule((rule.__doc__ or "").strip(), rule)
    for rule in (
        every_controller_is_obeyed,
        no_lease,
        no_token,
        no_reread_on_reconnect,
        release_by_version,
        commits_at_the_cached_version,
        deletions_end_with_their_controller,
        one_bad_znode_fails_all,
        a_found_start_always_counts,
        every_member_reads_all,
        one_epoch_for_all_transactions,
        replication.no_min_insync_replicas,
        replication.whoever_lives_is_elected,
        replication.truncation_to_the_high_watermark,
        replication.the_end_of_an_epoch_is_enough,
        replication.any_server_will_do,
    )
}


async def _until_connected(client: RegistryClient, work: Callable[[], Awaitable[object]]) -> None:
    """Retries across sessions, like ZkClient's retryUntilConnected."""
    while True:
        try:
            await client.connected()
            await work()
            return
        except (ConnectionLoss, SessionLost):
            later: Deferred[None] = Deferred()
            client.call_later(_RETRY_S, partial(later.callback, None))
            await later
        except MultiFailed:
            return


@contextmanager
def in_place(name: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if name is not None:
            OLD_RULES[name].put_in_place(_Patches(stack))
        yield


class _Patches:
    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def setattr(self, owner: Any, name: str, value: Any, /) -> None:
        self._stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)
