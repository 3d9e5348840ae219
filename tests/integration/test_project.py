"""A throw-away project outside of the repository: it installs the package and tests itself with the plugin."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.integration.processes import ROOT

pytestmark = pytest.mark.integration

PACKAGES = ("kafka_zk", "rebalance", "registry", "spark_jobs", "storage")
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
TIMEOUT_S = 600


def run(*command: str | Path, cwd: Path) -> str:
    ours = ("PYTHON", "PYTEST", "VIRTUAL_ENV")
    environ = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    arguments = [str(part) for part in command]
    done = subprocess.run(
        arguments, cwd=cwd, env=environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fresh_environment(folder: Path) -> Path:
    """A virtual environment with the package built of this tree and installed; the dependencies, which are not what is
    tested here, are those of the environment that runs the tests."""
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in FILES:
        shutil.copy(ROOT / file, source)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    [wheel] = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-deps", wheel, cwd=folder)
    site_packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    (Path(site_packages) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def folders_named_like_ours(project: Path) -> None:
    """A project's own ``storage`` and so on, and a test that finds them beside what is installed."""
    for name in PACKAGES[1:]:
        (project / name).mkdir()
        (project / name / "__init__.py").write_text(f"OWNER = 'the project, {name}'\n")
    imports = "\n".join(f"import {name}, kafka_zk.{name}" for name in PACKAGES[1:])
    checks = "\n".join(f"    assert {name}.OWNER == 'the project, {name}'" for name in PACKAGES[1:])
    (project / "tests" / "test_names.py").write_text(f"{imports}\n\n\ndef test_names():\n{checks}\n")


def test_a_project_of_somebody_else_tests_itself_with_the_installed_plugin(tmp_path: Path) -> None:
    """Its own folders may have the names of ours: the distribution takes one name, ``kafka_zk``."""
    python = fresh_environment(tmp_path)
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "project", project)
    folders_named_like_ours(project)
    installed = run(python, "-c", "import kafka_zk; print(kafka_zk.__file__)", cwd=project)
    assert installed.startswith(str(tmp_path / "venv")), "the package as installed, not this tree"
    shown = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project)
    assert "4 passed" in shown


def test_without_docker_the_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    """What a user sees who asks for containers and has no engine."""
    test = tmp_path / "test_one.py"
    test.write_text("def test_one(zookeeper):\n    pass\n")
    environ = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/no-engine.sock", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--containers", str(test)]
    if "kafka_zk" not in _installed_plugins():
        command[3:3] = ["-p", "kafka_zk.testing.plugin"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert "1 skipped" in done.stdout, done.stdout + done.stderr
    assert "--containers: no Docker engine answers" in done.stdout


def _installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.name for entry in entry_points(group="pytest11")}
