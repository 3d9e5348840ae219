"""Every point of the extraction's protocol at which a run can be observed or killed."""

from kafka_zk.spark_jobs.extraction.steps import Phase, Step

POINTS = tuple((step, phase) for step in Step for phase in Phase)
