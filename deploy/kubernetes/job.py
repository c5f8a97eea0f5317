"""Run a workload over stored events with the session of the cluster: WORKLOAD EVENTS FOUND."""

import sys

from pyspark.sql import SparkSession

import sheaf


def main(workload: str, events: str, found: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.read.parquet(events)
    plan = sheaf.load(workload).plan(frame)
    print(plan)
    plan.run(frame).rows.write.mode("overwrite").parquet(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
