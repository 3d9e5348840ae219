"""The counts of logins."""

from kafka_zk.broker.security.login_stats import WINDOW_S, LoginStats


def test_clients_that_cannot_log_in_again_are_counted_apart() -> None:
    stats = LoginStats(lambda: 0.0)
    stats.logged_in(can_reauthenticate=True)
    stats.logged_in()
    stats.login_failed()
    stats.login_failed(again=True)
    assert (stats.successful, stats.without_reauthentication) == (2, 1)
    assert (stats.failed, stats.failed_reauthentications) == (1, 1)


def test_the_latency_is_that_of_the_last_two_samples() -> None:
    now_s = [0.0]
    stats = LoginStats(lambda: now_s[0])
    for latency_ms in (10.0, 30.0):
        stats.reauthenticated(latency_ms)
    seen = []
    for samples in (1, 2, 3):
        now_s[0] = samples * WINDOW_S
        if samples == 1:
            stats.reauthenticated(50.0)
        seen.append(stats.latency_ms)
    assert seen == [(30.0, 50.0), (50.0, 50.0), None]
    assert stats.reauthentications == 3
