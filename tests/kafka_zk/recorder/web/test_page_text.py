"""How the page shows strings from znodes, in Node: values stay as written, and none is invisible or slow."""

import json
import shutil
import subprocess
from importlib import resources
from typing import Any

import pytest

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")
_STATIC = resources.files("kafka_zk.recorder.web").joinpath("static")
_ELEMENT = """
globalThis.document = { createElement: () => ({ text: "", append(...parts) { this.text += parts.join(""); } }) };
"""


def run(module: str, expression: str, values: list[str]) -> Any:
    """The value of an expression of a page's module for each of ``values``, which the expression calls ``text``."""
    source = json.dumps(f"data:text/javascript,{_quoted(_STATIC.joinpath(module).read_text())}")
    script = f"""{_ELEMENT}
const page = await import({source});
const values = JSON.parse(await new Response((await import("node:stream")).Readable.toWeb(process.stdin)).text());
console.log(JSON.stringify(await Promise.all(values.map(async (text) => {expression}))));
"""
    command = [str(NODE), "--input-type=module", "-e", script]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def _quoted(source: str) -> str:
    return "".join(f"%{byte:02x}" for byte in source.encode())


def test_lists_of_numbers_are_on_one_line_and_values_stay_as_written() -> None:
    found = run(
        "difference.js",
        "page.pretty(text)",
        ['{"isr":[1,2],"a":[]}', '["[  1,   2  ]"]', '["-1","2"]', '[1,[2,"x"]]', "no JSON [  1  ]"],
    )
    assert found == [
        '{\n "isr": [1, 2],\n "a": []\n}', '[\n "[  1,   2  ]"\n]', '["-1", "2"]', '[\n 1,\n [\n  2,\n  "x"\n ]\n]',
        "no JSON [  1  ]",
    ]  # fmt: skip


def test_viewers_get_the_last_folds_if_there_are_many() -> None:
    """In an earlier version, the server refused the state of a presenter with more than 100 of them."""
    names = [json.dumps([f"{prefix}{number}" for number in range(count)])
             for count, prefix in [(0, "a"), (100, "a"), (101, "a"), (100, "\u00e9" * 150)]]  # fmt: skip
    unfold = "(JSON.parse(text).forEach((name) => page.toggle(name, false)), [page.folds().opened, page.isCut()])"
    fold = "(JSON.parse(text).forEach((name) => page.toggle(name, true)), found)"
    for (opened, is_cut), told in zip(
        run("folds.js", f"(() => {{ const found = {unfold}; return {fold}; }})()", names), names, strict=True
    ):
        asked = json.loads(told)
        assert opened == asked[len(asked) - len(opened) :] and is_cut == (len(opened) < len(asked))
        assert len(opened) in (len(asked), 100, 65), "65 names of 301 to 304 bytes fit into 20 kB"
        assert len(json.dumps(opened, ensure_ascii=False).encode()) <= 20_200


_REFUSED_NEWS = """(async () => {
  const opened = [], later = [], said = [];
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  globalThis.BroadcastChannel = undefined;
  globalThis.EventSource = class { static CLOSED = 2; constructor() { this.readyState = 0; opened.push(this); } };
  globalThis.setTimeout = (act) => later.push(act);
  globalThis.fetch = async () => ({ ok: false, json: async () => ({ error: text }) });
  const refusal = Object.assign(new Error("no longer valid"), { isRefusal: true });
  page.follow("t", async () => { throw refusal; }, null, (why) => said.push(why));
  await opened[0].onerror();
  opened[0].readyState = 2;
  await opened[0].onerror();
  later[0]();
  return [said, opened.length];
})()"""


def test_a_reader_whose_news_is_refused_gets_the_reason_and_the_page_asks_again() -> None:
    """A browser does not tell why, and does not try again after a refusal."""
    [(said, count)] = run("news.js", _REFUSED_NEWS, ["50 pages are open already"])
    assert (sorted(said), count) == (["", "50 pages are open already", "no longer valid"], 2)


def test_a_large_value_is_shown_at_once() -> None:
    """MOST_DATA characters are sent. In an earlier version, spaces took minutes, and nesting made endless lines."""
    values = [
        '["[' + " " * 19_000 + 'x"]',
        f"[{'[1,' * 4_000}1{']' * 4_000}]",
        f"[{'1,' * 9_999}1]",
        "[" * 9_999 + "]" * 9_999,
    ]
    script = "(() => { const began = performance.now(), found = page.pretty(text); "
    for took_ms, size in run(
        "difference.js", script + "return [performance.now() - began, found.length]; })()", values
    ):
        assert took_ms < 1_000 and size < 1_000_000


def test_characters_that_cannot_be_seen_are_written_out() -> None:
    unseen = "\u00ad\u034f\u061c\u115f\u180e\u200b\u2028\u2029\u202e\u2060\u2800\u3164\ufe0f\ufeff\U000e0041"
    found = run("dom.js", 'page.html("p", {}, text).text', [*unseen, "ä 漢\u0301 \U0001f600\n"])
    assert found == [*(f"\\u{ord(each):04x}" for each in unseen[:-1]), "\\u{e0041}", "ä 漢\u0301 \U0001f600\n"]


def test_a_part_of_a_play_does_not_tell_who_acts_later() -> None:
    steps = [{"time_ms": 10 * (each + 1), "source": each, "target": each + 1} for each in range(4)]
    lanes = ["broker-1", "broker-2", "ZooKeeper", "g_anna", "g_ben"]
    play = {"lanes": lanes, "steps": steps, "is_whole": True}
    [found] = run("play_part.js", "page.partOf(JSON.parse(text), 20, 30)", [json.dumps(play)])
    assert found["lanes"] == ["broker-2", "ZooKeeper", "g_anna"]
    assert [(each["time_ms"], each["source"], each["target"]) for each in found["steps"]] == [(20, 0, 1), (30, 1, 2)]
    assert found["is_whole"]


def test_durations_have_two_units_at_most() -> None:
    times_ms = (0, 940, 9_960, 59_000, 59_900, 200_000, 3_600_000, 7_530_000, 90_000_000)
    found = run("dom.js", "page.duration(Number(text))", [str(each) for each in times_ms])
    assert found == ["0.0 s", "0.9 s", "10 s", "59 s", "1 min", "3 min 20 s", "1 h", "2 h 5 min", "1 d 1 h"]
