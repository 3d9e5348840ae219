"""The exported page is one small file without references to others, and a large one is refused."""

import base64
import json
import re
import zlib
from typing import Any

import pytest

from kafka_zk.recorder.page_export import page as module
from kafka_zk.recorder.page_export.page import exported_page
from kafka_zk.recorder.page_export.page_data import NotExportable
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.lesson_steps import KEY, Lesson, Step, encode
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from tests.kafka_zk.recorder.page_export.replay import replayed

MOST_PAGE_BYTES = 2_000_000
END = "</script><script>window.hacked=1</script>"


@pytest.fixture
def recording() -> Recording:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created(f"/{END.replace('/', '')}", END.encode(), False),))])
    return recording


def test_it_is_one_small_file_whose_policy_allows_nothing_else(recording: Recording) -> None:
    page = exported_page(recording, END)
    text = page.content.decode()
    assert len(page.content) - page.data_bytes < MOST_PAGE_BYTES
    assert re.findall(r"<script[^>]*>", text) == ['<script type="text/plain" id="exported">', "<script>"]
    assert END not in text, "a name or data are outside of the packed data"
    assert not re.search(r'(?:src|href)="(?!data:,")', text), "the page loads a file"
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in text
    assert _data(page.content)["recording"]["source"] == END


def _data(page: bytes, *, strict: bool = False) -> Any:
    packed = re.search(rb'id="exported">([^<]+)<', page)
    assert packed is not None
    text = zlib.decompress(base64.b64decode(packed[1]))
    return json.loads(text, parse_constant=_refused if strict else None)


def _refused(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def test_a_lesson_begins_with_its_first_step(recording: Recording) -> None:
    assert exported_page(recording, "a test").moment == "seq=1"
    recording.note(KEY, encode(Lesson("t", "s", (Step("p", "note", "text", 1, 1, ()),))))
    assert exported_page(recording, "a test").moment == "step=1"


def test_numbers_that_no_browser_reads_are_text(recording: Recording) -> None:
    for number, data in enumerate((b'{"brokerid": NaN}', b'{"brokerid": -Infinity}'), 2):
        recording.add([], [Transaction(number, 1_000 * number, 7, (Created("/controller", data, False),))])
    data = _data(exported_page(recording, "a test").content, strict=True)
    assert [replayed(data["states"], seq)["cluster"]["controller"]["broker"] for seq in (2, 3)] == ["NaN", "-Infinity"]


def test_a_recording_that_is_nested_too_deeply_is_refused(recording: Recording) -> None:
    for number, text in enumerate(("1", "2"), 2):
        data = f'{{"brokerid": {"[" * 900}{text}{"]" * 900}}}'.encode()
        recording.add([], [Transaction(number, 1_000 * number, 7, (Created("/controller", data, False),))])
    with pytest.raises(NotExportable, match="nested too deeply"):
        exported_page(recording, "a test")


def test_a_page_that_becomes_too_large_is_refused(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)
    with pytest.raises(NotExportable, match="its page would have 0 MB, but the limit is 0 MB: show a part"):
        exported_page(recording, "a test")
