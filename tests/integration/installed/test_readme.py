"""The blocks of README.md and docs/tutorials/quickstart.md work in environments that their first lines install.

A block of shell runs on its own cluster, on a terminal, within a time limit. A test of ``make soak`` runs both pages
from top to bottom, in a fresh clone and with everything installed by pip; see ``tests.readme``.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import readme
from tests.documented import PAGES, ROOT, Block, block, blocks, outputs, programs
from tests.fresh_environment import MakeEnvironment
from tests.integration.spark.sessions import LOCAL
from tests.terminal import Shell

pytestmark = pytest.mark.integration

TIMEOUT_S = 120
HOW = {
    "clean clone", "install", "up", "commands", "more commands", "groups", "spark", "more spark", "compare", "teach",
    "pytest", "python", "kcat", "java", "franz-go", "sarama", "kafkajs",
}  # fmt: skip
COMMENTS = ("# ", "// ")
SHOWN = {mark: lines for page in PAGES for mark, lines in outputs(page).items()}
PROGRAMS = [
    pytest.param(
        program, id="-".join(program.requirements), marks=[pytest.mark.spark] if "spark" in program.text else []
    )
    for page in readme.PAGES
    for program in programs(page)
]


class Running(NamedTuple):
    """A cluster started by README's ``up``, and the user's terminal."""

    ports: readme.Ports
    terminal: Shell

    def type(self, mark: str) -> str:
        """Run a block's commands, one by one; returns their whole output."""
        shown = []
        for command in self.ports.move(block(mark)).commands:
            ran = self.terminal.run(command, TIMEOUT_S)
            assert ran.exit_code == 0, f"{command}: {ran.exit_code}\n{ran.shown}"
            shown.append(ran.shown)
        return "".join(shown)


@pytest.fixture
def running(request: pytest.FixtureRequest, tmp_path: Path, make_environment: MakeEnvironment) -> Iterator[Running]:
    """A cluster in a folder of its own, on free ports, for the block under test (the parameter)."""
    path = make_environment({*block("up").requirements, *block(request.param).requirements})
    ports = readme.Ports.other()
    environ = {**readme.person_environ(path), **LOCAL, **ports.environ}
    with Shell(tmp_path, environ) as up, Shell(tmp_path, environ) as terminal:
        [command] = block("up").commands
        started = up.run_until(ports.up(command), readme.READY, TIMEOUT_S)
        assert started.exit_code == 0, started.shown
        yield Running(ports, terminal)
        assert up.interrupt().exit_code == 0


def shows(mark: str, printed: str) -> bool:
    """Whether a block printed the lines that the page shows, for any width of the terminal and of the columns."""
    words = " ".join(printed.split())
    return all(" ".join(line.split()) in words for line in SHOWN[mark])


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_how_it_is_run_and_what_it_needs(page: str) -> None:
    found = blocks(page)
    assert (ROOT / page).read_text().count("```") == 2 * (len(found) + len(outputs(page))), "a block without a mark"
    assert {each.mark for each in found} <= HOW
    silent = [each.text for each in found if each.mark not in readme.INSTALLING and not each.text.startswith(COMMENTS)]
    assert not silent, "a block whose first line does not say what to install"


def test_the_commands_of_make_are_targets() -> None:
    typed = [*block("clean clone").commands, *block("compare").commands]
    commands = [command.split("#")[0].split() for command in typed]
    assert [command[0] for command in commands] == ["make", "make", "make"]
    for command in commands:
        subprocess.run([*command, "--dry-run"], cwd=ROOT, capture_output=True, check=True, timeout=TIMEOUT_S)


@pytest.mark.long
def test_what_install_installs_is_an_extra_and_has_the_command(make_environment: MakeEnvironment) -> None:
    [install] = [command for command in block("install").commands if command.startswith("pip install")]
    path = make_environment(Block("", "", "sh", f"# {install}").requirements)
    [shown] = [command for command in block("install").commands if command.startswith("kafka-zk")]
    done = subprocess.run(
        ["sh", "-c", f"{path}/{shown}"], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    assert re.search(r"^zookeeper +3\.\d", done.stdout, re.MULTILINE), done.stdout


def test_commands_are_timed_from_top_to_bottom_until_one_fails(
    tmp_path: Path, make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run ``python -m tests.readme`` on a page of three blocks. Other ports are used, because another test may take
    README's own ports between the check and the start.
    """
    monkeypatch.setattr(readme.Ports, "free", readme.Ports.other)
    path = make_environment(block("up").requirements)
    fails = Block("", "commands", "sh", "kafka-zk topics list\nkafka-zk nonsense\nkafka-zk topics list\n")
    with readme.Reader(tmp_path, path, whole=False) as reader:
        rans = list(reader.read([block("clean clone"), block("up"), fails]))
    assert [ran.exit_code for ran in rans] == [0, 0, 2], f"a command ran after a failure: {rans}"
    assert all(0 < ran.silence_s <= ran.seconds for ran in rans)
    assert "exit code 2:\n  | Usage: kafka-zk" in readme.row(rans[2])


@pytest.mark.parametrize("running", ["commands"], indirect=True)
def test_the_commands_work_on_the_cluster_of_up(running: Running) -> None:
    shown = running.type("commands")
    assert "Created topic greetings." in shown
    assert {"hello", "bonjour"} <= set(shown.splitlines())
    assert {"en\thello", "fr\tbonjour"} <= set(running.type("more commands").splitlines())


@pytest.mark.long
@pytest.mark.parametrize("running", ["groups"], indirect=True)
def test_a_group_is_joined_and_watched(running: Running) -> None:
    shown = running.type("groups")
    assert {"one", "two", "three"} <= set(shown.splitlines())
    assert "rebalance 1" in shown or " joined: " in shown, "the watch shows no rebalance"
    assert "readers" in shown.splitlines()[-2], "the last lines are not the table of groups describe"


@pytest.mark.spark
@pytest.mark.parametrize("running", ["spark"], indirect=True)
def test_spark_extracts_and_goes_on(running: Running, tmp_path: Path) -> None:
    assert shows("spark", running.type("spark"))
    shown = running.type("more spark")
    assert len(list((tmp_path / "lake").glob("range=words@*"))) == 2
    assert shown.count("range=words@") >= 2, shown


def test_an_outage_is_played(tmp_path: Path, make_environment: MakeEnvironment) -> None:
    path = make_environment(block("teach").requirements)
    with Shell(tmp_path, readme.person_environ(path)) as terminal:
        done = [terminal.run(command, TIMEOUT_S) for command in block("teach").commands]
    assert [each.exit_code for each in done] == [0] * len(done), done
    assert shows("teach", done[-1].shown), done[-1].shown


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_runs_alone(
    program: Block, request: pytest.FixtureRequest, tmp_path: Path, make_environment: MakeEnvironment
) -> None:
    if "127.0.0.1:" in program.text:
        cluster = request.getfixturevalue("kafka_zk_cluster")
        program = program.elsewhere(cluster.bootstrap, cluster.zookeeper_connect)
    python = make_environment(program.requirements) / "python"
    file = tmp_path / "test_program.py"
    file.write_text(program.text)
    module = ["-m", "pytest", "-p", "no:cacheprovider"] if program.mark == "pytest" else []
    done = subprocess.run(
        [python, *module, file],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**readme.person_environ(python.parent), **LOCAL},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expected = {"pytest": SHOWN["pytest"][0], "python": "orders"}[program.mark]
    assert ("hello" if "spark" in program.text else expected) in done.stdout
