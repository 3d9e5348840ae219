"""A pytest plugin: the longest files run first, so that no worker still runs one when the others have ended.

With ``--dist loadfile --no-loadscope-reorder``, a free worker gets the next file. ``FILE`` lists the longest files;
``--file-seconds`` prints its new content after a run.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("longest_files.txt")
"""A line for each file: seconds, and its path from the folder of this file."""
LEAST_S = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--file-seconds", action="store_true", help="print how long the longest files took")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("file_seconds"):
        config.pluginmanager.register(_Seconds())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = {FILE.parent / path: int(figure) for figure, path in map(str.split, FILE.read_text().splitlines())}
    items.sort(key=lambda item: -seconds.get(item.path, 0))


class _Seconds:
    """Adds up the durations of each file's tests."""

    def __init__(self) -> None:
        self._by_path: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._by_path[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("seconds of files")
        for path, seconds in self._by_path.most_common():
            if seconds >= LEAST_S:
                terminalreporter.write_line(f"{seconds:.0f} {path.removeprefix('tests/')}")
