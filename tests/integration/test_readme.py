"""What README.md and docs/clients.md show works: their blocks are run as they stand, on other ports.

A block is marked by a comment before it: ``runs: NAME`` says which test runs it, ``not run here: WHY`` excuses it.
"""

import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_zk.embedded.ports import can_listen, free_port
from tests.integration.processes import ENVIRON, ROOT
from tests.integration.spark import LOCAL

pytestmark = pytest.mark.integration

TEXTS = {name: (ROOT / name).read_text() for name in ("README.md", "docs/clients.md")}
UNMARKED = {"README.md": 1, "docs/clients.md": 0}
"""Blocks that are no code: the picture."""
BLOCK = re.compile(r"<!-- ([^>]*) -->\n```(\w+)\n(.*?)```", re.DOTALL)
TIMEOUT_S = 900


class Running(NamedTuple):
    folder: Path
    environ: dict[str, str]
    bootstrap: str


def blocks(name: str) -> list[str]:
    """The texts of the blocks with this mark."""
    found = [text for mark, _, text in BLOCK.findall("\n".join(TEXTS.values())) if mark == f"runs: {name}"]
    assert found, f"no block is marked 'runs: {name}'"
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The README's ``kafka-zk up`` in a folder of its own, on free ports; ``kafka-zk`` is on PATH there."""
    folder = tmp_path_factory.mktemp("readme")
    shim = folder / "bin" / "kafka-zk"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_zk "$@"\n')
    shim.chmod(0o755)
    port, zookeeper_port = _three_neighbours(), free_port()
    environ = {
        **ENVIRON,
        "PATH": f"{shim.parent}:{ENVIRON['PATH']}",
        **LOCAL,
        "KAFKA_ZK_BOOTSTRAP": f"127.0.0.1:{port}",
        "KAFKA_ZK_ZOOKEEPER": f"127.0.0.1:{zookeeper_port}",
    }
    (up,) = blocks("up")
    command = f"exec {up.strip().replace('9092', str(port))} --zookeeper-port {zookeeper_port}"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True, cwd=folder, env=environ) as process:
        try:
            assert process.stdout
            assert any(line.startswith("ready bootstrap=") for line in process.stdout)
            yield Running(folder, environ, f"127.0.0.1:{port}")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _three_neighbours() -> int:
    """A port whose two neighbours are free as well."""
    while True:
        port = free_port()
        if port + 2 < 65536 and all(can_listen(port + number) for number in range(3)):
            return port


def run_shell(text: str, running: Running) -> str:
    text = text.replace("127.0.0.1:9092", running.bootstrap)
    text = text.replace("127.0.0.1:2181", running.environ["KAFKA_ZK_ZOOKEEPER"])
    done = subprocess.run(
        ["sh", "-e", "-c", text],
        capture_output=True,
        text=True,
        cwd=running.folder,
        env=running.environ,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", TEXTS)
def test_every_block_is_marked(name: str) -> None:
    marked = BLOCK.findall(TEXTS[name])
    assert TEXTS[name].count("```") == 2 * (len(marked) + UNMARKED[name]), "a block without a mark"
    assert {mark.split(":")[0] for mark, _, _ in marked} == {"runs", "not run here"}


def test_the_two_commands_are_targets_of_make() -> None:
    (text,) = blocks("clean clone")
    commands = [line.split("#")[0].split() for line in text.strip().splitlines()]
    assert [command[0] for command in commands] == ["make", "make"]
    for command in commands:
        subprocess.run([*command, "--dry-run"], cwd=ROOT, capture_output=True, check=True, timeout=TIMEOUT_S)


def test_the_commands_work_on_the_cluster_of_up(running: Running) -> None:
    (text,) = blocks("commands")
    shown = run_shell(text, running)
    assert "Created topic greetings." in shown
    assert {"en\thello", "fr\tbonjour"} <= set(shown.splitlines())


def test_a_group_is_joined_and_watched(running: Running) -> None:
    run_shell("echo hello | kafka-zk produce --topic greetings", running)
    (text,) = blocks("groups")
    shown = run_shell(text, running)
    assert " joined: " in shown and "· silent" in shown
    assert "readers greetings" in " ".join(shown.split()), "the table of groups describe"


def test_spark_extracts_and_goes_on(running: Running) -> None:
    run_shell("echo hello | kafka-zk produce --topic greetings", running)
    (text,) = blocks("spark")
    shown = run_shell(text, running)
    folders = [line for line in shown.splitlines() if line.startswith("range=greetings@")]
    assert len(folders) == 2 and folders == sorted(folders)
    assert "lake greetings" in " ".join(shown.split()), "the table of groups describe"


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_kcat_writes_and_reads(running: Running) -> None:
    (text,) = blocks("kcat")
    assert "hello" in run_shell(text, running).splitlines()


@pytest.mark.parametrize("text", blocks("python"), ids=lambda text: re.findall(r"(?:from|import) (\w+)", text)[0])
def test_each_client_reads_a_record(text: str, running: Running) -> None:
    run_shell("echo word | kafka-zk produce --topic greetings --partition 0", running)
    body = textwrap.indent(text, "    ")
    program = f"import asyncio\nasync def main():\n{body}" if "await " in text else text
    if "await " in text:
        program += "    await consumer.stop()\nasyncio.run(main())\n"
    script = running.folder / "snippet.py"
    program = program.replace("127.0.0.1:9092", running.bootstrap)
    script.write_text(program.replace("127.0.0.1:2181", running.environ["KAFKA_ZK_ZOOKEEPER"]))
    shown = run_shell(f'"{sys.executable}" -W ignore {script}', running)
    assert shown.startswith("b'"), shown
