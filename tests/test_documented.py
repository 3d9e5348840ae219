"""The packages that the pages tell readers to install."""

from pathlib import Path

import pytest

from tests.documented import ROOT, Block

PAGES = sorted(
    path
    for pattern in ("README.md", "docs/how-to/*.md", "docs/tutorials/*.md", "examples/*.md", "examples/*.ipynb")
    for path in ROOT.glob(pattern)
    if path.name != "releasing.md"
)


def test_a_clone_has_two_projects() -> None:
    inside = Block("", "", "sh", "# pip install ./docker/zookeeper-wheel '.[embedded,java]' pytest\n")
    assert inside.requirements == ["kafka-zk-zookeeper", "kafka-zk[embedded,java]", "pytest"]
    assert inside.installs(Path("/c")) == ["/c/docker/zookeeper-wheel", "/c[embedded,java]", "pytest"]
    outside = Block(
        "", "", "sh", "# pip install kafka-python /path/to/kafka-zk/docker/zookeeper-wheel /path/to/kafka-zk\n"
    )
    assert outside.requirements == ["kafka-python", "kafka-zk-zookeeper", "kafka-zk"]
    assert outside.installs(Path("/c")) == ["kafka-python", "/c/docker/zookeeper-wheel", "/c"]
    assert Block("", "", "sh", "kafka-zk up\n").installs(Path("/c")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_brings_zookeeper_can_be_installed_from_a_clone(page: Path) -> None:
    """PyPI has no kafka-zk-zookeeper, which the extra ``embedded`` requires."""
    lines = [line for line in page.read_text().splitlines() if "pip install" in line and "embedded" in line]
    assert [line for line in lines if "docker/zookeeper-wheel" not in line] == []
