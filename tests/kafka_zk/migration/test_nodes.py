"""What the configurations of nodes say."""

import pytest

from kafka_zk.migration.nodes import bootstrap_controllers, voters


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, {}),
        ("", {}),
        ("3000@h:9093", {3000: ("h", 9093)}),
        ("3000@h:9093, 3001@[::1]:9094", {3000: ("h", 9093), 3001: ("::1", 9094)}),
        ("3000@h,x@h:1,@h:1,3001@:1,3002@h:²", {}),
        (f"{'9' * 5000}@h:1,3000@h:{'9' * 5000}", {}),
    ],
)
def test_voters(value: str | None, found: dict[int, tuple[str, int]]) -> None:
    assert voters({"controller.quorum.voters": value}) == found


def test_addresses_of_a_dynamic_quorum() -> None:
    configs = {"controller.quorum.bootstrap.servers": "h:9093, [::1]:9094,h,:1"}
    assert bootstrap_controllers(configs) == [("h", 9093), ("::1", 9094)]
    assert bootstrap_controllers({}) == []
