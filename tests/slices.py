"""A slice of the tests, for ``.ci/run``; the weekly run of ci.yml runs all tests.

``--slice`` leaves out

- tests marked ``weekly``, which are expensive, while similar tests stay;
- of a test marked ``one_in(n)``, all but every n-th of its parameters;
- of tests that do the same on both kinds of brokers, the half on Kafka's, which checks the test and not our code.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

APACHE_KAFKA = "apache-kafka"
"""The parameter that selects Apache Kafka's brokers (``tests.peers.targets``)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("slices").addoption("--slice", action="store_true", help="leave out what runs weekly")


@pytest.hookimpl(trylast=True)  # after pytest has left out tests that -m and -k do not select
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("slice"):
        kept = set(sliced(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def sliced(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The tests of the slice, in their order."""
    counts: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("weekly") or APACHE_KAFKA in _texts(item):
            continue
        test = item.nodeid.partition("[")[0]
        one_in = item.get_closest_marker("one_in")
        if one_in is None or counts[test] % one_in.args[0] == 0:
            yield item
        counts[test] += 1


def _texts(item: pytest.Item) -> set[str]:
    """The parameters that are strings."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return {value for value in parameters.values() if isinstance(value, str)}
