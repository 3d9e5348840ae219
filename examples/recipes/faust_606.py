"""faust-streaming#606: records are lost if a later one is finished first: python faust_606.py BOOTSTRAP TOPIC ACTORS.

With several actors (ACTORS ``2``), records are finished out of order. Faust should commit only up to the first record
that is not finished, but commits beyond it, so a restart skips that record. The application's fix is one actor
(ACTORS ``1``). The application prints each record that it begins and each offset that is committed, and never finishes
the record ``slow``.
"""

import asyncio
import sys
import tempfile

import faust
from faust.sensors.monitor import Monitor


class Commits(Monitor):
    """Prints the committed offsets."""

    def on_tp_commit(self, tp_offsets):
        super().on_tp_commit(tp_offsets)
        for offset in tp_offsets.values():
            print(f"committed {offset}", flush=True)


def main(bootstrap: str, topic: str, actors: str) -> None:
    app = faust.App(
        topic,
        broker=[f"kafka://{address}" for address in bootstrap.split(",")],
        broker_commit_interval=0.1,
        broker_session_timeout=6,
        broker_heartbeat_interval=1,
        datadir=tempfile.mkdtemp(),
        topic_disable_leader=True,
        web_enabled=False,
        Monitor=Commits,
    )

    @app.agent(app.topic(topic, value_serializer="raw"), concurrency=int(actors))
    async def process(values):
        async for value in values:
            print(f"began {value.decode()}", flush=True)
            if value == b"slow":
                await asyncio.Event().wait()

    faust.Worker(app, loglevel="ERROR", stdout=sys.stderr, redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main(*sys.argv[1:])
