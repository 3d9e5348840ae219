"""The exported page is one small file that needs nothing else, and is refused if it becomes large."""

import base64
import json
import re
import zlib

import pytest

from kafka_zk.recorder.page_export import page as module
from kafka_zk.recorder.page_export.page import exported_page
from kafka_zk.recorder.page_export.page_data import NotExportable
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.lesson_steps import KEY, Lesson, Step, encode
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction

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
    assert END not in text, "names and data are only in the packed data"
    assert not re.search(r'(?:src|href)="(?!data:,")', text), "nothing is loaded"
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in text
    packed = re.search(r'id="exported">([^<]+)<', text)
    assert packed is not None and len(packed[1]) == page.data_bytes
    assert json.loads(zlib.decompress(base64.b64decode(packed[1])))["recording"]["source"] == END


def test_a_lesson_begins_with_its_first_step(recording: Recording) -> None:
    assert exported_page(recording, "a test").moment == "seq=1"
    recording.note(KEY, encode(Lesson("t", "s", (Step("p", "note", "text", 1, 1, ()),))))
    assert exported_page(recording, "a test").moment == "step=1"


def test_a_page_that_becomes_too_large_is_refused(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)
    with pytest.raises(NotExportable, match="its page would have 0 MB, and may have 0 MB: show a part"):
        exported_page(recording, "a test")
