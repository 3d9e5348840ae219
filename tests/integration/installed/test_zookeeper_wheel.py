"""The distribution kafka-zk-zookeeper contains the pinned jars, and the licence and notice of each.

It is installed from docker/zookeeper-wheel. After a change there, ``make venv`` must install it again.
"""

import hashlib
import re
import subprocess
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import kafka_zk_zookeeper
import pytest

from kafka_zk.embedded.jars import ARTIFACTS, TLS_ARTIFACTS
from tests.documented import ROOT

HOME = ROOT / "docker" / "zookeeper-wheel"
INSTALLED = distribution("kafka-zk-zookeeper")
TEXTS = {
    "Apache-2.0": "Apache License Version 2.0",
    "BSD-3-Clause": "Redistribution and use in source and binary forms, with or without modification",
    "CC-PDDC": "certifies that, to the best of his knowledge, the work of authorship identified is in the public",
    "MIT": "Permission is hereby granted, free of charge, to any person obtaining a copy",
}
"""SPDX identifier -> words that occur in the licence's text, without line breaks."""


class Jar(NamedTuple):
    artifact: str
    name: str
    sha256: str
    project: str
    licences: frozenset[str]


def pinned() -> list[Jar]:
    """The lines of jars.txt."""
    found = []
    for line in (HOME / "jars.txt").read_text().splitlines():
        if not line.startswith("#"):
            coordinates, sha256, project, expression = line.split(maxsplit=3)
            _, artifact, version = coordinates.split(":")
            found.append(Jar(artifact, f"{artifact}-{version}.jar", sha256, project, terms(expression)))
    return found


def terms(expression: str) -> frozenset[str]:
    return frozenset(expression.split(" AND "))


def licence_of(text: str) -> str:
    """The SPDX identifier of a text."""
    words = re.sub(r"[\s*/]+", " ", text)
    [found] = [name for name, part in TEXTS.items() if part in words]
    return found


def texts(project: str) -> dict[str, str]:
    """The files of a project in the installed metadata: name -> text."""
    names = [name for name in INSTALLED.metadata.get_all("License-File") or () if Path(name).parts[-2] == project]
    return {Path(name).name: INSTALLED.read_text(f"licenses/{name}") or "" for name in names}


def test_the_jars_are_those_that_are_pinned() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kafka_zk_zookeeper.jars()}
    assert found == {jar.name: jar.sha256 for jar in pinned()}


def test_they_are_those_that_are_taken_from_pyspark() -> None:
    assert {jar.artifact for jar in pinned()} == {*ARTIFACTS, *TLS_ARTIFACTS}


def test_no_jar_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "*.jar"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout == ""


def test_the_license_expression_names_what_the_jars_contain() -> None:
    contained = frozenset.union(*(jar.licences for jar in pinned()))
    assert terms(INSTALLED.metadata["License-Expression"]) == contained


@pytest.mark.parametrize("project", sorted({jar.project for jar in pinned()}))
def test_each_licence_has_its_text_and_each_text_its_licence(project: str) -> None:
    named = frozenset.union(*(jar.licences for jar in pinned() if jar.project == project))
    found = texts(project)
    assert {licence_of(text) for name, text in found.items() if name.startswith("LICENSE")} == named
    assert {name: (HOME / "licenses" / project / name).read_text() for name in found} == found


@pytest.mark.parametrize("jar", pinned(), ids=lambda jar: jar.artifact)
def test_a_text_inside_a_jar_is_among_those_of_its_project(jar: Jar) -> None:
    [path] = [path for path in kafka_zk_zookeeper.jars() if path.name == jar.name]
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"META-INF/(LICENSE|NOTICE)(\.\w+)?", name)]
        for name in names:
            assert archive.read(name).decode().replace("\r\n", "\n") in texts(jar.project).values(), name
