"""``kafka-zk env``: one screen, JSON, and an exit code that depends only on ``--require``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_zk.cli import installation
from kafka_zk.cli.installation import Finding
from kafka_zk.cli.main import run

ROOT = Path(__file__).parents[3]
FOUND = [
    Finding("kafka-zk", "0.1.0", "/site-packages/kafka_zk"),
    Finding("java", "17.0.2, from PATH", "/usr/bin/java"),
    Finding("kcat", None, advice="install it"),
    Finding("spark", "installed"),
    Finding("gssapi", None, advice="pip install 'kafka-zk[gssapi]'"),
]
HEAVY = ("twisted", "kazoo", "rich", "pyspark", "pandas", "asyncio")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "findings", lambda: FOUND)


def test_the_screen_names_what_is_there_and_what_to_do_about_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME      FOUND              WHERE",
        "kafka-zk  0.1.0              /site-packages/kafka_zk",
        "java      17.0.2, from PATH  /usr/bin/java",
        "kcat      -                  -",
        "extras: spark",
        "no kcat: install it",
        "no gssapi: pip install 'kafka-zk[gssapi]'",
    ]


def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [Finding(**row) for row in rows] == FOUND


def test_only_what_is_required_decides_about_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "--require", "java", "--require", "spark"]) == 0
    assert run(["env", "--require", "java", "--require", "gssapi", "--require", "kcat"]) == 1
    assert capsys.readouterr().err == "Error: missing: kcat, gssapi\n"


def test_a_name_that_nobody_knows_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["env", "--require", "jave"]) == 2
    assert "did you mean java?" in capsys.readouterr().err


def test_it_starts_no_java_and_imports_nothing_heavy(tmp_path: Path) -> None:
    """The command thus stays quick on a busy machine. It would run Java only if Java's folder did not state the
    version.
    """
    started = tmp_path / "started"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {started}\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="17"\n')
    program = (
        "import sys; from kafka_zk.cli.main import run; code = run(['env', '--json', '--require', 'java']); "
        f"print(code, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    environ = {**os.environ, "JAVA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environ, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 []"
    assert not started.exists()
