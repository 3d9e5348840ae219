"""Which keys are folded together."""

from kafka_zk.spark_jobs.extraction.merge.key_groups import key_groups


def test_a_chain_of_key_changes_is_one_group_in_any_order() -> None:
    pairs = [("c", "d"), ("a", "b"), ("x", "y"), ("b", "c")]
    expected = {"a": "a", "b": "a", "c": "a", "d": "a", "x": "x", "y": "x"}
    assert key_groups(pairs) == key_groups(reversed(pairs)) == expected


def test_a_key_that_came_back_is_in_one_group_with_its_other() -> None:
    assert key_groups([("a", "b"), ("b", "a")]) == {"a": "a", "b": "a"}
