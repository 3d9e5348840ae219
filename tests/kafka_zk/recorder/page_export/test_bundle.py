"""A bundle makes one script of several modules, with the same effect, and refuses a module that it cannot bundle."""

import shutil
import subprocess

import pytest

from kafka_zk.recorder.page_export.bundle import bundle

NODE = shutil.which("node")
A = '// A comment.\nimport { two as three, Sum } from "./b.js";\nconst own = 1;\n'
A += "console.log(new Sum().of(own, three));\n"
B = "export const two = 2;\nconst own = 5;\nexport class Sum {\n  of(a, b) { return a + b + own; }\n}\n"


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_modules_keep_their_own_names() -> None:
    script = bundle({"a.js": A, "b.js": B, "unused.js": "nonsense"}, "a.js")
    done = subprocess.run([str(NODE)], input=script, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "8\n" and "comment" not in script and "nonsense" not in script


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ({"a.js": "import * as b from './b.js';"}, "a.js has a line that cannot be bundled: import"),
        ({"a.js": "export default 1;"}, "a.js has a line that cannot be bundled: export"),
        ({"a.js": 'import { b } from "./b.js";', "b.js": 'import { a } from "./a.js";'}, "a.js imports itself"),
        ({"a.js": 'const end = "</SCRIPT>";'}, "would end the script"),
        ({"a.js": 'const end = "<!--<script>";'}, "would end the script"),
    ],
)
def test_what_cannot_be_bundled_is_refused(modules: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bundle(modules, "a.js")
