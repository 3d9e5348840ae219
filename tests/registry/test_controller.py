"""There is one controller, and an old one writes nothing (KAFKA-6082, KAFKA-4229)."""

from collections.abc import Coroutine
from typing import Any

import pytest

from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import Check, Create, Delete, SessionState, SetData
from kafka_zk.registry.client.errors import (
    BadVersion,
    ConnectionLoss,
    ControllerMoved,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    RegistryError,
    SessionLost,
)
from kafka_zk.registry.client.multis import BATCH_SIZE_BYTES
from kafka_zk.registry.controller import ControllerRegistry, Elected, Lost
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH, decode_epoch
from kafka_zk.sim.zookeeper.client import SimClient
from tests.registry.world import World, broker_info


@pytest.fixture
def world() -> World:
    return World()


def controllers(world: World) -> list[ControllerRegistry]:
    return [ControllerRegistry(client) for client in world.clients]


def test_the_first_epoch_is_1_at_version_1(world: World) -> None:
    """As with Kafka 2.1+, the znode is created with 0, then set."""
    first, second = controllers(world)
    assert world.scheduler.run(first.elect(0)) == Elected(1, 1)
    assert world.scheduler.run(second.elect(1)) == Lost(0)
    assert world.scheduler.run(second.current()) == 0


def test_the_next_one_gets_the_next_epoch(world: World) -> None:
    first, second = controllers(world)
    elected = world.scheduler.run(first.elect(0))
    assert isinstance(elected, Elected)
    world.scheduler.run(first.resign(elected.epoch_zk_version))
    assert world.scheduler.run(first.current()) is None
    assert world.scheduler.run(second.elect(1)) == Elected(2, 2)


@pytest.mark.parametrize("lost_request", range(5))
@pytest.mark.parametrize("applied", [True, False])
def test_an_election_continues_after_any_lost_answer(world: World, lost_request: int, applied: bool) -> None:
    """A claim whose response was lost is found when the election is repeated. No epoch is used twice or skipped without
    an election."""
    first, second = controllers(world)
    client = world.clients[0]
    client.lose_request(lost_request, applied=applied)
    try:
        outcome = world.scheduler.run(first.elect(0))
    except ConnectionLoss:
        world.scheduler.run_until(lambda: client.state is SessionState.CONNECTED)
        outcome = world.scheduler.run(first.elect(0))
    assert outcome == Elected(1, 1)
    assert world.scheduler.run(second.elect(1)) == Lost(0)


def test_its_own_claim_from_an_older_session_is_not_its_own(world: World) -> None:
    """The ephemeral of a session that is about to expire belongs to no process that could act on it."""
    first, second = controllers(world)
    world.scheduler.run(first.elect(0))
    assert world.scheduler.run(second.elect(0)) == Lost(0)


def test_an_old_controllers_writes_fail_and_change_nothing(world: World) -> None:
    old_client, _ = world.clients
    old, new = controllers(world)
    elected = world.scheduler.run(old.elect(0))
    assert isinstance(elected, Elected)
    old_client.pause()
    world.scheduler.run_for(7000)
    assert world.scheduler.run(new.elect(1)) == Elected(2, 2)
    old_client.resume()
    world.scheduler.run_for(1000)
    token = elected.epoch_zk_version
    with pytest.raises(ControllerMoved):
        world.scheduler.run(old.fenced_multi(token, [Create("/x")]))
    with pytest.raises(ControllerMoved):
        world.scheduler.run(old.fenced_writes(token, [Create("/x"), Create("/x/y")]))
    with pytest.raises(ControllerMoved):
        world.scheduler.run(old.resign(token))
    assert world.zookeeper.tree.exists("/x") is None
    assert world.zookeeper.tree.exists(CONTROLLER) is not None


