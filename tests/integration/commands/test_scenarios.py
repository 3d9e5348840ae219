"""The exact output of commands, on a terminal of 80 columns and in a pipe, compared with the transcripts of
tests/scenarios.

KAFKA_ZK_REWRITE_SCENARIOS=1 in the environment rewrites them. Commit the new ones only if you understand the
difference.
"""

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.testing.plugin import MakeCluster, MakeZooKeeper
from tests.integration.commands.transcript import played
from tests.integration.processes import ENVIRON, ROOT
from tests.terminal import COLUMNS

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.long]

SCENARIOS = sorted((ROOT / "tests" / "scenarios").glob("*.txt"))


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment in which ``kafka-zk`` is this code, and BLACK_HOLE is an address that never responds."""
    shim = tmp_path / "bin" / "kafka-zk"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_zk "$@"\n')
    shim.chmod(0o755)
    kept = {name: text for name, text in ENVIRON.items() if name not in ("COLUMNS", "LINES")}
    with socket.create_server((LOCALHOST, 0), backlog=8) as black_hole:
        yield {
            **kept,
            "PATH": f"{shim.parent}:{kept['PATH']}",
            "TERM": "xterm",
            "ZOOKEEPER_PORT": str(free_port()),
            "BLACK_HOLE": f"{LOCALHOST}:{black_hole.getsockname()[1]}",
        }


@pytest.fixture
def in_cluster(make_cluster: MakeCluster, make_zookeeper: MakeZooKeeper, environ: dict[str, str]) -> dict[str, str]:
    """An environment whose two variables name a ZooKeeper and three brokers for this test only."""
    made = make_cluster(3, {"auto.create.topics.enable": "false"}, make_zookeeper())
    return {**environ, "KAFKA_ZK_BOOTSTRAP": made.bootstrap, "KAFKA_ZK_ZOOKEEPER": made.zookeeper_connect}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_reads_as_it_did(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text()
    starts_its_own = "kafka-zk up" in expected
    seen = played(expected, request.getfixturevalue("environ" if starts_its_own else "in_cluster"))
    if os.environ.get("KAFKA_ZK_REWRITE_SCENARIOS"):
        path.write_text(seen)
    assert seen == expected


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_terminal_of_80_columns_folds_nothing(path: Path) -> None:
    for part in re.split(r"^== ", path.read_text(), flags=re.MULTILINE):
        if part.startswith("terminal"):
            printed = [line for line in part.splitlines() if not line.startswith(("$ ", "^C(", "#"))]
            assert [line for line in printed if len(line) > COLUMNS] == []
