"""The membership of a member of a broker group in the simulated world, and its end."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.errors import CommitRefused
from kafka_zk.sim.campaign.run import BROKER
from kafka_zk.sim.judges import broker_group
from kafka_zk.sim.world.clients import BROKER_GROUP, SimBrokerMember, SimProducer, make_admin
from kafka_zk.sim.world.history import Committed, HandedOut, History, Lifted
from kafka_zk.sim.world.world import World

TP = TopicPartition("t", 0)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def world(history: History) -> Iterator[World]:
    with World(1, lambda event: history.add(Lifted(0.0, event.actor, event))) as world:
        config = BROKER | {"group.initial.rebalance.delay.ms": "0"}
        world.broker(1, **{key.replace(".", "_"): value for key, value in config.items()})
        world.start_all()
        admin = make_admin(world, world.process("admin"))
        world.run(admin.create_topic(TP.topic, 1, 1, {}))
        yield world
        assert not world.failures


def member(world: World, name: str, history: History) -> SimBrokerMember:
    return SimBrokerMember(world, name, TP.topic, history, "range")


def test_a_member_tells_its_membership_once_it_has_joined(world: World, history: History) -> None:
    joining = member(world, "m", history)
    with pytest.raises(KafkaError, match="has not joined its group yet"):
        joining.consumer.group_metadata()
    world.until(lambda: joining.consumer.assignment())
    joined = joining.consumer.group_metadata()
    assert joined.generation_id == 1 and joined.member_id.startswith("m-") and joined.group_instance_id is None


def test_a_member_that_was_paused_beyond_its_session_hands_out_nothing_of_the_past(
    world: World, history: History
) -> None:
    first = member(world, "first", history)
    world.until(lambda: first.consumer.assignment())
    old_id = first.actor
    producer = SimProducer(world, "p", lambda: [TP], history)
    world.run_for(3_000)
    first.pause()
    second = member(world, "second", history)
    world.until(lambda: second.consumer.assignment())
    resumed_at = len(history.facts)
    world.run_for(2_000)
    first.resume()
    world.run_for(5_000)
    producer.kill()
    world.run_for(5_000)
    late = [fact for fact in history.facts[resumed_at:] if isinstance(fact, HandedOut)]
    assert late and old_id not in {fact.actor for fact in late}
    assert any(isinstance(fact, Committed) for fact in history.facts)
    assert not broker_group.generations(history.facts, BROKER_GROUP, [])


def test_a_commit_whose_membership_is_over_is_not_made_again_under_the_next_one(
    world: World, history: History
) -> None:
    """Another member may since have owned the partition and committed a higher offset."""
    alone = member(world, "m", history)
    world.until(lambda: alone.consumer.assignment())
    old_id = alone.actor
    for here, there in (("m", "broker-1"), ("broker-1", "m")):
        world.network.cut(here, there)
    committing = ensureDeferred(alone.consumer.commit({TP: 0}))
    world.run_for(8_000)
    world.network.heal()
    with pytest.raises(CommitRefused, match="does not own"):
        world.run(committing)
    world.until(lambda: alone.consumer.assignment() and alone.actor != old_id)
    assert alone.generation == 3, "after the one without members"