def test_a_fenced_multi_hides_its_check(world: World) -> None:
    first, _ = controllers(world)
    world.scheduler.run(first.elect(0))
    results = world.scheduler.run(first.fenced_multi(1, [Create("/x"), SetData("/x", b"1"), Delete("/x")]))
    assert (results[0], results[2], len(results)) == ("/x", None, 3)
    with pytest.raises(MultiFailed) as failed:
        world.scheduler.run(first.fenced_multi(1, [Create("/x"), Create("/x")]))
    assert (failed.value.index, type(failed.value.cause)) == (1, NodeExists)


def test_fenced_writes_have_an_outcome_each(world: World) -> None:
    """A failed write does not affect the others; a write may create a child of a parent written just before it."""
    first, _ = controllers(world)
    world.scheduler.run(first.elect(0))
    world.scheduler.run(world.clients[0].create("/old"))
    outcomes = world.scheduler.run(
        first.fenced_writes(
            1,
            [Create("/p"), Create("/p/c"), Create("/old"), SetData("/old", b"", 7), Delete("/gone"), Create("/last")],
        )
    )
    assert outcomes[:2] == ["/p", "/p/c"]
    assert [type(outcome) for outcome in outcomes[2:5]] == [NodeExists, BadVersion, NoNode]
    assert outcomes[5] == "/last"


