"""An index shows README.md with links to the files of the version, and the project's addresses."""

import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from kafka_zk import __version__
from tests.release.description import write_absolute_links, write_addresses

ROOT = Path(__file__).parents[2]
WHERE = "https://example.org/someone/kafka-zk"
NEEDED = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "kafka_zk/__init__.py")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files from which the metadata is built."""
    (tmp_path / "kafka_zk").mkdir()
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "kafka_zk" / "native", tmp_path / "kafka_zk" / "native")
    return tmp_path


def metadata(project: Path) -> tuple[Message, str]:
    """The metadata as a build writes it: the fields, then the description."""
    (project / "made").mkdir()
    program = "from setuptools.build_meta import prepare_metadata_for_build_wheel as prepare; prepare('made')"
    done = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [file] = project.glob("made/*.dist-info/METADATA")
    about = BytesParser().parsebytes(file.read_bytes())
    text = about.get_payload(decode=True)
    assert isinstance(text, bytes)
    return about, text.decode()


def test_with_an_address_every_link_leads_to_a_file_of_the_version(project: Path) -> None:
    write_addresses(project, "https://example.org/before")
    write_addresses(project, WHERE)
    write_absolute_links(project)
    about, shown = metadata(project)
    links = LINK.findall(shown)
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    own = [link.removeprefix(f"{WHERE}/") for link in links if link.startswith(WHERE)]
    assert len(own) > 20
    for kind, version, path in (link.split("/", 2) for link in own):
        assert (ROOT / path.partition("#")[0]).exists() and version == f"v{__version__}"
        assert kind == ("raw" if path.endswith(".png") else "blob")
    labels = {text.partition(", ")[0] for text in about.get_all("Project-URL") or ()}
    assert labels == {"Source", "Documentation", "Changelog", "Issues"}


def test_without_an_address_the_description_is_readme(project: Path) -> None:
    """A clone does not know the repository's address."""
    write_absolute_links(project)
    about, shown = metadata(project)
    assert shown.strip() == (ROOT / "README.md").read_text().strip()
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_all("Project-URL") is None
