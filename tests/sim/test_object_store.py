"""The effect of the simulated object store's faults on a call."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_zk.base.threads import RunInThread
from kafka_zk.sim.machine import object_store
from kafka_zk.sim.machine.object_store import BUCKET
from kafka_zk.sim.world.world import World
from kafka_zk.storage.files import files
from kafka_zk.storage.tiered.object_store import ObjectStoreError

PATH = f"{BUCKET}/object"


@pytest.fixture
def world() -> Iterator[World]:
    with World(0) as made:
        made.disk.make_directory(BUCKET)
        made.disk.fault = made.object_store.fault
        yield made


def threads(world: World, name: str = "copier") -> RunInThread:
    return world.object_store.threads(world.process("broker-1"))(name, 1)


def outcomes(world: World, name: str = "copier") -> list[Any]:
    """The results of twenty calls that write and read the object: its content, or the error."""
    found: list[Any] = []

    def work() -> bytes | None:
        files.write_file(PATH, b"1")
        return files.read_file(PATH)

    for _ in range(20):
        threads(world, name)(work).addBoth(lambda each: found.append(getattr(each, "value", each)))
    world.run_for(30_000)
    assert len(found) == 20
    return found


def test_a_store_without_faults(world: World) -> None:
    assert outcomes(world) == [b"1"] * 20


def test_a_store_that_is_away_does_nothing(world: World) -> None:
    back = world.object_store.begin(object_store.AWAY, "broker-1")
    assert all(isinstance(each, ObjectStoreError) for each in outcomes(world))
    assert not files.exists(PATH)
    back()
    assert outcomes(world) == [b"1"] * 20


def test_a_fault_of_another_broker_does_not_matter(world: World) -> None:
    world.object_store.begin(object_store.AWAY, "broker-2")
    assert outcomes(world) == [b"1"] * 20


def test_a_lost_answer_is_one_of_a_call_that_acted(world: World) -> None:
    world.object_store.begin(object_store.LOSES)
    found = outcomes(world)
    assert files.exists(PATH)
    assert {type(each) for each in found} == {bytes, ObjectStoreError}


def test_a_store_that_fails_stops_in_the_middle(world: World) -> None:
    world.object_store.begin(object_store.FAILS)
    assert {type(each) for each in outcomes(world)} == {bytes, OSError}


def test_stale_readers_miss_new_objects(world: World) -> None:
    world.object_store.begin(object_store.STALE)
    assert outcomes(world, "copier") == [b"1"] * 20
    assert outcomes(world, "reader") == [None] * 20


def test_a_dead_process_makes_no_call(world: World) -> None:
    process = world.process("broker-1")
    world.object_store.threads(process)("copier", 1)(lambda: files.write_file(PATH, b"1"))
    process.kill()
    world.run_for(1_000)
    assert not files.exists(PATH)
