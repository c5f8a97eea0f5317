"""A Kafka broker of the tests' own, from jars in a folder, and Spark's connector to it.

`SHEAF_KAFKA_JARS` names the folder, with the jars of the broker in `broker` and those of the
connector in `connector`. Without it Maven is asked for them, once.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from engines.spark.runtime.java import java_home

BROKER = "org.apache.kafka:kafka_2.13:3.9.2"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
# A registry may not have Spark's latest version yet, or only some of its artifacts. These, of
# versions before it, work with it; what else they need comes with Spark.
EARLIER = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)

_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>sheaf</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = """\
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>
"""
_ALONE = """\
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
"""
_SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
CLUSTER = "c2hlYWYtdGVzdHMtb25seQ"  # any 16 bytes


class NoJarsError(Exception):
    """Why there are no jars."""


def jars() -> tuple[list[Path], list[Path]]:
    """The jars of the broker and those of the connector."""
    given = os.environ.get("SHEAF_KAFKA_JARS")
    folder = Path(given) if given else Path.home() / ".cache" / "sheaf" / "kafka"
    found = []
    for name, package in (("broker", BROKER), ("connector", CONNECTOR)):
        if not list((folder / name).glob("*.jar")):
            if given:
                raise NoJarsError(f"SHEAF_KAFKA_JARS has no jars in '{name}'")
            try:
                _fetch([package], folder / name)
            except NoJarsError:
                if package != CONNECTOR:
                    raise
                _fetch(EARLIER, folder / name, alone=True)
        found.append(sorted((folder / name).glob("*.jar")))
    return found[0], found[1]


def _fetch(packages: Sequence[str], folder: Path, alone: bool = False) -> None:
    """Packages from Maven, `alone` or with what they need, into a folder that is then there."""
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJarsError(
            f"there is no mvn to fetch {packages[0]} with, and SHEAF_KAFKA_JARS is not set"
        )
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    draft.mkdir(parents=True)
    try:
        needs = (_DEPENDENCY.format(*p.split(":"), _ALONE if alone else "") for p in packages)
        (draft / "pom.xml").write_text(_POM.format("".join(needs)))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=."]
        done = subprocess.run(
            [maven, "-q", "-B", *goal], cwd=draft, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise NoJarsError(f"{packages[0]} cannot be fetched: {done.stdout.strip()[:300]}")
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def broker(folder: Path, classpath: list[Path]) -> Iterator[str]:
    """A broker that keeps everything in a folder; gives its address."""
    port, controller = _free_port(), _free_port()
    settings = folder / "server.properties"
    settings.write_text(_SERVER.format(port=port, controller=controller, data=folder / "data"))
    java = [str(java_home() / "bin" / "java"), "-Xmx256m", "-cp", ":".join(map(str, classpath))]
    with (folder / "log").open("wb") as log:
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)],
            stdout=log,
            stderr=log,
            check=True,
        )
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
    try:
        while not _listens(port):
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
