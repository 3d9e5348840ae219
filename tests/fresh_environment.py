"""Fresh virtual environments with exactly what an extra declares, made in seconds.

An sdist is built from this tree, a wheel from the sdist, and the wheel is installed. Its direct and indirect
requirements are not downloaded again, but linked from the environment that runs the tests. Nothing else is installed,
so an import of an undeclared requirement fails, as it would for a user.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.locks import alone

ROOT = Path(__file__).parents[1]
PACKAGES = ("kafka_zk", "rebalance", "registry", "spark_jobs", "storage")
FILES = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE")
OURS = "kafka-zk"
TIMEOUT_S = 300
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
MakeEnvironment = Callable[[Iterable[str]], Path]
"""The fixture ``make_environment``."""
HIDDEN = ("PYTHON", "PYTEST", "VIRTUAL_ENV")
TEMPORARY_ROOT = "PYTEST_DEBUG_TEMPROOT"
"""pytest's variable that names the parent of its temporary folders."""


def clean_environ() -> dict[str, str]:
    """The environment of a user's shell, without variables that lead to this tree or to the tests. Only pytest's folder
    for temporary folders stays the same."""
    return {key: value for key, value in os.environ.items() if not key.startswith(HIDDEN) or key == TEMPORARY_ROOT}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command that must succeed, and return what it printed."""
    arguments = [str(part) for part in command]
    done = subprocess.run(
        arguments, cwd=cwd, env=clean_environ(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """Build this tree's sdist in ``folder``, and the wheel from it, unless they exist. Several processes may call this
    concurrently."""
    with alone(folder):
        if not list(folder.glob("*.whl")):
            source = folder / "source"
            copy_source(source)
            sdist = _build_sdist(source, folder)
            run(*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, sdist, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def copy_source(folder: Path) -> None:
    """Copy the sources of the distributions, without earlier build results."""
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / package, folder / package, symlinks=True, ignore=ignore)
    for file in FILES:
        shutil.copy(ROOT / file, folder)


def _build_sdist(source: Path, folder: Path) -> Path:
    """Build the sdist like ``python -m build --sdist``: with only the backend that pyproject.toml names."""
    build_system = tomllib.loads((source / "pyproject.toml").read_text())["build-system"]
    backend = folder / "backend"
    run(*PIP, "install", "--quiet", "--target", backend, *build_system["requires"], cwd=folder)
    program = "import importlib, sys; sys.path.insert(0, sys.argv[1]); "
    program += "importlib.import_module(sys.argv[2]).build_sdist(sys.argv[3])"
    run(sys.executable, "-I", "-c", program, backend, build_system["build-backend"], folder, cwd=source)
    [sdist] = folder.glob("*.tar.gz")
    return sdist


def fresh_environment(folder: Path, wheel: Path, requirements: Iterable[str]) -> Path:
    """Make a virtual environment in ``folder`` that satisfies ``requirements`` and has nothing else; it includes
    kafka-zk only if that is one of them. Returns its ``bin``.
    """
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    [site_packages] = folder.glob("lib/python*/site-packages")
    wanted = [Requirement(text) for text in requirements]
    own: Distribution | None = None
    if any(canonicalize_name(requirement.name) == OURS for requirement in wanted):
        run(*PIP, "--quiet", "--python", python, "install", "--no-deps", "--no-compile", wheel, cwd=folder)
        [metadata] = site_packages.glob("kafka_zk-*.dist-info")
        own = PathDistribution(metadata)
    for name in sorted(_closure(wanted, own) - {OURS}):
        _link(distribution(name), site_packages)
    return python.parent


def _closure(wanted: Iterable[Requirement], own: Distribution | None) -> set[str]:
    """The names of all direct and indirect requirements. Raises: PackageNotFoundError if the tests' environment lacks
    one."""
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, extra) for requirement in wanted for extra in ("", *sorted(requirement.extras))]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        names.add(name)
        found = own if name == OURS and own else distribution(name)
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(needed, each) for each in ("", *sorted(needed.extras))]
    return names


def _link(found: Distribution, site_packages: Path) -> None:
    """Link the files of a distribution. A folder that several distributions share (``google``) is linked with the files
    of all."""
    origin = Path(str(found.locate_file("")))
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    assert tops, f"{found.name} has no list of its files"
    for top in tops:
        source, target = origin / top, site_packages / top
        if not target.exists():
            target.symlink_to(source)
