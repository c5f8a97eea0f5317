"""Events from a Kafka topic, and rows to another, with a broker of the tests' own."""

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from engines.input.event_table import column_kinds, from_table
from optimizer.bind.binder import bind
from tests.engines.broker import NoJarsError, broker, jars
from tests.engines.registry import framed, registry
from tests.engines.spark.stream_case import QUERIES, document, rows, sample
from tests.engines.wire.avro_writer import encoded
from tests.running import run_local
from workloads.loading import load_workload

# Puts events into a topic, runs the stream to files and to a topic, and shows what is in that.
SCRIPT = """
import json, sys
from engines.input.event_table import column_kinds
from engines.program import bound_program
from engines.spark.runtime.session import spark_session
from engines.spark.stream.source import open_live_source
from engines.spark.stream.job import StreamOptions, finish_stream, start_stream
from engines.spark.stream.session import settings_for
from optimizer.bind.binder import bind
from sharing.planner import make_plan
from workloads.loading import load_workload
folder, server, jars = sys.argv[1:]
workload = load_workload(json.loads(open(folder + "/workload.json").read()))
events = [json.loads(line) for line in open(folder + "/events.jsonl")]
settings = settings_for("kafka://" + server + "/in", conf={"spark.jars": jars})
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


COMMAND = (sys.executable, "-c", "from api.cli.entry_point import main; main()")
# Puts messages of a registry's schemas into a topic, half of them before the stream has begun.
REGISTERED = """
import base64, json, sys
from engines.spark.runtime.session import spark_session
from engines.spark.stream.session import settings_for
folder, server, jars, registry = sys.argv[1:]
messages = [bytearray(base64.b64decode(line)) for line in open(folder + "/messages")]
settings = settings_for("kafka://" + server + "/in", conf={"spark.jars": jars})
with spark_session("local[2]", conf=settings) as spark:
    for part in (messages[::2], messages[1::2]):
        frame = spark.createDataFrame([(each,) for each in part], "value binary")
        to = frame.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", server)
        to.option("topic", "in").save()
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_messages_of_a_registrys_schemas_are_events(tmp_path: Path) -> None:
    try:
        server_jars, connector = jars()
    except NoJarsError as error:
        pytest.skip(str(error))
    table = sample()
    schema = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": name, "type": ["null", "string" if pa.types.is_string(kind) else "long"]}
            for name, kind in zip(table.schema.names, table.schema.types, strict=True)
        ],
    }
    given = document(QUERIES)
    (tmp_path / "workload.yaml").write_text(json.dumps(given))
    (tmp_path / "broker").mkdir()
    found = ",".join(map(str, connector))
    with broker(tmp_path / "broker", server_jars) as server, registry() as schemas:
        avro = schemas.add("in-value", {"type": "object"}, "JSON"), schemas.add("in-value", schema)
        # Every third event as JSON, the others as Avro.
        messages = [
            framed(avro[0], json.dumps(row).encode())
            if i % 3 == 0
            else framed(avro[1], encoded(schema, row))
            for i, row in enumerate(table.to_pylist())
        ]
        lines = (base64.b64encode(message).decode() + "\n" for message in messages)
        (tmp_path / "messages").write_text("".join(lines))
        arguments = [str(tmp_path), server, found, schemas.address]
        put = [sys.executable, "-c", REGISTERED, *arguments]
        subprocess.run(put, capture_output=True, check=True)
        connections = {"events": {"kind": "kafka", "brokers": server, "registry": schemas.address}}
        (tmp_path / "connections.yaml").write_text(json.dumps(connections))
        # By an option, and by a connection that has it.
        for name, events in (("a", f"kafka://{server}/in"), ("b", "connection:events/in")):
            command = [*COMMAND, "run", str(tmp_path / "workload.yaml")]
            command += ["--events", events, "--engine", "spark", "--stream", "--once", "--finish"]
            command += ["--checkpoint", str(tmp_path / f"{name}-state"), "--buckets", "3"]
            command += ["--out", str(tmp_path / name), "--conf", f"spark.jars={found}"]
            command += ["--registry", schemas.address] if name == "a" else []
            environment = os.environ | {"SHEAF_CONNECTIONS": str(tmp_path / "connections.yaml")}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            assert done.returncode == 0, done.stderr
    workload = bind(load_workload(given), column_kinds(table.schema))
    expected = run_local(workload, from_table(table, workload.stream))
    for name in ("a", "b"):
        for kind in ("aggregates", "matches"):
            files = pyarrow.dataset.dataset(tmp_path / name / kind).to_table()
            assert files.num_rows > 0
            assert rows(files) == rows(getattr(expected, kind))


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
