"""What pip installs is complete: the wheel, built from the sdist, in fresh environments outside the tree.

There is one environment for each extra, and every ``--help`` works in it. README's blocks run from top to bottom where
the extra is enough for them; without any extra, the command names the package to install. All other tests run from the
tree.
"""

import http.client
import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafka_zk.native.loading import Native
from tests import readme
from tests.documented import ROOT, Block
from tests.fresh_environment import PACKAGES, MakeEnvironment, build_wheel, clean_environ, fresh_environment, run
from tests.integration.spark.sessions import LOCAL
from tests.terminal import Shell

pytestmark = pytest.mark.integration

TIMEOUT_S = 60
READS_README = ("spark", "embedded")
"""The extras that the blocks of README install."""
STAYS_IN_THE_TREE = ("*.md", "*.so", "__pycache__/*", "rebalance/py.typed", "registry/py.typed", "spark_jobs/py.typed",
                     "storage/py.typed")  # fmt: skip
"""Files beside the code that an installation does not need."""

NOT_NATIVE = [
    ({"KAFKA_ZK_NATIVE": "0"}, "pure Python: the native module is not built"),
    ({"CC": "/no/such/compiler"}, "pure Python: the native module is not built"),
]

HELPS = """
import json
import click
from click.testing import CliRunner
from kafka_zk.cli.commands import cli

def commands(context, command, path):
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from commands(context, command.get_command(context, name), [*path, name])

for path in commands(click.Context(cli), cli, []):
    print(json.dumps([path, CliRunner().invoke(cli, [*path, "--help"], prog_name="kafka-zk").output]))
"""
"""Prints the help of every command in one process, without the packages that are not installed."""


def extras() -> list[str]:
    """The extras of setup.cfg, and an installation without any."""
    import configparser

    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return ["", *parser["options.extras_require"]]


def ours(extra: str) -> str:
    return f"kafka-zk[{extra}]" if extra else "kafka-zk"


def shipped() -> set[str]:
    """The files that the distributions must contain, by their names there."""
    found = set()
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*"):  # does not follow links to folders
            name = file.relative_to(ROOT)
            if file.is_file() and not any(name.match(pattern) for pattern in STAYS_IN_THE_TREE):
                found.add(str(name) if package == "kafka_zk" else f"kafka_zk/{name}")
    return found


def test_every_file_of_the_packages_is_in_sdist_and_wheel(tmp_path: Path) -> None:
    """The files are code, the page, the scenarios, the field tables of messages, and log4j2's configuration."""
    wheel = build_wheel(tmp_path)
    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    expected = shipped()
    assert "kafka_zk/recorder/web/static/index.html" in expected and "kafka_zk/storage/log/log.py" in expected
    assert expected - in_sdist == set()
    assert expected - in_wheel == set()
    outside = {name for name in in_wheel if not name.startswith("kafka_zk/") and ".dist-info/" not in name}
    assert outside == set(), "the wheel adds more than kafka_zk to site-packages"


def test_the_native_module_is_installed(native: Native, tmp_path: Path, make_environment: MakeEnvironment) -> None:
    """One file works with every Python from 3.11 on."""
    path = make_environment([ours("")])
    shown = run(path / "kafka-zk", "--version", cwd=tmp_path)
    assert shown.endswith(" (native)\n"), native
    [module] = path.parent.glob("lib/*/site-packages/kafka_zk/native/_native.*")
    assert module.name == "_native.abi3.so"
    [about] = path.parent.glob("lib/*/site-packages/kafka_zk-*.dist-info/WHEEL")
    assert "Tag: cp311-abi3-" in about.read_text() and "Root-Is-Purelib: false" in about.read_text()


@pytest.mark.parametrize(("variables", "runs"), NOT_NATIVE)
def test_a_wheel_without_the_native_module_works(
    variables: dict[str, str], runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is left out by request, or because there is no compiler."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    wheel = build_wheel(tmp_path)
    monkeypatch.undo()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} >= shipped()
        assert not [name for name in archive.namelist() if name.endswith(".so")]
    path = fresh_environment(tmp_path / "venv", wheel, [ours("")])
    assert run(path / "kafka-zk", "--version", cwd=tmp_path).endswith(f" ({runs})\n")


