"""A bill of materials also has the jars in a wheel, and the distribution itself."""

import hashlib
import io
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from tests.release.bill import jars, metadata, root_component


def zipped(**files: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return written.getvalue()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    named = zipped(**{"META-INF/maven/org.example/named-jar/pom.properties": b""})
    about = b"Name: jars\nVersion: 1\nSummary: Some jars\nLicense-Expression: MIT\n"
    about += b"Project-URL: Source, https://example.org\nRequires-Dist: twisted>=24.7\nRequires-Dist: a; extra == 'b'\n"
    path = tmp_path / "jars-1-py3-none-any.whl"
    path.write_bytes(
        zipped(**{"jars/named-jar-1.2.jar": named, "jars/plain-3.jar": zipped(), "jars-1.dist-info/METADATA": about})
    )
    return path


def test_each_jar_is_a_component_with_its_digest_and_its_coordinates(wheel: Path) -> None:
    named, plain = jars(wheel)
    assert (named["name"], named["version"], named["purl"]) == (
        "named-jar",
        "1.2",
        "pkg:maven/org.example/named-jar@1.2",
    )
    assert plain["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(zipped()).hexdigest()}]
    assert "purl" not in plain


def test_the_distribution_itself_is_described_by_its_metadata(wheel: Path) -> None:
    project = tomllib.loads(root_component(metadata(wheel)))["project"]
    assert project == {
        "name": "jars",
        "version": "1",
        "description": "Some jars",
        "license": "MIT",
        "dependencies": ["twisted>=24.7"],
        "urls": {"Source": "https://example.org"},
    }


def test_an_older_field_names_the_licence_too() -> None:
    about = Message()
    about["License"] = "Apache-2.0"
    assert 'license = "Apache-2.0"' in root_component(about)
