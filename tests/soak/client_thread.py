"""Threads for the clients of a campaign."""

import threading

_END_S = 120


class ClientThread:
    """Works in a thread until ``stop``. ``failed``: descriptions of what went wrong."""

    name = "client"

    def __init__(self) -> None:
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run_guarded, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run_guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.failed.append(f"{self.name}: {error!r}")

    def _run(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Ask the thread to end, without waiting."""
        self._ends.set()

    def stop(self) -> None:
        """Wait until all of the thread's work is done."""
        self.end()
        self._thread.join(_END_S)
        if self._thread.is_alive():
            self.failed.append(f"{self.name} does not end")