def test_a_build_that_requires_the_native_module_fails_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release builds require the module, so no release can lack it."""
    monkeypatch.setenv("KAFKA_ZK_NATIVE", "require")
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(AssertionError, match="/no/such/compiler"):
        build_wheel(tmp_path)
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.parametrize("extra", extras())
def test_every_help_works_with_each_extra(extra: str, tmp_path: Path, make_environment: MakeEnvironment) -> None:
    """An application keeps its own kafka-python, if any: only the extra for tests installs one."""
    path = make_environment([ours(extra)])
    if extra != "test":
        found = run(path / "python", "-c", "from importlib import util; print(util.find_spec('kafka'))", cwd=tmp_path)
        assert found == "None\n"
    helps = [json.loads(line) for line in run(path / "python", "-c", HELPS, cwd=tmp_path).splitlines()]
    assert ["topics", "create"] in [command for command, _ in helps]
    for command, shown in helps:
        assert shown.startswith(f"Usage: {' '.join(['kafka-zk', *command])} "), shown
    assert run(path / "kafka-zk", "--help", cwd=tmp_path).startswith("Usage: kafka-zk ")


@pytest.mark.one_in(2)
@pytest.mark.long
@pytest.mark.parametrize("extra", READS_README)
def test_readme_from_top_to_bottom(
    extra: str, tmp_path: Path, make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks run except those that need the other extra."""
    monkeypatch.setattr(readme.Ports, "free", readme.Ports.other)
    page = [block for block in readme.whole_page() if needs(block) <= {"", extra}]
    if extra == "spark":  # this extra is enough for a cluster as well
        page = readme.whole_page()
    for name, value in LOCAL.items():
        monkeypatch.setenv(name, value)
    path = make_environment([ours(extra), "pytest", "kafka-python>=3.0.12,<4"])
    with readme.Reader(tmp_path, path, whole=False) as reader:
        rans = list(reader.read(page))
    assert [readme.row(ran) for ran in rans if ran.exit_code != 0] == []
    assert len(rans) > sum(len(block.commands) for block in page if block.language == "sh") // 2


def needs(block: Block) -> set[str]:
    """The extras that a block installs."""
    found = (re.match(r"kafka-zk\[([\w,]+)\]", text) for text in block.requirements)
    return {extra for extras in found if extras for extra in extras[1].split(",")}


def test_without_an_extra_up_says_what_to_install(tmp_path: Path, make_environment: MakeEnvironment) -> None:
    command = [str(make_environment([ours("")]) / "kafka-zk"), "up", "--port", "0"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environ(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert "embedded" in sentence and "Traceback" not in done.stderr


@pytest.fixture
def page_port(tmp_path: Path, make_environment: MakeEnvironment) -> Iterator[int]:
    """The port of the page of an installed ``kafka-zk up --web``."""
    environ = readme.person_environ(make_environment([ours("embedded")]))
    with Shell(tmp_path, environ) as terminal:
        started = terminal.run_until("kafka-zk up --brokers 1 --port 0 --web 0 --data ./cluster", "web page at", 120)
        assert started.exit_code == 0, started.shown
        terminal.read_until("/", terminal.read_until("://127.0.0.1:"))
        found = re.search(r"http://127.0.0.1:(\d+)/", terminal.text)
        assert found is not None, terminal.text
        yield int(found[1])
        assert terminal.interrupt().exit_code == 0


def test_the_page_is_served_with_all_its_files(page_port: int) -> None:
    static = ROOT / "kafka_zk" / "recorder" / "web" / "static"
    for path, content in served(page_port, ("/", *(f"/{file.name}" for file in static.iterdir()))):
        assert content == (static / (path[1:] or "index.html")).read_bytes(), path


def served(port: int, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    for path in paths:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, f"{path}: {answer.status}"
        yield path, answer.read()
    connection.close()
