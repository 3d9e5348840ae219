"""A page of a recording in one file, which needs no server: markup, style, script and data.

Its policy allows only this style and this script, and no connection.
"""

import base64
import hashlib
import json
import zlib
from importlib import resources
from typing import NamedTuple

from kafka_zk.recorder.page_export.bundle import bundle
from kafka_zk.recorder.page_export.page_data import SHORTER, NotExportable, Progress, page_data, silent
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording

MOST_BYTES = 50_000_000
_STYLE = '<link rel="stylesheet" href="style.css">'
_SCRIPT = '<script type="module" src="main.js"></script>\n'
_CHARSET = '<meta charset="utf-8">\n'
_END = "</body>"


class ExportedPage(NamedTuple):
    """``moment``: part of the page's address that selects its last episode, or a lesson's first step. ``data_bytes``:
    the recording's share of ``content``.
    """

    content: bytes
    data_bytes: int
    moment: str


def exported_page(recording: Recording, described: str, progress: Progress = silent) -> ExportedPage:
    """The page of a whole recording, in which secrets are masked.

    Args:
        described: what was recorded.
    Raises: NotExportable if the recording is empty, too long or nested too deeply; BadRequest if its lesson is damaged;
        sqlite3.Error.
    """
    try:
        data = page_data(recording, described, progress)
        text = _json(data)
    except RecursionError:
        raise NotExportable("a znode in it is nested too deeply for a page") from None
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    content = _page_around(packed)
    if len(content) > MOST_BYTES:
        raise NotExportable(f"its page would have {_mb(len(content))}, but the limit is {_mb(MOST_BYTES)}: {SHORTER}")
    return ExportedPage(content, len(packed), _moment(data))


def _json(data: Document) -> str:
    """JSON that a browser can read: numbers such as NaN, which only Python's JSON allows, become strings."""
    try:
        return json.dumps(data, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(data), parse_constant=str), separators=(",", ":"))


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB"


def _moment(data: Document) -> str:
    if data["lesson"]["steps"]:
        return "step=1"
    episodes = data["episodes"]["episodes"]
    return f"seq={episodes[-1]['seq'] if episodes else data['recording']['count']}"


def _page_around(data: str) -> bytes:
    """``data``: compressed, in base64."""
    folder = resources.files("kafka_zk.recorder.web").joinpath("static")
    static = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    style, script = static["style.css"], bundle(static, "main.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hashed(style)}; script-src {_hashed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page = static["index.html"]
    for old, new in (
        (_CHARSET, f'{_CHARSET}<meta http-equiv="Content-Security-Policy" content="{policy}">\n'),
        (_STYLE, f"<style>{style}</style>"),
        (_SCRIPT, ""),
        (_END, f'<script type="text/plain" id="exported">{data}</script>\n<script>{script}</script>\n{_END}'),
    ):
        assert page.count(old) == 1, old
        page = page.replace(old, new)
    return page.encode()


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
