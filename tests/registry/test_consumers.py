"""Members of a group: each id has one live holder, and watchers see every join, leave and replacement."""

import pytest

from kafka_zk.base.events import Event, EventSource
from kafka_zk.registry.client.client import Create, Delete, SessionState
from kafka_zk.registry.client.errors import DuplicateConsumerId, FencedInstanceId, RegistryError
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired
from kafka_zk.registry.consumers import ConsumerRegistry, Members
from kafka_zk.registry.registration import max_leftover_ms
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.sim.zookeeper.client import SimClient
from tests.registry.group_lab import GROUP, GroupLab, create_znode, get_znode
from tests.registry.world import World

PLAIN = ConsumerRegistration({"t": 1}, timestamp_ms=1)
OURS = ConsumerRegistration({"t": 2}, timestamp_ms=2, strategies=("cooperative-sticky", "range"))
STATIC = ConsumerRegistration({"t": 2}, strategies=("sticky",), instance_id="i1", instance_timeout_ms=45_000)


def simulated(world: World, number: int) -> ConsumerRegistry:
    return ConsumerRegistry(world.clients[number], GROUP, world.clock)


def registry(lab: GroupLab, number: int) -> ConsumerRegistry:
    return ConsumerRegistry(lab.clients[number], GROUP, lab.clock)


def test_a_member_is_an_ephemeral_and_its_age_is_the_czxid(lab: GroupLab) -> None:
    first = lab.run(registry(lab, 0).register("a", OURS))
    second = lab.run(registry(lab, 1).register("b", STATIC))
    assert first < second
    assert lab.run(registry(lab, 2).members()) == {"a": (OURS, first), "b": (STATIC, second)}
    _, stat = lab.run(get_znode(lab.clients[2], znodes.id_path(GROUP, "a")))
    assert (stat.czxid, stat.ephemeral_owner) == (first, lab.clients[0].session_id)


def test_registering_again_changes_nothing_and_another_registration_is_a_new_znode(lab: GroupLab) -> None:
    mine = registry(lab, 0)
    first = lab.run(mine.register("a", PLAIN))
    assert lab.run(mine.register("a", PLAIN)) == first
    second = lab.run(mine.register("a", OURS))
    assert second > first
    assert lab.run(mine.members()) == {"a": (OURS, second)}


def test_a_group_nobody_ever_joined_has_no_members(lab: GroupLab) -> None:
    assert lab.run(registry(lab, 0).members()) == {}


def test_unregistering_leaves_another_sessions_znode_alone(lab: GroupLab) -> None:
    lab.run(registry(lab, 0).register("a", PLAIN))
    lab.run(registry(lab, 1).unregister("a"))
    assert list(lab.run(registry(lab, 1).members())) == ["a"]
    lab.run(registry(lab, 0).unregister("a"))
    lab.run(registry(lab, 0).unregister("a"))
    assert lab.run(registry(lab, 1).members()) == {}


def test_watching_reports_joins_leaves_expiries_and_replacements(lab: GroupLab) -> None:
    """A replacement is one multi: the names stay the same, and only the parent's cversion changes."""
    seen: list[Members] = []
    watching = registry(lab, 2).watch(seen.append)
    lab.run_until(lambda: seen == [{}])
    first = lab.run(registry(lab, 0).register("a", PLAIN))
    lab.run_until(lambda: seen[-1] == {"a": (PLAIN, first)})
    second = lab.run(registry(lab, 1).register("b", OURS))
    lab.run_until(lambda: seen[-1] == {"a": (PLAIN, first), "b": (OURS, second)})
    third = lab.run(registry(lab, 0).register("a", OURS))
    lab.run_until(lambda: seen[-1] == {"a": (OURS, third), "b": (OURS, second)})
    lab.expire(lab.clients[1])
    lab.run_until(lambda: seen[-1] == {"a": (OURS, third)})
    lab.run(registry(lab, 0).unregister("a"))
    lab.run_until(lambda: seen[-1] == {})
    watching.close()


