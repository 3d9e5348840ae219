"""The documentation as a site: it builds without a warning, and its pages load nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
#: Addresses that a browser loads without a click. Links for readers may lead anywhere.
_LOADED = re.compile(r'<(?:script|img|iframe|source)[^>]*\ssrc="(?P<src>[^"]+)"|<link[^>]*\shref="(?P<href>[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_in_the_site(site: Path) -> None:
    left_out = {DOCS / "decisions" / "README.md", *DOCS.glob("changes/*.md")}  # the first page is in decisions/index
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in {*DOCS.rglob("*.md")} - left_out}
    assert pages == {page for page in pages if (site / f"{page}.html").exists()}


@pytest.mark.slow
def test_a_page_loads_nothing_from_other_hosts(site: Path) -> None:
    loaded = {
        found["src"] or found["href"] for page in site.rglob("*.html") for found in _LOADED.finditer(page.read_text())
    }
    assert any(each.startswith("_static/") for each in loaded)
    assert not [each for each in loaded if re.match(r"(https?:)?//", each)]


@pytest.mark.slow
def test_reference_pages_come_from_the_tables(site: Path) -> None:
    for page, words in {
        "configuration": ["unclean.leader.election.enable", "min.cleanable.dirty.ratio"],
        "error-codes": ["NOT_LEADER_OR_FOLLOWER"],
        "metrics": ["kafka_server_brokertopicmetrics_messagesin_total", "kafka_zk_certificate_days_left"],
        "commands": ["kafka-zk topics create", "--replication-factor"],
        "migration-rules": ["migration-znode-empty", "KAFKA-19480"],
        "scenarios": ["zombie-controller"],
        "python": ["BlockingProducer", "init_transactions"],
    }.items():
        text = (site / "generated" / f"{page}.html").read_text()
        assert [word for word in words if word in re.sub("<[^>]*>", "", text)] == words
