"""``kafka-zk up --secure`` accepts only clients that have its files; a later start reuses them."""

import json
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import pytest

from kafka_zk.embedded.probe import ask_broker
from tests.documented import blocks
from tests.integration.processes import COMMAND, ENVIRON, kafka_zk, running, start, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

WAIT_S = 60


class Secured(NamedTuple):
    process: "Popen[str]"
    said: list[dict[str, Any]]

    @property
    def ready(self) -> dict[str, Any]:
        return self.said[-1]

    @property
    def options(self) -> tuple[str, ...]:
        return ("--bootstrap-server", self.ready["bootstrap"], "--command-config", self.ready["client_properties"])

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0


def up(*arguments: str | Path) -> Secured:
    process = start("up", "--secure", "--port", "0", "--json", *arguments)
    assert process.stdout and process.stderr
    said: list[dict[str, Any]] = []
    for line in process.stdout:
        said.append(json.loads(line))
        if said[-1]["event"] == "ready":
            return Secured(process, said)
    raise AssertionError(process.stderr.read())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured") / "data"


@pytest.fixture(scope="module")
def secured(data: Path) -> Iterator[Secured]:
    """Three brokers behind proxies, and therefore with a listener of their own."""
    made = up("--data", data, "--proxies", "-o", "offsets.topic.num.partitions=3")
    yield made
    made.end()


def ok(*arguments: str | Path, stdin: str = "") -> str:
    done = kafka_zk(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_with_the_file_are_let_in(secured: Secured) -> None:
    ok("topics", "create", "--topic", "flights", "--partitions", "3", "--replication-factor", "3", *secured.options)
    ok("produce", "--topic", "flights", *secured.options, stdin="a\nb\nc\n")
    read = ok("consume", "--topic", "flights", "--from-beginning", "--max-messages", "3", *secured.options)
    assert sorted(read.split()) == ["a", "b", "c"]
    in_sync = re.findall(r"Isr: ([0-9,]+)", ok("topics", "describe", "--topic", "flights", *secured.options))
    assert [len(each.split(",")) for each in in_sync] == [3, 3, 3]


def test_what_is_shown_to_a_developer_works(secured: Secured, data: Path) -> None:
    """Run the block of docs/how-to/security.md beside the data directory."""
    [shown] = [block for block in blocks("docs/how-to/security.md") if block.mark == "secured commands"]
    script = "\n".join([f'kafka-zk() {{ {shlex.join(COMMAND)} "$@"; }}', "set -e -o pipefail", *shown.commands])
    (data.parent / "cluster").symlink_to(data)
    environ = {**ENVIRON, "KAFKA_ZK_BOOTSTRAP": secured.ready["bootstrap"]}
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=data.parent,
        env=environ,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("hello\n"), done.stderr


def test_nobody_else_is_let_in(secured: Secured) -> None:
    for address in secured.ready["bootstrap"].split(","):
        assert ask_broker("127.0.0.1", int(address.rpartition(":")[2])) is None
    done = kafka_zk("topics", "list", "--bootstrap-server", secured.ready["bootstrap"].split(",")[0])
    assert done.returncode == 1


def test_no_password_is_shown_anywhere_but_in_private_files(secured: Secured, data: Path) -> None:
    by_user: dict[str, str] = json.loads((data / "security" / "passwords.json").read_text())
    assert len(by_user) == 2 and not any(password in json.dumps(secured.said) for password in by_user.values())
    passwords = [password.encode() for password in by_user.values()]
    pids = [event["pid"] for event in secured.said if "pid" in event]
    for path in [*data.rglob("*"), *(Path(f"/proc/{pid}/cmdline") for pid in (secured.process.pid, *pids))]:
        if path.is_file() and any(password in path.read_bytes() for password in passwords):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_person_breaks_a_secured_cluster_as_any_other(secured: Secured, data: Path) -> None:
    """The producers and members that ``up`` starts log in, too."""
    ok("break", "produce", "orders", "--rate", "50", "--data", data)
    ok("break", "join", "board", "--topic", "orders", "--type", "broker", "--data", data)
    described = ("groups", "describe", "--group", "board", "--json", *secured.options)

    def reads() -> bool:
        rows = json.loads(kafka_zk(*described).stdout or "[]")
        return any((row["current_offset"] or 0) > 0 for row in rows)

    wait_for(reads, "a committed offset")
    ok("break", "kill", "1", "--data", data)
    ok("break", "restart", "1", "--data", data)
    wait_for(lambda: "Isr: " in ok("topics", "describe", "--topic", "orders", *secured.options), "the topic")


@pytest.mark.long
def test_a_later_start_goes_on_with_the_same_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = up("--data", data, "--brokers", "1")
    ok("produce", "--topic", "kept", *first.options, stdin="a\n")
    copied = shutil.copy(first.ready["client_properties"], tmp_path / "copied.properties")
    kept = {path.name: path.read_bytes() for path in (data / "security").glob("*.pem")}
    first.end()

    refused = kafka_zk("up", "--data", data, "--brokers", "1", "--port", "0")
    assert refused.returncode == 1 and "is secured, and without --secure it would be open" in refused.stderr

    again = up("--data", data, "--brokers", "1")
    assert {path.name: path.read_bytes() for path in (data / "security").glob("*.pem")} == kept
    where = ("--bootstrap-server", again.ready["bootstrap"], "--command-config", copied)
    assert ok("consume", "--topic", "kept", "--from-beginning", "--max-messages", "1", *where) == "a\n"
    again.end()
    assert not any(running(event["pid"]) for event in again.said if "pid" in event)


@pytest.mark.long
def test_an_open_cluster_is_secured_and_says_so(tmp_path: Path) -> None:
    opened = start("up", "--data", tmp_path, "--brokers", "1", "--port", "0", "--json")
    assert opened.stdout
    ready = next(event for event in map(json.loads, opened.stdout) if event["event"] == "ready")
    ok("produce", "--topic", "kept", "--bootstrap-server", ready["bootstrap"], stdin="a\n")
    opened.terminate()
    opened.communicate(timeout=WAIT_S)

    secured = up("--data", tmp_path, "--brokers", "1")
    assert ok("consume", "--topic", "kept", "--from-beginning", "--max-messages", "1", *secured.options) == "a\n"
    secured.process.terminate()
    assert "the cluster was open; from now on clients have to log in" in secured.process.communicate(timeout=WAIT_S)[1]


@pytest.mark.parametrize("key", ["listeners", "security.inter.broker.protocol"])
def test_an_override_that_would_open_it_is_refused(tmp_path: Path, key: str) -> None:
    done = kafka_zk("up", "--secure", "--data", tmp_path / "data", "-o", f"{key}=PLAINTEXT")
    assert done.returncode == 2 and f"-o {key}: up sets it for each broker" in done.stderr
    assert not (tmp_path / "data").exists()