def test_an_invalid_registration_is_a_member_without_subscriptions(lab: GroupLab) -> None:
    path = znodes.id_path(GROUP, "x")
    lab.run(create_znode(lab.clients[0], Create(path, b"?", ephemeral=True)))
    _, stat = lab.run(get_znode(lab.clients[0], path))
    assert lab.run(registry(lab, 1).members()) == {"x": (ConsumerRegistration({}), stat.czxid)}


def test_two_live_members_cannot_have_one_instance_id() -> None:
    """The second member waits as long as an old session's znode could exist; then its error is one sentence."""
    world = World(2)
    world.scheduler.run(simulated(world, 0).register("g_i1", STATIC))
    began_ms = world.scheduler.now_ms
    with pytest.raises(FencedInstanceId, match="instance id i1 of group g is held by another live consumer"):
        world.scheduler.run(simulated(world, 1).register("g_i1", STATIC))
    assert max_leftover_ms(6000) <= world.scheduler.now_ms - began_ms < max_leftover_ms(6000) + 100
    with pytest.raises(DuplicateConsumerId, match="consumer id g_i1 is already registered in group g"):
        world.scheduler.run(simulated(world, 1).register("g_i1", OURS))


def test_a_restart_sooner_than_the_session_timeout_waits_for_its_ghost() -> None:
    """Complaint 3: the member is killed and restarted immediately. It joins as soon as the old session has ended."""
    world = World(2)
    world.scheduler.run(simulated(world, 0).register("g_i1", STATIC))
    world.clients[0].pause()
    began_ms = world.scheduler.now_ms
    world.scheduler.run(simulated(world, 1).register("g_i1", STATIC))
    assert 4000 < world.scheduler.now_ms - began_ms < 6100


@pytest.mark.parametrize("away_ms", [100, 5000, 60_000])
def test_a_ghost_is_outwaited_anew_after_zookeeper_was_away(away_ms: float) -> None:
    """After the outage the old session has its full timeout again, so the wait restarts. If the holder is alive, the
    refusal is delayed by the same time.
    """
    world = World(3)
    world.scheduler.run(simulated(world, 0).register("g_i1", STATIC))
    world.clients[0].pause()
    world.scheduler.run(simulated(world, 2).register("g_i2", STATIC))
    joining = [world.scheduler.start(simulated(world, 1).register(name, STATIC)) for name in ("g_i1", "g_i2")]
    world.scheduler.run_for(4000)
    world.zookeeper.stop()
    world.scheduler.run_for(away_ms)
    world.zookeeper.start()
    began_ms = world.scheduler.now_ms
    assert world.scheduler.run(joining[0]) > 0
    with pytest.raises(FencedInstanceId, match="instance id i1"):
        world.scheduler.run(joining[1])
    assert max_leftover_ms(6000) <= world.scheduler.now_ms - began_ms < max_leftover_ms(6000) + 200


def test_a_group_that_is_removed_while_somebody_joins_is_made_again() -> None:
    world = World(2)
    world.scheduler.run(simulated(world, 1).register("b", PLAIN))
    world.scheduler.run(simulated(world, 1).unregister("b"))
    joining = world.scheduler.start(simulated(world, 0).register("a", PLAIN))
    world.zookeeper.tree.apply(Delete(znodes.ids_path(GROUP)), 0, 0)  # before the request arrives
    assert world.scheduler.run(joining) > 0
    assert list(world.scheduler.run(simulated(world, 1).members())) == ["a"]


def test_the_ghost_of_a_session_that_this_process_held_is_replaced_at_once() -> None:
    world = World(2)
    world.scheduler.run(simulated(world, 0).register("a", PLAIN))
    began_ms = world.scheduler.now_ms
    own = [world.clients[0].session_id or 0]
    world.scheduler.run(simulated(world, 1).register("a", PLAIN, own))
    assert world.scheduler.now_ms - began_ms < 50


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("after", range(4))
def test_a_registration_whose_answer_is_lost_is_found_out(after: int, applied: bool) -> None:
    world = World(1)
    world.clients[0].lose_request(after, applied=applied)
    czxid = world.scheduler.run(simulated(world, 0).register("a", PLAIN))
    assert world.scheduler.run(simulated(world, 0).members()) == {"a": (PLAIN, czxid)}


