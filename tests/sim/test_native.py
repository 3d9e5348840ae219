"""A seed gives the same history with the native module and without it."""

import json
import os
import subprocess
import sys

import pytest

from kafka_zk.native.loading import NEVER, REQUIRE, VARIABLE, Native

pytestmark = pytest.mark.integration

PLAY = """
import json, sys
from kafka_zk.native.loading import implementation
from kafka_zk.sim.campaign.run import play
from tests.sim.transactional import play_transactional
seed = int(sys.argv[1])
digests = [play(seed).history.digest(), play_transactional(seed, faults_ms=3_000).history.digest()]
native = implementation().native
print(json.dumps([digests, native and native.handled()]))
"""
AT_LEAST = {"read_produce": 100, "write_produce": 100, "check_records": 100, "plain_commit": 10}


def test_a_seed_is_the_same_history_with_and_without_the_native_module(
    native: Native, process_campaign_seed: int
) -> None:
    command = [sys.executable, "-c", PLAY, str(process_campaign_seed)]
    processes = [
        subprocess.Popen(command, env={**os.environ, VARIABLE: choice}, stdout=subprocess.PIPE, text=True)
        for choice in (NEVER, REQUIRE)
    ]
    (python, none), (with_native, handled) = [json.loads(process.communicate()[0]) for process in processes]
    assert python == with_native
    assert none is None
    assert {name: count for name, count in AT_LEAST.items() if handled[name] < count} == {}, handled
