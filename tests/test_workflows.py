"""The workflows of GitHub Actions pin their actions, and there is a job for every Python in the classifiers.

``make lint`` runs actionlint and zizmor on them.
"""

import configparser
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".github" / "workflows"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def workflow(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def test_actions_are_pinned_by_the_hash_of_a_release() -> None:
    used = {file.name: re.findall(r"uses: (.*)", file.read_text()) for file in FOLDER.glob("*.yml")}
    assert all(used.values())
    loose = [f"{name}: {each}" for name, found in used.items() for each in found if not PINNED.fullmatch(each)]
    assert loose == []


def test_an_action_has_the_same_hash_everywhere() -> None:
    found = {each for file in FOLDER.glob("*.yml") for each in re.findall(r"uses: (.*)", file.read_text())}
    assert len(found) == len({each.partition("@")[0] for each in found})


def test_every_python_that_the_package_names_has_a_job() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    named = set(re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"]))
    jobs = workflow("ci.yml")["jobs"]
    assert named <= set(jobs["test"]["strategy"]["matrix"]["python"])
    installed = jobs["installed"]["strategy"]["matrix"]
    assert {"3.11", "3.12", "3.13", "3.14", "3.14t", "3.15"} == set(installed["python"])
    assert any(each["system"].startswith("macos") for each in installed["include"])


def test_installed_distributions_are_tested_outside_of_the_checkout() -> None:
    """``python -m pytest`` imports from the current folder first, and the checkout has a ``kafka_zk``. The project
    declares what its tests need.
    """
    jobs = workflow("ci.yml")["jobs"]
    for job in ("installed", "musl"):
        steps = "\n".join(step.get("run", "") for step in jobs[job]["steps"])
        assert re.search(r"pip install --find-links .*\[test\]", steps), job
        assert re.search(r"cd \S*/project\b.*python -m pytest", steps, re.DOTALL), job
        assert "pytest examples" not in steps, job


def test_the_wheels_of_a_release_are_those_that_are_tested() -> None:
    jobs = workflow("ci.yml")["jobs"]
    assert "make wheels" in [step.get("run") for step in jobs["wheels"]["steps"]]
    assert {jobs[job]["needs"] for job in ("installed", "musl")} == {"wheels"}


def test_only_the_jobs_that_need_it_may_write() -> None:
    """Jobs that run this repository's code have read-only access."""
    for name in ("ci.yml", "release.yml"):
        found = workflow(name)
        assert found["permissions"] == {}
        for job, about in found["jobs"].items():
            runs_our_code = any("make" in str(step) or "checkout" in str(step) for step in about["steps"])
            if runs_our_code:
                assert about["permissions"] == {"contents": "read"}, job


def test_a_job_without_a_checkout_asks_no_local_git() -> None:
    for name in ("ci.yml", "release.yml"):
        for job, about in workflow(name)["jobs"].items():
            text = str(about["steps"])
            assert "actions/checkout" in text or not re.search(r"--notes-from-tag|\bgit ", text), job


def test_both_distributions_are_uploaded() -> None:
    matrix = workflow("release.yml")["jobs"]["upload"]["strategy"]["matrix"]["include"]
    assert {each["distribution"] for each in matrix} == {"kafka-zk", "kafka-zk-zookeeper"}
