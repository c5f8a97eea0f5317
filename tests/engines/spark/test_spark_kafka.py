"""Events from a Kafka topic, and rows to another, with a broker of the tests' own."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest

from engines.input.event_table import column_kinds, from_table
from optimizer.bind.binder import bind
from tests.engines.broker import NoJarsError, broker, jars
from tests.engines.spark.test_spark_stream import QUERIES, document, rows, sample
from tests.running import run_local
from workloads.loading import load_workload

# Puts events into a topic, runs the stream to files and to a topic, and shows what is in that.
SCRIPT = """
import json, sys
from engines.input.event_table import column_kinds
from engines.program import bound_program
from engines.spark.runtime.session import spark_session
from engines.spark.stream.source import open_live_source
from engines.spark.stream.job import StreamOptions, finish_stream, settings_for, start_stream
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from workloads.loading import load_workload
folder, server, jars = sys.argv[1:]
workload = load_workload(json.loads(open(folder + "/workload.json").read()))
events = [json.loads(line) for line in open(folder + "/events.jsonl")]
settings = settings_for("kafka://" + server + "/in") | {"spark.jars": jars}
settings.pop("spark.jars.packages")
with spark_session("local[2]", conf=settings) as spark:
    def put(part):
        frame = spark.createDataFrame([(json.dumps(event),) for event in part], "value string")
        to = frame.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", server)
        to.option("topic", "in").save()
    def run(name, out):
        source = open_live_source("kafka://" + server + "/in", workload.stream)
        bound = bind(workload, column_kinds(source.schema))
        options = StreamOptions(folder + "/" + name, out, buckets=3, once=True)
        program = bound_program(make_plan(bound, {}), bound)
        start_stream(spark, program, source, options).wait()
        return lambda: finish_stream(spark, program, source, options)
    half = len(events) // 2
    put(events[:half])
    run("files", folder + "/out")
    put(events[half:])
    run("files", folder + "/out")()  # goes on where it was
    run("topic", "kafka://" + server + "/rows")()
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", server)
    found = read.option("subscribe", "rows").load().selectExpr("string(key)", "string(value)")
    print(json.dumps([list(row) for row in found.collect()]))
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_topics_give_and_take_what_files_do(tmp_path: Path) -> None:
    try:
        server_jars, connector = jars()
    except NoJarsError as error:
        pytest.skip(str(error))
    table = sample()
    kinds = {"user": "string", "item": "int", "x": "int"}
    given = document(QUERIES, attributes=kinds)
    (tmp_path / "workload.json").write_text(json.dumps(given))
    lines = (json.dumps(row) + "\n" for row in table.to_pylist())
    (tmp_path / "events.jsonl").write_text("".join(lines))
    (tmp_path / "broker").mkdir()
    with broker(tmp_path / "broker", server_jars) as server:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), server]
        command.append(",".join(map(str, connector)))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    workload = bind(load_workload(given), column_kinds(table.schema))
    expected = run_local(workload, from_table(table, workload.stream))
    messages = [(key, json.loads(value)) for key, value in json.loads(done.stdout)]
    assert all(key == message["query"] for key, message in messages)
    for kind in ("aggregates", "matches"):
        wanted = getattr(expected, kind)
        files = pyarrow.dataset.dataset(tmp_path / "out" / kind).to_table()
        assert rows(files) == rows(wanted)
        sent = Counter(comparable(m) for _, m in messages if m["kind"] == kind)
        assert sent == Counter(comparable(plain(row)) for row in wanted.to_pylist())


def plain(row: dict[str, object]) -> dict[str, object]:
    ready = {n: json.loads(str(row[n])) for n in ("key", "match") if row.get(n) is not None}
    return {**row, **ready}


def comparable(row: dict[str, object]) -> str:
    said = {name: value for name, value in row.items() if name not in ("kind", "batch")}
    return json.dumps(said, sort_keys=True)
