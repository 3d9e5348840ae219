"""Registration: each id has one live broker, even if brokers restart, expire or are started twice."""

from typing import Any

import pytest

from kafka_zk.registry.brokers import BrokerRegistry, LiveBrokers
from kafka_zk.registry.client.client import Delete, SessionState
from kafka_zk.registry.client.errors import DuplicateBrokerId, RegistryError, SessionLost
from kafka_zk.registry.registration import max_leftover_ms
from kafka_zk.registry.unclean_starts import read_unclean_starts
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.sim.zookeeper.client import SimClient
from tests.registry.world import World, broker_info


@pytest.fixture
def world() -> World:
    return World()


def registry(world: World, client: SimClient) -> BrokerRegistry:
    return BrokerRegistry(client, world.clock)


def test_the_broker_epoch_is_the_czxid_and_the_znode_is_at_version_1(world: World) -> None:
    """As with Kafka 2.2+, one multi creates the empty znode and sets it."""
    client = world.clients[0]
    epoch = world.scheduler.run(registry(world, client).register(broker_info(0)))
    stat = world.scheduler.run(client.exists(broker_path(0)))
    assert stat is not None
    assert (stat.czxid, stat.version, stat.ephemeral_owner) == (epoch, 1, client.session_id)
    assert world.scheduler.run(registry(world, world.clients[1]).live()) == {0: (broker_info(0), epoch)}


def test_registering_again_in_the_same_session_keeps_the_epoch(world: World) -> None:
    mine = registry(world, world.clients[0])
    epoch = world.scheduler.run(mine.register(broker_info(0, 1)))
    assert world.scheduler.run(mine.register(broker_info(0, 2))) == epoch
    assert world.scheduler.run(mine.live())[0][0].port == 2


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_answer_is_found_out(world: World, applied: bool) -> None:
    client = world.clients[0]
    client.lose_request(applied=applied)
    epoch = world.scheduler.run(registry(world, client).register(broker_info(0)))
    assert world.scheduler.run(registry(world, client).live()) == {0: (broker_info(0), epoch)}


def announced(world: World) -> dict[int, list[str]]:
    return world.scheduler.run(read_unclean_starts(world.clients[1]))


@pytest.mark.parametrize("lost", [None, True, False])
def test_an_unclean_start_is_announced_with_the_registration(world: World, lost: bool | None) -> None:
    """The announcement is written once, in the same multi, and outlives the session. A later session announces
    nothing."""
    client = world.clients[0]
    mine = registry(world, client)
    assert announced(world) == {}
    if lost is not None:
        client.lose_request(after=3, applied=lost)  # the multi comes after two parents and the existing announcements
    epoch = world.scheduler.run(mine.register(broker_info(3), unclean_start=True))
    (path,) = announced(world)[3]
    stat = world.scheduler.run(client.exists(path))
    assert stat is not None and (stat.czxid, stat.ephemeral_owner) == (epoch, 0)
    world.zookeeper.expire(client)
    world.scheduler.run_until(lambda: client.state is SessionState.CONNECTED and client.session_id in living(world))
    world.scheduler.run(mine.register(broker_info(3)))
    assert announced(world) == {3: [path]}


def test_a_refused_registration_announces_nothing(world: World) -> None:
    first, second = (registry(world, client) for client in world.clients)
    world.scheduler.run(first.register(broker_info(0)))
    with pytest.raises(DuplicateBrokerId):
        world.scheduler.run(second.register(broker_info(0), unclean_start=True))
    assert announced(world) == {}


def test_a_second_unclean_start_replaces_the_announcement(world: World) -> None:
    """A controller that deletes an announcement it has handled thus does not delete the new one."""
    client = world.clients[0]
    world.scheduler.run(registry(world, client).register(broker_info(0), unclean_start=True))
    (first,) = announced(world)[0]
    world.scheduler.run(registry(world, client).unregister(0))
    world.scheduler.run(registry(world, client).register(broker_info(0), unclean_start=True))
    (second,) = announced(world)[0]
    assert second > first


def test_an_announcement_that_a_controller_deletes_meanwhile_is_no_obstacle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = world.clients[0]
    world.scheduler.run(registry(world, client).register(broker_info(0), unclean_start=True))
    world.scheduler.run(registry(world, client).unregister(0))
    multi, deleted = client.multi, announced(world)[0]

    def late(operations: Any) -> Any:
        if deleted:
            world.zookeeper.tree.apply(Delete(deleted.pop()), 0, 0)
        return multi(operations)

    monkeypatch.setattr(client, "multi", late)
    world.scheduler.run(registry(world, client).register(broker_info(0), unclean_start=True))
    assert len(announced(world)[0]) == 1


def test_a_second_broker_with_the_same_id_is_refused_after_the_wait(world: World) -> None:
    """The broker waits as long as an old session could live; the error then names the holder's address."""
    first, second = (registry(world, client) for client in world.clients)
    world.scheduler.run(first.register(broker_info(0, 9092)))
    began_ms = world.scheduler.now_ms
    with pytest.raises(DuplicateBrokerId, match=r"broker id 0 is already .* live broker at 127.0.0.1:9092"):
        world.scheduler.run(second.register(broker_info(0, 9093)))
    waited_ms = world.scheduler.now_ms - began_ms
    assert max_leftover_ms(6000) <= waited_ms < max_leftover_ms(6000) + 100
    assert world.scheduler.run(first.live())[0][0].port == 9092


