"""The signals that ask a process to end, and what a foreground command makes of them."""

import signal

from kafka_zk.embedded import interrupts


def ending_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP, which a terminal sends when it is closed; not if ``nohup`` had it ignored."""
    asked_to_outlive_the_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *(() if asked_to_outlive_the_terminal else (signal.SIGHUP,))]


def interrupt_at_the_end() -> None:
    """Have each of them raise KeyboardInterrupt, as Ctrl-C does: what is begun is ended properly."""
    for number in ending_signals():
        signal.signal(number, interrupts.interrupt)
