"""Work for a helper process that ends only when it is killed."""

import threading
from typing import NamedTuple

from kafka_zk.storage.files.helper_process import Report


class Sleeper(NamedTuple):
    def run(self, report: Report) -> None:
        report(1)
        threading.Event().wait()