def test_a_restart_faster_than_the_session_timeout_waits_for_its_ghost(world: World) -> None:
    """KAFKA-7165: kill -9 and start again; the old session's znode stands in the way until it expires."""
    ghost, reborn = world.clients
    old_epoch = world.scheduler.run(registry(world, ghost).register(broker_info(0)))
    ghost.pause()
    ghost.cut(silent=True)
    began_ms = world.scheduler.now_ms
    epoch = world.scheduler.run(registry(world, reborn).register(broker_info(0)))
    assert epoch > old_epoch
    assert 4000 < world.scheduler.now_ms - began_ms < 6100


def test_the_wait_survives_a_connection_loss(world: World) -> None:
    """The watch on the old znode is lost with the connection, so the broker reads the znode again."""
    ghost, reborn = world.clients
    world.scheduler.run(registry(world, ghost).register(broker_info(0)))
    ghost.pause()
    registering = world.scheduler.start(registry(world, reborn).register(broker_info(0)))
    world.scheduler.run_for(1000)
    reborn.disconnect()
    assert world.scheduler.run(registering) > 0


def test_the_wait_restarts_after_zookeeper_was_away(world: World) -> None:
    """ZooKeeper is away longer than the old session would live; afterwards, that session has its full timeout again."""
    ghost, reborn = world.clients
    world.scheduler.run(registry(world, ghost).register(broker_info(0)))
    ghost.pause()
    registering = world.scheduler.start(registry(world, reborn).register(broker_info(0)))
    world.scheduler.run_for(1000)
    world.zookeeper.stop()
    world.scheduler.run_for(20_000)
    world.zookeeper.start()
    assert world.scheduler.run(registering) > 0


def test_a_session_that_this_process_held_is_replaced_at_once(world: World) -> None:
    ghost, reborn = world.clients
    world.scheduler.run(registry(world, ghost).register(broker_info(0)))
    began_ms = world.scheduler.now_ms
    own = [ghost.session_id or 0]
    epoch = world.scheduler.run(registry(world, reborn).register(broker_info(0, 5), own))
    assert world.scheduler.now_ms - began_ms < 50
    assert world.scheduler.run(registry(world, reborn).live()) == {0: (broker_info(0, 5), epoch)}


def test_a_session_that_ends_during_the_wait_is_told(world: World) -> None:
    holder, waiter = world.clients
    world.scheduler.run(registry(world, holder).register(broker_info(0)))
    registering = world.scheduler.start(registry(world, waiter).register(broker_info(0)))
    world.scheduler.run_for(100)
    world.zookeeper.expire(waiter)
    waiter.cut()
    world.scheduler.run_for(100)
    waiter.heal()
    with pytest.raises(SessionLost):
        world.scheduler.run(registering)


def test_unregistering_leaves_another_sessions_znode_alone(world: World) -> None:
    mine, other = (registry(world, client) for client in world.clients)
    world.scheduler.run(mine.register(broker_info(0)))
    world.scheduler.run(other.unregister(0))
    assert list(world.scheduler.run(mine.live())) == [0]
    world.scheduler.run(mine.unregister(0))
    world.scheduler.run(mine.unregister(0))
    assert world.scheduler.run(mine.live()) == {}


def test_invalid_registrations_are_left_out(world: World) -> None:
    client = world.clients[0]
    for path, data in (("/brokers/ids/7", b"?"), ("/brokers/ids/x", b"{}")):
        world.scheduler.run(client.create(path, data))
    assert world.scheduler.run(registry(world, client).live()) == {}


def test_watching_reports_start_change_bounce_and_failure(world: World) -> None:
    broker, watcher = world.clients
    seen: list[LiveBrokers] = []
    watching = registry(world, watcher).watch(seen.append)
    world.scheduler.run_for(100)
    first = world.scheduler.run(registry(world, broker).register(broker_info(0, 1)))
    world.scheduler.run_for(100)
    world.scheduler.run(registry(world, broker).register(broker_info(0, 2)))
    world.scheduler.run_for(100)
    watcher.cut()
    world.zookeeper.expire(broker)
    world.scheduler.run_until(lambda: broker.state is SessionState.CONNECTED and broker.session_id in living(world))
    second = world.scheduler.run(registry(world, broker).register(broker_info(0, 2)))
    watcher.heal()
    world.scheduler.run_for(500)
    world.scheduler.run(broker.close())
    world.scheduler.run_for(100)
    assert seen == [
        {},
        {0: (broker_info(0, 1), first)},
        {0: (broker_info(0, 2), first)},
        {0: (broker_info(0, 2), second)},
        {},
    ]
    watching.close()


def living(world: World) -> set[int]:
    return set(world.zookeeper.sessions)


def test_two_brokers_that_expire_at_random_end_up_registered_once_each(campaign_seed: int) -> None:
    """Each broker re-registers whenever it gets a new session; in the end both are registered in their current
    sessions.
    """
    world = World(2, campaign_seed, loss_probability=0.02)
    random = world.scheduler.random

    async def keep_registered(broker_id: int, client: SimClient) -> None:
        try:
            await registry(world, client).register(broker_info(broker_id))
        except RegistryError:
            return

    for broker_id, client in enumerate(world.clients):

        def changed(state: SessionState, broker_id: int = broker_id, client: SimClient = client) -> None:
            if state is SessionState.CONNECTED:
                world.scheduler.start(keep_registered(broker_id, client))

        client.add_session_listener(changed)
        world.scheduler.start(keep_registered(broker_id, client))
    for _ in range(30):
        world.zookeeper.expire(random.choice(world.clients))
        world.scheduler.run_for(random.choice([0, 1, 10, 100, 1000]))
    world.zookeeper.loss_probability = 0
    world.scheduler.run_for(30_000)
    owners = {
        broker_id: stat.ephemeral_owner
        for broker_id in (0, 1)
        if (stat := world.zookeeper.tree.exists(broker_path(broker_id))) is not None
    }
    assert owners == {0: world.clients[0].session_id, 1: world.clients[1].session_id}
