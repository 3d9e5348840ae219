"""Runs of authorization in the simulated world: whole brokers with Kafka's AclAuthorizer, ACLs that change all the
time, and faults; the judge compares each decision with what ZooKeeper has.

ACLs are changed by an administrator's tool, through brokers, and in the way of Kafka's broker, which makes a change
before it announces it. Announcements are purged at any moment. ``play_acls(seed)`` runs all of it. With odd seeds,
``allow.everyone.if.no.acl.found`` is true, so that unknown ACLs would allow everything. Tests:
tests/sim/authorization/test_acls.py.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import ensureDeferred
from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.internet.error import ConnectionLost as Lost

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER
from kafka_zk.broker.security import acl_authorizer
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.authorizer import Operation, Resource
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.network.client import KafkaConnection, RequestTimedOut
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.client import Operation as ZnodeOperation
from kafka_zk.registry.client.client import SessionState, WatchedEvent
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.registry.znodes import acl_change
from kafka_zk.security.acl import CLUSTER_NAME, Acl, Acls, Pattern, PatternType, Permission, ResourceType
from kafka_zk.sim.campaign.faults import KINDS
from kafka_zk.sim.campaign.plan import Fault, FaultsInForce, drawn
from kafka_zk.sim.campaign.run import LIVENESS_MS, PATIENCE_MS, Outcome
from kafka_zk.sim.campaign.targets import Targets
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.clients import make_admin
from kafka_zk.sim.world.world import PORT
from kafka_zk.sim.zookeeper.znode_tree import Result, ZnodeTree
from tests.sim.authorization.acl_judge import AclJudge, Question

BROKERS = ("broker-1", "broker-2")
ACL_FAULTS = (
    "kill", "pause", "stop", "expire", "expire", "disconnect", "disconnect", "lose-request", "lose-request",
    "cut-zookeeper", "cut-zookeeper", "stop-zookeeper", "clock",
)  # fmt: skip
FAULTS_S = 12
SAMPLE_MS = 50
BUSY_MS, REST_MS = 600, 1_900
"""ACLs change continuously for BUSY_MS, and then rest for REST_MS."""
QUESTIONS = 5
"""Number of questions to each broker at each sample."""
CLIENT = "client-1"
SUPER_USER = "User:root"
ANONYMOUS = "User:ANONYMOUS"
PRINCIPALS = ("User:alice", "User:bob", ANONYMOUS)
HOSTS = ("10.0.0.1", CLIENT)
TOPICS = ("t", "pre-t", "pre-u", "u")
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
PATTERNS = tuple(
    [Pattern(ResourceType.TOPIC, name, PatternType.LITERAL) for name in ("t", "pre-t", "*")]
    + [Pattern(ResourceType.TOPIC, name, PatternType.PREFIXED) for name in ("pre-", "p")]
)
CLUSTER = Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
UNINTELLIGIBLE = (
    b"{",
    b"[]",
    b'{"version":2,"acls":[]}',
    b'{"version":1,"acls":[{"principal":"User:bob","host":"*","operation":"Fly","permissionType":"Deny"}]}',
)
_MetadataTopic = codec.request(ApiKey.METADATA).MetadataRequestTopic
_AclCreation = codec.request(ApiKey.CREATE_ACLS).AclCreation
NOT_ANSWERED = (ApiError, ConnectError, ConnectionClosed, Lost, KafkaError, RequestTimedOut)


class JudgedTree(ZnodeTree):
    """A tree that calls ``written`` with the path of each write."""

    def __init__(self, written: Callable[[str], None]) -> None:
        super().__init__()
        self._written = written

    def apply(self, operation: ZnodeOperation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        done = super().apply(operation, session_id, now_ms)
        self._written(operation.path)
        return done

    def apply_multi(
        self, operations: Sequence[ZnodeOperation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchedEvent]]:
        done = super().apply_multi(operations, session_id, now_ms)
        for operation in operations:
            self._written(operation.path)
        return done


class AclPlay(Targets):
    """The state of a run; faults act on it as on a ``campaign.Run``."""

    def __init__(self, seed: int, plan: Sequence[Fault] | None, kinds: Iterable[str]) -> None:
        super().__init__(seed)
        self.if_none = bool(seed % 2)
        self.judge = AclJudge(SUPER_USER, if_none=self.if_none)
        self.authorizers: dict[str, AclAuthorizer] = {}
        self.listed = 0  # number of topics in metadata responses
        self._chosen = Random(f"{seed} acls")
        self._listing = Random(f"{seed} listing")
        self._in_force = FaultsInForce()
        self._closing = False
        drawing = Random(f"{seed} acl plan")
        self.plan = drawn(drawing, BROKERS, (), (), FAULTS_S * 1000, tuple(kinds)) if plan is None else sorted(plan)
        zookeeper = self.world.zookeeper
        zookeeper.tree = JudgedTree(self._written)
        zookeeper.delay_ms = (0.1, Random(f"{seed} delay").choice((2, 40)))

    def _join(self, name: str) -> None:
        """Do nothing, because there are no members."""

    def _consumed(self) -> list[TopicPartition]:
        return []

    def hosts(self) -> list[str]:
        return [*BROKERS, CLIENT]

    # -- phases ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        world = self.world
        self._tool = world.zookeeper.client("tool", session_timeout_ms=600_000)
        self._acls = AclRegistry(self._tool)
        world.run(self._acls.ensure_paths())
        everything = Acl(ANONYMOUS, "*", Operation.ALL, Permission.ALLOW)
        world.run(self._acls.update(CLUSTER, lambda present: present | {everything}))
        for number in range(1, len(BROKERS) + 1):
            world.broker(
                number,
                authorizer_class_name=ACL_AUTHORIZER,
                super_users=SUPER_USER,
                allow_everyone_if_no_acl_found=str(self.if_none).lower(),
            )
        for _ in range(3):
            world.run(self._change())
        self._sample()
        world.start_all()
        admin = make_admin(world, world.process("admin"))
        for topic in TOPICS:
            world.run(admin.create_topic(topic, 1, 1, {}))
        clock = world.scheduler.clock
        for fault in self.plan:
            clock.callLater(fault.at_ms / 1000, self._do, fault)
        self._process = world.process(CLIENT)
        for name in BROKERS:
            self._go_on(self._ask(name))
        for act in (self._administer, self._administer, self._purge_now_and_then):
            self._go_on(act())
        self._supervise()

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        ensureDeferred(work).addErrback(self.world.failed)

    def _do(self, fault: Fault) -> None:
        if not self._peaceful:
            self.note(str(fault))
            self._in_force.begin(self.world.scheduler.clock, fault, KINDS[fault.kind](self, fault.target))

    def _supervise(self) -> None:
        for broker in self.world.brokers.values():
            if broker.has_given_up or (self._peaceful and not self._closing and not broker.is_alive):
                self.note(f"start {broker.name}")
                broker.start()
        self.world.scheduler.clock.callLater(1.5, self._supervise)

    def settle(self) -> None:
        """Undo every fault. Raises Stuck if a broker does not know the ACLs after LIVENESS_MS."""
        self._peaceful = True
        self._in_force.end_all()
        self.world.network.heal()
        self.note("peace")
        self.world.until(lambda: all(map(self._is_ready, BROKERS)), LIVENESS_MS)
        self.world.run_for(3 * PATIENCE_MS)

    def _is_ready(self, name: str) -> bool:
        return self.broker(name).is_started and self.authorizers[name].is_loaded

    # -- changes --------------------------------------------------------------------------------------------------

    async def _administer(self) -> None:
        """Make one change after the other, until peace begins. Between them are times of rest: otherwise, the next
        change of a pattern would hide that a broker missed the last one.
        """
        acts = [
            self._change, self._change, self._change_as_kafka, self._spoil, self._misannounce, self._miss,
            self._break_off,
        ]  # fmt: skip
        while not self._peaceful:
            await sleep(self._process, self._chosen.choice((0, 0.01, 0.05, 0.2)))
            if self._rests:
                continue
            try:
                await self._chosen.choice(acts)()
            except RegistryError as error:
                self.note(f"the tool: {type(error).__name__}")
                await sleep(self._process, 0.2)

    @property
    def _rests(self) -> bool:
        return self.world.now_ms % (BUSY_MS + REST_MS) > BUSY_MS

    async def _change(self) -> None:
        pattern, acl = self._chosen.choice(PATTERNS), self._some_acl()
        what = self._chosen.choice(("add", "add", "remove", "only", "none"))
        self.note(f"{what} {acl} on {pattern}")

        def changed(present: Acls) -> Acls:
            return {"add": present | {acl}, "remove": frozenset(sorted(present)[1:]), "only": frozenset([acl])}.get(
                what, frozenset()
            )

        await self._acls.update(pattern, changed, replace=True)

    def _some_acl(self) -> Acl:
        choice = self._chosen.choice
        permission = choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY))
        operation = choice((*OPERATIONS, Operation.ALL, Operation.DELETE))
        return Acl(choice((*PRINCIPALS, "User:*")), choice((*HOSTS, "*", "*")), operation, permission)

    async def _change_as_kafka(self) -> None:
        """Write the ACLs, and announce them a little later."""
        pattern, acl = self._chosen.choice(PATTERNS), self._some_acl()
        self.note(f"{acl} is all that {pattern} has")
        await self._write(pattern, znodes.encode([acl]))

    async def _spoil(self) -> None:
        if self._chosen.random() < 0.5:
            pattern, data = self._chosen.choice(PATTERNS), self._chosen.choice(UNINTELLIGIBLE)
            self.note(f"{pattern} becomes {data.decode()}")
            await self._write(pattern, data)

    async def _write(self, pattern: Pattern, data: bytes) -> None:
        await retry_until_connected(self._tool, lambda: self._put(znodes.pattern_path(pattern), data))
        await sleep(self._process, self._chosen.choice((0, 0.01, 0.1)))
        await self._announce(pattern.pattern_type, acl_change.encode(pattern))

    async def _put(self, path: str, data: bytes) -> None:
        if await self._tool.exists(path) is None:
            await self._tool.create(path, data)
        else:
            await self._tool.set(path, data)

    async def _announce(self, pattern_type: PatternType, data: bytes) -> None:
        """Announce a change, with retries after lost connections: brokers cannot notice an unannounced change."""
        path = f"{acl_change.PARENTS[pattern_type]}/{acl_change.PREFIX}"
        await retry_until_connected(self._tool, lambda: self._tool.create(path, data, sequential=True))

    async def _misannounce(self) -> None:
        """Make a change whose announcement cannot be parsed."""
        pattern, acl = self._chosen.choice(PATTERNS), self._some_acl()
        path = znodes.pattern_path(pattern)
        if await self._tool.exists(path) is not None:
            self.note(f"{acl} is all that {pattern} has, and nobody can read that it changed")
            await retry_until_connected(self._tool, lambda: self._tool.set(path, znodes.encode([acl])))
            await self._announce(pattern.pattern_type, self._chosen.choice((b"", b"?", b"{}")))

    async def _miss(self) -> None:
        """Cut a broker off while ACLs change, and delete the announcements before it is back."""
        name = self._chosen.choice(BROKERS)
        client = self.client_of(name)
        if client is None or self._chosen.random() < 0.5:
            return
        ends = self._chosen.random() < 0.5
        self.note(f"{name} misses a change{' and its session ends' if ends else ''}")
        client.cut()
        if ends:
            self.world.zookeeper.expire(client)
        try:
            await self._change()
            await self._acls.purge_changes(2**60)
            await sleep(self._process, self._chosen.choice((0, 0.5)))
        finally:
            client.heal()

    async def _break_off(self) -> None:
        """Break a broker's connection while it is being notified of a change."""
        await self._change()
        _, slowest_ms = self.world.zookeeper.delay_ms
        await sleep(self._process, self._chosen.uniform(0, 4 * slowest_ms / 1000))
        name = self._chosen.choice(BROKERS)
        client = self.client_of(name)
        if client is not None:
            self.note(f"the connection of {name} breaks")
            client.disconnect()

    async def _purge_now_and_then(self) -> None:
        """Delete announcements, like a broker whose clock is far ahead. Deletions also fire watches, so they pause when
        ACLs rest.
        """
        while not self._peaceful:
            await sleep(self._process, self._chosen.choice((0.003, 0.1, 0.5)))
            if self._rests:
                continue
            try:
                await self._acls.purge_changes(2**60)
            except RegistryError:
                await sleep(self._process, 0.2)

    # -- questions and judgements ---------------------------------------------------------------------------------

    def started(self, authorizer: AclAuthorizer, name: str) -> None:
        self.authorizers[name] = authorizer
        self.judge.started(self.world.now_ms, name)

    def _written(self, path: str) -> None:
        tree = self.world.zookeeper.tree
        is_there = tree.exists(path) is not None
        self.judge.written(self.world.now_ms, path, tree.get(path)[0] if is_there else None, is_there=is_there)

    def _sample(self) -> None:
        for name in self.authorizers:
            broker = self.broker(name)
            runs = broker.process is not None and broker.is_alive and not broker.process.is_paused
            self.judge.sampled(self.world.now_ms, name, is_answered=runs and self._is_answered(name))
            if runs:
                self._put_questions(self.authorizers[name])
        if not self._closing:
            self.world.scheduler.clock.callLater(SAMPLE_MS / 1000, self._sample)

    def _is_answered(self, name: str) -> bool:
        client = self.client_of(name)
        return client is not None and client.state is SessionState.CONNECTED and not client.is_cut_silently

    def _put_questions(self, authorizer: AclAuthorizer) -> None:
        choice = self._chosen.choice
        for _ in range(QUESTIONS):
            context = RequestContext("PLAINTEXT", "PLAINTEXT", choice(PRINCIPALS), choice(HOSTS), 1, "asks")
            authorizer.authorize(context, choice(OPERATIONS), Resource("Topic", choice(TOPICS)))
        root = RequestContext("PLAINTEXT", "PLAINTEXT", SUPER_USER, HOSTS[0], 1, "asks")
        authorizer.authorize(root, Operation.READ, Resource("Topic", choice(TOPICS)))
        client = self._listing.choice(PRINCIPALS), self._listing.choice(HOSTS)
        authorizer.visible_topics(RequestContext("PLAINTEXT", "PLAINTEXT", *client, 1, "lists"), TOPICS)

    async def _ask(self, name: str) -> None:
        """Over the network, ask which topics the client may describe, and change ACLs through the broker."""
        connect = self.world.connect_from(self._process)
        while not self._closing:
            try:
                connection = await connect(self._process, name, PORT, CLIENT, 1.0, request_timeout_s=3.0)
                try:
                    await self._talk(connection, name)
                finally:
                    connection.disconnect()
            except NOT_ANSWERED:
                await sleep(self._process, 0.5)

    async def _talk(self, connection: KafkaConnection, name: str) -> None:
        while not self._closing:
            await self._describe(connection, name)
            await self._list(connection, name)
            if self._chosen.random() < 0.05:
                await self._add(connection)
            await sleep(self._process, self._chosen.choice((0.1, 0.5)))

    async def _describe(self, connection: KafkaConnection, name: str) -> None:
        floor_ms = self.judge.floor(name)
        answer = await connection.request(
            ApiKey.METADATA, topics=[_MetadataTopic(name=each) for each in TOPICS], allow_auto_topic_creation=False
        )
        for each in answer.topics:
            question = Question(ANONYMOUS, CLIENT, "Describe", "Topic", each.name)
            allowed = each.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self.judge.answered(floor_ms, self.world.now_ms, name, question, allowed=allowed)

    async def _list(self, connection: KafkaConnection, name: str) -> None:
        """Check that every topic in the response is allowed. The broker may not know a missing topic yet."""
        floor_ms = self.judge.floor(name)
        answer = await connection.request(ApiKey.METADATA, topics=None, allow_auto_topic_creation=False)
        for each in answer.topics:
            question = Question(ANONYMOUS, CLIENT, "Describe", "Topic", each.name)
            self.judge.answered(floor_ms, self.world.now_ms, name, question, allowed=True)
        self.listed += len(answer.topics)

    async def _add(self, connection: KafkaConnection) -> None:
        pattern, acl = self._chosen.choice(PATTERNS), self._some_acl()
        self.note(f"add {acl} on {pattern} through a broker")
        await connection.request(ApiKey.CREATE_ACLS, creations=[_AclCreation(
            resource_type=pattern.resource_type, resource_name=pattern.name,
            resource_pattern_type=pattern.pattern_type, principal=acl.principal, host=acl.host,
            operation=acl.operation, permission_type=acl.permission,
        )])  # fmt: skip

    def close(self) -> None:
        self._closing = True
        self.world.run_for(PATIENCE_MS)


