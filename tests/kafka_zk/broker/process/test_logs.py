"""Each event is one line, whichever logger a module uses."""

import json
import logging
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
PROGRAM = """
import logging, sys
from kafka_zk.broker.process import logs
logs.configure(level="info", as_json={as_json})
from twisted.logger import Logger
logging.getLogger("kafka_zk.x").info("registered", extra={{"broker_id": 1, "where": "a b"}})
logging.getLogger("kafka_zk.x").debug("not shown")
Logger("kafka_zk.y").warn("lost {{count}} of them", count=3, zxid=7)
Logger("kafka_zk.y").debug("not shown")
try:
    1 / 0
except ZeroDivisionError:
    Logger("kafka_zk.z").failure("it broke")
"""


def lines_of(as_json: bool) -> list[str]:
    program = PROGRAM.format(as_json=as_json)
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return shown.stderr.splitlines()


def test_text_lines_have_fields_that_the_message_does_not_say() -> None:
    lines = lines_of(as_json=False)
    assert lines[0].endswith('INFO kafka_zk.x: registered broker_id=1 where="a b"')
    assert lines[1].endswith("WARNING kafka_zk.y: lost 3 of them zxid=7")
    assert lines[2].endswith("CRITICAL kafka_zk.z: it broke")
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_json_lines_have_every_field() -> None:
    first, second, third = (json.loads(line) for line in lines_of(as_json=True))
    assert {"logger": "kafka_zk.x", "level": "info", "message": "registered", "broker_id": 1}.items() <= first.items()
    assert {"message": "lost 3 of them", "count": 3, "zxid": 7}.items() <= second.items()
    assert "ZeroDivisionError" in third["traceback"]


def test_a_value_that_json_does_not_know_is_text() -> None:
    from kafka_zk.broker.process.logs import JsonFormatter

    record = logging.makeLogRecord({"name": "n", "msg": "m", "levelname": "INFO", "path": Path("/x")})
    assert json.loads(JsonFormatter().format(record))["path"] == "/x"
