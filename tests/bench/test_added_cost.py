"""The added cost of quotas and ACLs stays within its limits."""

import pytest

from tests.bench import added_cost
from tests.bench.added_cost import ROWS


@pytest.mark.parametrize(("kind", "properties", "most"), ROWS)
def test_a_quota_adds_no_more_than_it_may(kind: str, properties: dict[str, str], most: int) -> None:
    assert added_cost.of_quotas(kind, properties) <= most


def test_the_first_metadata_costs_no_more_than_twice_what_it_costs_without_acls() -> None:
    most = added_cost.MOST_OF_FIRST_METADATA * added_cost.of_first_metadata(with_acls=False)
    assert added_cost.of_first_metadata(with_acls=True) <= most