def _judged(play: AclPlay) -> type[AclAuthorizer]:
    """An AclAuthorizer that passes its decisions to the judge."""

    class Judged(AclAuthorizer):
        def __init__(self, client: Any, *more: Any) -> None:
            super().__init__(client, *more)
            self._name = client.name
            play.started(self, client.name)

        def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
            return self._heard(context, operation, resource, super().authorize(context, operation, resource))

        def may(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
            return self._heard(context, operation, resource, super().may(context, operation, resource))

        def visible_topics(self, context: RequestContext, names: Sequence[str]) -> list[str]:
            visible = list(super().visible_topics(context, names))
            for name in names:
                self._heard(context, Operation.DESCRIBE, Resource("Topic", name), name in visible)
            return visible

        def _heard(self, context: RequestContext, operation: Operation, resource: Resource, allowed: bool) -> bool:
            question = Question(context.principal, context.peer_host, operation.label, *resource)
            now_ms = play.world.now_ms
            play.judge.decided(now_ms, self._name, question, allowed=allowed, is_loaded=self.is_loaded)
            return allowed

    return Judged


def play_acls(seed: int, plan: Sequence[Fault] | None = None, kinds: Iterable[str] = ACL_FAULTS) -> Outcome:
    """Play one run. ``plan``: faults instead of those that the seed draws from ``kinds``."""
    play = AclPlay(seed, plan, kinds)
    outcome = Outcome(seed, play.plan, history=play.history)
    with play.world as world, patch.object(acl_authorizer, "AclAuthorizer", _judged(play)):
        try:
            play.begin()
            world.run_for(FAULTS_S * 1000)
            play.settle()
            play.close()
        except Stuck as error:
            outcome.violations.append(f"{type(error).__name__}: a broker does not know the ACLs: {error}")
        outcome.simulated_ms = world.now_ms
    judge = play.judge
    play.note(
        f"{judge.decisions} decisions, {judge.allowed} of them yes, {judge.of_several} of no single moment;"
        f" {play.listed} topics listed"
    )
    outcome.violations += judge.broken
    outcome.violations += [f"unexpected: {failure}" for failure in world.failures]
    return outcome
