"""`python -m tests.bench.copying_broker SERVER.PROPERTIES`: our broker as it works over TLS, without the encryption.

TLS cannot use sendfile: records are read from the file and written to the transport. Here every listener works like
that, so that the price of the copies can be measured by itself.
"""

from __future__ import annotations

import sys
from functools import partial

from kafka_zk.broker.process.lean_imports import import_lean

import_lean()

from kafka_zk.broker.process import broker  # noqa: E402  (after import_lean, as in the command line)
from kafka_zk.cli.main import main  # noqa: E402
from kafka_zk.network.listener import ListenerSettings  # noqa: E402

if __name__ == "__main__":
    vars(broker)["ListenerSettings"] = partial(ListenerSettings, tls=lambda factory: factory)
    sys.argv[1:1] = ["broker"]
    main()
