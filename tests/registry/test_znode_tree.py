"""A tree as a list of paths, with any znode names."""

from kafka_zk.registry.znode_tree import read_tree
from tests.registry.world import World


def test_numbers_are_sorted_by_value_and_other_names_after_them() -> None:
    world = World(1)
    (client,) = world.clients
    huge = "9" * 5000  # Python's int() accepts fewer digits
    for path in ("/t", "/t/10", "/t/9", "/t/²", "/t/a", f"/t/{huge}"):
        world.scheduler.run(client.create(path))
    names = [node.name for node in world.scheduler.run(read_tree(client, "/t"))]
    assert names == ["t", "9", "10", huge, "a", "²"]