def test_many_writes_need_few_round_trips_and_stay_below_the_packet_limit(world: World) -> None:
    """3,000 znodes of 400 bytes take batches of at most 512 KB and 1,000 operations."""
    first, _ = controllers(world)
    world.scheduler.run(first.elect(0))
    before = world.zookeeper.counts["multi"]
    outcomes = world.scheduler.run(first.fenced_writes(1, [Create(f"/n{n}", b"x" * 400) for n in range(3000)]))
    assert outcomes == [f"/n{n}" for n in range(3000)]
    assert world.zookeeper.counts["multi"] - before == 3
    big = [Create(f"/b{n}", b"x" * (BATCH_SIZE_BYTES // 2)) for n in range(4)]
    world.scheduler.run(first.fenced_writes(1, big))
    assert world.zookeeper.counts["multi"] - before == 3 + 4


def test_what_fails_among_many_costs_few_more_requests(world: World) -> None:
    """Of 1,000 operations, a few multis find the 3 that fail. If all fail, they are not written one by one."""
    first, _ = controllers(world)
    world.scheduler.run(first.elect(0))
    world.scheduler.run(first.fenced_writes(1, [Create(f"/n{n}") for n in (0, 500, 999)]))
    before = world.zookeeper.counts["multi"]
    outcomes = world.scheduler.run(first.fenced_writes(1, [Create(f"/n{n}") for n in range(1000)]))
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, NodeExists)] == [0, 500, 999]
    assert [n for n, outcome in enumerate(outcomes) if outcome == f"/n{n}"] == [
        n for n in range(1000) if n not in (0, 500, 999)
    ]
    assert world.zookeeper.counts["multi"] - before < 60
    before = world.zookeeper.counts["multi"]
    again = world.scheduler.run(first.fenced_writes(1, [Create(f"/n{n}") for n in range(1000)]))
    assert {type(outcome) for outcome in again} == {NodeExists}
    assert world.zookeeper.counts["multi"] - before < 1100


def test_watching_reports_every_controller(world: World) -> None:
    first, second = controllers(world)
    seen: list[int | None] = []
    watching = second.watch(seen.append)
    world.scheduler.run_for(100)
    world.scheduler.run(first.elect(0))
    world.scheduler.run_for(100)
    world.scheduler.run(world.clients[0].close())
    world.scheduler.run_for(100)
    world.scheduler.run(second.elect(1))
    world.scheduler.run_for(100)
    watching.close()
    assert seen == [None, 0, None, 1]


class Candidate:
    """The minimum that a broker does: it attempts every election, and writes as long as it believes that it is the
    controller."""

    def __init__(self, world: World, broker_id: int, client: SimClient) -> None:
        self.world = world
        self.broker_id = broker_id
        self.client = client
        self.registry = ControllerRegistry(client)
        self.elected: Elected | None = None
        self.registry.watch(lambda controller_id: self.begin(self.look(controller_id)))
        client.add_session_listener(self.session_changed)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.world.scheduler.start(work)

    def session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.elected = None
        elif state is SessionState.CONNECTED:
            self.begin(self.look(None))

    async def look(self, controller_id: int | None) -> None:
        if controller_id is not None and controller_id != self.broker_id:
            self.elected = None
        if controller_id is None:
            try:
                outcome = await self.registry.elect(self.broker_id)
            except (ConnectionLoss, SessionLost):
                return
            self.elected = outcome if isinstance(outcome, Elected) else None

    async def write(self) -> None:
        """A fenced write that records its epoch. The write of a zombie must fail."""
        if self.elected is None:
            return
        elected = self.elected
        try:
            await self.registry.fenced_multi(
                elected.epoch_zk_version, [SetData("/written", b"%d" % elected.epoch), Check(CONTROLLER_EPOCH, -1)]
            )
        except ControllerMoved:
            if self.elected == elected:
                self.elected = None
        except RegistryError:
            return


def test_exactly_one_controller_under_expiries(campaign_seed: int) -> None:
    """There are 50 expiries, cuts and pauses. The recorded epochs never decrease, and in the end one broker believes
    that it is the controller.
    """
    world = World(3, campaign_seed)
    world.scheduler.run(world.clients[0].create("/written", b"0"))
    candidates = [Candidate(world, number, client) for number, client in enumerate(world.clients)]
    world.zookeeper.loss_probability = 0.02
    random = world.scheduler.random
    written: list[int] = []
    for _ in range(50):
        victim = random.choice(candidates).client
        fault = random.choice([world.zookeeper.expire, SimClient.disconnect, SimClient.pause, SimClient.resume])
        fault(victim)
        for candidate in candidates:
            candidate.begin(candidate.write())
        world.scheduler.run_for(random.choice([0, 1, 5, 50, 500, 7000]))
        written.append(int(world.zookeeper.tree.get("/written")[0] or b""))
    world.zookeeper.loss_probability = 0
    for candidate in candidates:
        candidate.client.resume()
    world.scheduler.run_for(30_000)
    assert written == sorted(written)
    believers = [candidate for candidate in candidates if candidate.elected is not None]
    assert len(believers) == 1
    elected = believers[0].elected
    assert elected is not None
    data, stat = world.zookeeper.tree.get(CONTROLLER_EPOCH)
    assert elected == Elected(decode_epoch(data), stat.version)
    claim = world.zookeeper.tree.exists(CONTROLLER)
    assert claim is not None
    assert claim.ephemeral_owner == believers[0].client.session_id


def test_counts_of_operations(world: World) -> None:
    """Winning an election costs two reads and one multi, losing it two reads, a registration one multi."""
    first, second = controllers(world)
    winner, loser = world.clients
    world.scheduler.run(first.elect(0))  # the very first election also creates the epoch's znode
    world.scheduler.run(first.resign(1))
    winner.counts.clear()
    loser.counts.clear()
    world.scheduler.run(first.elect(0))
    world.scheduler.run(second.elect(1))
    world.scheduler.run(BrokerRegistry(loser, world.clock).register(broker_info(1)))
    assert {kind: count for kind, count in winner.counts.items() if kind != "ping"} == {"get": 2, "multi": 1}
    assert {kind: count for kind, count in loser.counts.items() if kind != "ping"} == {"get": 2, "multi": 1}


def test_an_epoch_that_may_not_be_made_is_told_and_not_tried_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.clients[0]

    async def refused(path: str, *_: object, **__: object) -> str:
        raise NoAuth(path)

    monkeypatch.setattr(client, "create", refused)
    with pytest.raises(NoAuth, match=CONTROLLER_EPOCH):
        world.scheduler.run(ControllerRegistry(client).elect(0), 1000)
