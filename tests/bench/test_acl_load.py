"""The bench of loading ACLs writes the requested number of ACLs, and loads all of them."""

import pytest

from tests.bench import acl_load


def test_the_acls_are_as_many_as_are_asked_for() -> None:
    made = list(acl_load.patterns(300, 10))
    assert len({pattern for pattern, _ in made}) == 300
    assert all(len(set(acls)) == 10 for _, acls in made)
    assert len({acl for _, acls in made for acl in acls}) == 3_000


@pytest.mark.embedded
def test_all_that_was_written_is_loaded() -> None:
    loaded = acl_load.measured(30, 2)
    assert loaded.patterns == 30 and loaded.cpu_seconds >= 0 and loaded.peak_bytes >= 0
