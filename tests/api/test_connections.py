"""Named connections: what a file of them says, where they lead, and who may use which."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

from api.cli.commands.spark import SparkOptions
from api.connections import Connections, NoConnectionError, connected, read_connections
from api.http.app import create_app
from api.http.embedded_server import serving
from api.http.settings import Settings
from engines.execution import EventSource
from engines.limits import EventsError
from engines.spark.batch.job import run_batch
from engines.spark.batch.source import open_table
from engines.spark.batch.targets import FileTarget
from tests.api.service import is_problem, posted_plan
from tests.differential.test_slices import multiset
from tests.engines.spark.test_spark_sources import PROGRAM, STREAM, events, expected, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = """
clicks:
  kind: kafka
  brokers: a.example:9092,b.example:9092
  options: {kafka.security.protocol: SASL_SSL, kafka.sasl.jaas.config: "login ${SECRET};"}
orders: {kind: kafka, brokers: a.example:9092, topic: orders}
lake: {kind: table, table: lake.shop., conf: {spark.sql.catalog.lake: a.Catalog}}
sales: {kind: table, table: lake.shop.sales}
archive:
  kind: path
  path: s3a://bucket/events
  conf: {spark.hadoop.fs.s3a.secret.key: "${SECRET}"}
bank: {kind: jdbc, url: "jdbc:postgresql://db/bank", options: {user: sheaf, password: "${SECRET}"}}
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SECRET", "pa$$word")
    (tmp_path / "connections.yaml").write_text(FILE)
    return tmp_path / "connections.yaml"


@pytest.fixture
def connections(path: Path) -> Connections:
    return read_connections(path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("clicks/page.views", "kafka://a.example:9092,b.example:9092/page.views"),
        ("orders", "kafka://a.example:9092/orders"),
        ("lake/sales", "table:lake.shop.sales"),
        ("sales", "table:lake.shop.sales"),
        ("archive", "s3a://bucket/events"),
        ("archive/day=2026-03-01/*.parquet", "s3a://bucket/events/day=2026-03-01/*.parquet"),
        ("bank/payments", "jdbc:postgresql://db/bank"),
    ],
)
def test_a_connection_leads_to_its_place(connections: Connections, name: str, place: str) -> None:
    assert connections.reach(f"connection:{name}").place == place


def test_what_spark_is_told_besides_has_secrets_of_the_environment(
    connections: Connections,
) -> None:
    bank = connections.reach("connection:bank/payments")
    assert bank.options == {"user": "sheaf", "password": "pa$$word", "dbtable": "payments"}
    source, conf = connected(EventSource("connection:archive"), connections)
    assert conf == {"spark.hadoop.fs.s3a.secret.key": "pa$$word"}
    assert source.shown == "connection:archive"
    assert "pa$$word" not in repr((bank, source, connections))
    assert connections.reach("events.csv").place == "events.csv"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("click/t", "did you mean 'clicks'"),
        ("clicks", "say which topic"),
        ("clicks/a b", "say which topic"),
        ("clicks/a,b", "say which topic"),
        ("orders/other", "leave out '/other'"),
        ("lake/sales;DROP", "say which table"),
        ("bank/(SELECT 1) t", "say which table"),
        ("archive/../other", "no path below"),
    ],
)
def test_what_leads_nowhere_is_refused(connections: Connections, name: str, said: str) -> None:
    with pytest.raises(NoConnectionError, match=said.replace("(", r"\(")):
        connections.reach(f"connection:{name}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {kind: ftp, password: hidden-word}", "a: Input tag 'ftp'"),
        ("a: {kind: kafka, password: hidden-word}", "a.kafka.brokers: Field required"),
        ("a: {kind: path, path: /hidden-word}", "a.path.path: "),
        ("a b: {kind: kafka, brokers: h}", "pattern"),
        ("a: {kind: table, table: t, conf: {sheaf.x: hidden-word}}", "pattern"),
        ("[", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_told_without_its_values(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(NoConnectionError, match=said) as refused:
        read_connections(tmp_path / "c.yaml")
    assert "hidden-word" not in str(refused.value)


def test_a_missing_variable_is_named(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET")
    with pytest.raises(NoConnectionError, match="'bank': there is no variable SECRET"):
        connections.reach("connection:bank/payments")


def test_jobs_take_the_connections_of_their_mode(
    pretend: list[str], tmp_path: Path, path: Path
) -> None:
    app = create_app(Settings(data=tmp_path / "data", roots=(tmp_path,), connections=path), pretend)
    with serving(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        listed = {one["path"]: one["mode"] for one in client.get("/v1/connections").json()}
        assert listed == {
            "connection:clicks/TOPIC": "stream",
            "connection:orders": "stream",
            "connection:lake/TABLE": "batch",
            "connection:sales": "batch",
            "connection:archive": "batch",
            "connection:bank/TABLE": "batch",
        }
        plan = posted_plan(client)["id"]

        def post(source: str, **more: object) -> httpx.Response:
            return client.post("/v1/jobs", json={"plan": plan, "source": source, **more})

        job = post("connection:bank/payments")
        assert job.status_code == 201, job.text
        assert job.json()["source"] == {"path": "connection:bank/payments"}
        assert "pa$$word" not in job.text
        sink = "connection:clicks/found"
        assert post("connection:orders", mode="stream", sink=sink).status_code == 201
        is_problem(post("connection:orders"), 422, "invalid-request")
        is_problem(post("connection:sales", mode="stream"), 422, "invalid-request")
        is_problem(post("connection:sales", engine="local"), 422, "invalid-request")
        is_problem(post("connection:none"), 422, "source-not-found")
        is_problem(post("connection:sales", sink="connection:sales"), 403, "path-not-allowed")


def test_the_command_line_reads_and_writes_by_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHEAF_CONNECTIONS", str(path))
    given = SparkOptions(conf={"spark.ui.enabled": "true"})
    source, out, _, spark = given.connected(EventSource("connection:lake/a"), "connection:lake/b")
    assert (source.path, out) == ("table:lake.shop.a", "table:lake.shop.b")
    assert spark.conf == {"spark.sql.catalog.lake": "a.Catalog", "spark.ui.enabled": "true"}


def test_a_table_of_a_database_is_a_source(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "db: {kind: jdbc, url: 'jdbc:derby:memory:sheaf;create=true', options: {fetchsize: '7'}}"
    )
    reached = read_connections(tmp_path / "c.yaml").reach("connection:db/EVENTS")
    machine: Any = spark.sparkContext._jvm
    machine.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    stored = {**reached.options, "url": reached.place}
    frame = spark.createDataFrame(events().to_pandas())
    texts = "kind VARCHAR(20), `user` VARCHAR(20)"  # Derby's own for texts cannot be compared
    frame.write.format("jdbc").options(**stored, createTableColumnTypes=texts).save()
    source = open_table(
        spark, reached.place, STREAM, options=reached.options, name="connection:db/EVENTS"
    )
    done = run_batch(spark, PROGRAM, source, FileTarget(str(tmp_path / "r.parquet")))
    assert done.events == len(events())
    assert multiset([read(done.names)]) == expected(pa.Table.from_batches(events().to_batches()))
    with pytest.raises(EventsError, match="'connection:db/NO_SUCH'"):
        open_table(
            spark,
            reached.place,
            STREAM,
            options={**reached.options, "dbtable": "NO_SUCH"},
            name="connection:db/NO_SUCH",
        )
