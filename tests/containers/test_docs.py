"""The example of docs/how-to/containers.md runs as printed, except for the image."""

import re

import pytest

from tests.containers import images

pytestmark = pytest.mark.containers


def test_the_example_for_testcontainers_runs(zookeeper_image: str) -> None:
    text = (images.ROOT / "docs" / "how-to" / "containers.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "zookeeper:3.9.3" in example
    exec(compile(example.replace("zookeeper:3.9.3", zookeeper_image), "docs/how-to/containers.md", "exec"), {})
