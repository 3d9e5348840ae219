"""A kafka-zk broker that lacks a safeguard of transactions: `python -m tests.soak.faulty_transactions PROPERTIES`.

The variable FAULT names one of ``tests.sim.transaction_safeguards``. Only the tests of the campaign start such a
broker.
"""

import os
import sys

import pytest

from kafka_zk.cli.main import main
from tests.sim.transaction_safeguards import SAFEGUARDS

VARIABLE = "FAULT"

if __name__ == "__main__":
    if fault := os.environ.get(VARIABLE):
        SAFEGUARDS[fault](pytest.MonkeyPatch())
    main(["broker", *sys.argv[1:]])
