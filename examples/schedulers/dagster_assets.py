"""Dagster: a topic, extracted to a folder every ten minutes, as an asset whose metadata is the extraction's report.

Start it with `dagster dev -f dagster_assets.py`. It needs `pip install dagster 'kafka-zk[spark]'` and Java 17 or later.

Any run may be repeated: `kafka-zk extract` continues where one was killed, and extracts each record once.
"""

import json
import subprocess

import dagster

EXTRACT = ["kafka-zk", "extract", "--zookeeper", "127.0.0.1:2181", "--group", "lake", "--topic", "flights", "--json"]
PASSES = {3: "the group has another live member", 5: "a transaction is open"}


@dagster.asset
def flights(context: dagster.AssetExecutionContext) -> dagster.MaterializeResult:
    done = subprocess.run([*EXTRACT, "--to", "/data/lake"], capture_output=True, text=True, check=False)
    context.log.info(done.stderr)
    if done.returncode in PASSES:
        raise dagster.RetryRequested(max_retries=3, seconds_to_wait=120)
    if done.returncode != 0:
        raise dagster.Failure(done.stderr)
    report = json.loads(done.stdout)
    return dagster.MaterializeResult(metadata={name: report[name] for name in ("records", "lag_after", "seconds")})


every_ten_minutes = dagster.ScheduleDefinition(
    name="every_ten_minutes", target=dagster.AssetSelection.assets(flights), cron_schedule="*/10 * * * *"
)
definitions = dagster.Definitions(assets=[flights], schedules=[every_ten_minutes])