def test_a_member_that_came_back_during_a_cut_is_a_new_one() -> None:
    """Complaint 14: no watch fired and the names are the same, but the cversion shows that the znodes are new."""
    world = World(3)
    watcher = world.clients[2]
    world.scheduler.run(simulated(world, 0).register("a", PLAIN))
    second = world.scheduler.run(simulated(world, 1).register("b", PLAIN))
    seen: list[Members] = []
    simulated(world, 2).watch(seen.append)
    world.scheduler.run_until(lambda: seen)
    watcher.cut()
    world.scheduler.run(simulated(world, 0).unregister("a"))
    third = world.scheduler.run(simulated(world, 0).register("a", OURS))
    watcher.heal()
    world.scheduler.run_for(500)
    assert len(seen) == 2
    assert seen[-1] == {"a": (OURS, third), "b": (PLAIN, second)}


def test_a_join_costs_each_member_two_reads_however_many_there_are() -> None:
    """Complaint 21, the herd: reading all members at each change would be quadratic."""
    world = World(8)
    for number in range(7):
        simulated(world, number).watch(lambda members: None)
        world.scheduler.run(simulated(world, number).register(f"m{number}", PLAIN))
        world.scheduler.run_for(100)
    before = [client.counts["get"] + client.counts["children"] for client in world.clients]
    world.scheduler.run(simulated(world, 7).register("m7", PLAIN))
    world.scheduler.run_for(100)
    after = [client.counts["get"] + client.counts["children"] for client in world.clients]
    assert [now - then for now, then in zip(after, before, strict=True)][:7] == [2] * 7


def test_observers_see_what_each_watch_did() -> None:
    world = World(2)
    events: list[Event] = []
    ConsumerRegistry(world.clients[0], GROUP, world.clock, EventSource("me", events.append)).watch(lambda members: None)
    world.scheduler.run_for(100)
    world.scheduler.run(simulated(world, 1).register("b", PLAIN))
    world.scheduler.run_for(100)
    kinds = {type(event) for event in events}
    assert kinds == {Reread, WatchArmed, WatchFired}
    assert {event.actor for event in events} == {"me"}


def test_a_watcher_converges_on_who_is_there_under_any_faults(campaign_seed: int) -> None:
    """Members join, leave, change and expire at random, with lost responses and cuts. In the end, the watcher knows the
    current members.
    """
    world = World(5, campaign_seed, loss_probability=0.02)
    random = world.scheduler.random
    watcher = world.clients[4]
    seen: list[Members] = []
    ConsumerRegistry(watcher, GROUP).watch(seen.append)

    async def change(client: SimClient, name: str) -> None:
        mine = ConsumerRegistry(client, GROUP, world.clock)
        try:
            if random.random() < 0.4:
                await mine.unregister(name)
            else:
                await mine.register(name, random.choice([PLAIN, OURS]))
        except RegistryError:
            return

    for _ in range(80):
        number = random.randrange(4)
        world.scheduler.start(change(world.clients[number], f"m{number}"))
        if random.random() < 0.1:
            world.zookeeper.expire(random.choice(world.clients))
        if random.random() < 0.1:
            watcher.cut()
        world.scheduler.run_for(random.choice([0, 0, 1, 10, 200]))
        watcher.heal()
    world.zookeeper.loss_probability = 0
    world.scheduler.run_for(30_000)
    world.scheduler.run_until(lambda: all(client.state is SessionState.CONNECTED for client in world.clients))
    assert seen[-1] == world.scheduler.run(simulated(world, 0).members())
