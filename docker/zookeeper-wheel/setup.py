"""Puts the jars of jars.txt into the wheel, from Maven's local repository or else from Maven Central. Each jar must
have the SHA-256 in jars.txt. Metadata: setup.cfg."""

import hashlib
import os
import shutil
import sys
import urllib.request
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CENTRAL = "repo1.maven.org"
LOCAL = Path.home() / ".m2" / "repository"


class BuildWithJars(build_py):
    def run(self) -> None:
        super().run()
        folder = Path(self.build_lib, "kafka_zk_zookeeper", "jars")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for line in Path("jars.txt").read_text().splitlines():
            if not line.startswith("#"):
                group, artifact, version = line.split()[0].split(":")
                name = f"{artifact}-{version}.jar"
                path = f"{group.replace('.', '/')}/{artifact}/{version}/{name}"
                (folder / name).write_bytes(pinned(path, line.split()[1]))


def pinned(path: str, sha256: str) -> bytes:
    local = LOCAL / path
    if os.path.isfile(local) and hashlib.sha256(local.read_bytes()).hexdigest() == sha256:
        return local.read_bytes()
    with urllib.request.urlopen(f"https://{CENTRAL}/maven2/{path}", timeout=60) as answer:
        content: bytes = answer.read()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        sys.exit(f"{path} has SHA-256 {found}, but jars.txt says {sha256}")
    return content


setup(cmdclass={"build_py": BuildWithJars})
