"""A temporary project outside the repository installs its declared dependencies and tests itself with the plugin."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fresh_environment import PACKAGES, MakeEnvironment, run
from tests.integration.processes import ROOT

pytestmark = pytest.mark.integration


def declared(project: Path) -> list[str]:
    """The packages that ``pip install .[test]`` of the project requests."""
    project_table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return [*project_table["dependencies"], *project_table["optional-dependencies"]["test"]]


def folders_named_like_ours(project: Path) -> None:
    """Create folders such as ``storage`` in the project, and a test that imports them beside the installed modules."""
    for name in PACKAGES[1:]:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(f"OWNER = 'the project, {name}'\n")
    imports = "\n".join(f"import {name}, kafka_zk.{name}" for name in PACKAGES[1:])
    checks = "\n".join(f"    assert {name}.OWNER == 'the project, {name}'" for name in PACKAGES[1:])
    (project / "tests" / "test_names.py").write_text(f"{imports}\n\n\ndef test_names():\n{checks}\n")


@pytest.mark.long
def test_a_project_of_somebody_else_tests_itself_with_what_it_declares(
    tmp_path: Path, make_environment: MakeEnvironment
) -> None:
    """The project's folders may have the names of ours: the distribution takes only one name, ``kafka_zk``."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "project", project)
    python = make_environment(declared(project)) / "python"
    folders_named_like_ours(project)
    installed = run(python, "-c", "import kafka_zk; print(kafka_zk.__file__)", cwd=project)
    assert installed.startswith(str(python.parents[1])), "the tests use this tree instead of the installed package"
    shown = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert "4 passed" in shown


def test_without_docker_the_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    """A user requests containers and has no engine."""
    test = tmp_path / "test_one.py"
    test.write_text("def test_one(zookeeper):\n    pass\n")
    environ = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/no-engine.sock", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--containers", str(test)]
    if "kafka_zk" not in _installed_plugins():
        command[3:3] = ["-p", "kafka_zk.testing.plugin"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert "1 skipped" in done.stdout, done.stdout + done.stderr
    assert "--containers: no Docker engine responds" in done.stdout


def _installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.name for entry in entry_points(group="pytest11")}
