"""The signals that end a process, and their effect on a foreground command."""

import signal

from kafka_zk.embedded import interrupts


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless ``nohup`` ignores it."""
    asked_to_outlive_the_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *(() if asked_to_outlive_the_terminal else (signal.SIGHUP,))]


def interrupt_at_the_end() -> None:
    """Make each ending signal raise KeyboardInterrupt, like Ctrl-C, so that cleanup code runs."""
    for number in ending_signals():
        signal.signal(number, interrupts.interrupt)
