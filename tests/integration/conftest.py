"""Fresh environments as a fixture: one for each set of requirements; the wheel is built once for all workers."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fresh_environment import MakeEnvironment, build_wheel, fresh_environment


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> MakeEnvironment:
    """``make_environment(["kafka-zk[embedded]", "pytest"])``: an environment with nothing else; returns its ``bin``."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    made: dict[frozenset[str], Path] = {}

    def make(requirements: Iterable[str]) -> Path:
        wanted = frozenset(requirements)
        if wanted not in made:
            folder = tmp_path_factory.mktemp("environment") / "venv"
            made[wanted] = fresh_environment(folder, build_wheel(shared / "wheel"), sorted(wanted))
        return made[wanted]

    return make
