"""Patches turn each document into the next one, in Python and in the page."""

import json
import shutil
import subprocess
from importlib import resources
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.recorder.page_export.patches import patch_of, patches
from tests.kafka_zk.recorder.page_export.replay import replayed

NODE = shutil.which("node")
_SCALARS = st.none() | st.integers(-9, 9) | st.sampled_from(["", "a", "b"])
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda each: st.lists(each, max_size=5) | st.dictionaries(st.sampled_from("abcd"), each, max_size=4),
    max_leaves=12,
)


@given(st.lists(_DOCUMENTS, min_size=1, max_size=6))
def test_patches_give_each_document_with_the_order_of_its_keys(documents: list[Any]) -> None:
    told = list(patches(enumerate(documents)))
    for key, document in enumerate(documents):
        assert json.dumps(replayed(told, key)) == json.dumps(document)


def test_a_patch_has_only_what_changed() -> None:
    assert patch_of({"a": [1, 2], "b": 1}, {"a": [1, 2], "b": 1}) == {}
    assert patch_of({"a": [1, 2], "b": 1}, {"a": [1, 3], "b": 1}) == {"changed": {"a": {"changed": {"1": [3]}}}}
    assert patch_of([1, 2, 3], [1, 9, 2, 3]) == [1, 0, [9]]
    assert patch_of({"a": 1, "b": 2}, {"b": 2}) == {"removed": ["a"]}


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_the_page_replays_them_at_any_moment_in_any_order() -> None:
    """There are more documents than the page skips between two documents that it keeps."""
    random = Random(49)
    documents = [_random(random, 3) for _ in range(200)]
    told = list(patches((10 * number, document) for number, document in enumerate(documents)))
    keys = [random.randint(-1, 2_010) for _ in range(200)]
    module = resources.files("kafka_zk.recorder.web").joinpath("static", "replayed.js").read_text()
    told_as_text = json.dumps(json.dumps([told, keys]))  # as a literal in a script, "__proto__" would not be a key
    script = f"{module}\nconst [told, keys] = JSON.parse({told_as_text});\nconst found = new Replayed(told);\n"
    script += "console.log(JSON.stringify(keys.map((key) => found.at(key))));"
    command = [str(NODE), "--input-type=module"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [documents[min(199, key // 10)] if key >= 0 else None for key in keys]


def _random(random: Random, depth: int) -> Any:
    kind = random.choice(("scalar", "list", "object")) if depth < 3 else "object"
    if not depth or kind == "scalar":
        return random.randint(0, 3)
    if kind == "list":
        return [_random(random, depth - 1) for _ in range(random.randint(0, 5))]
    names = ("a", "b", "c", "d", "__proto__", "constructor")
    return {name: _random(random, depth - 1) for name in random.sample(names, random.randint(0, 6))}
