"""What is in `deploy/` fits together, and fits the service: names, paths, settings, metrics."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute
from pyspark.sql import SparkSession

from api.cli.commands.serve import serve
from api.http.metrics import Metrics
from api.http.routes import health
from api.http.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
KUBERNETES = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "service.yaml").read_text()))
DASHBOARD = json.loads((DEPLOY / "grafana" / "sheaf.json").read_text())
SETTINGS = {f"SHEAF_{name.upper()}" for name in Settings.model_fields}
# What compose itself puts in, from `.env`.
PUT_IN = {
    "SHEAF_DB_PASSWORD",
    "SHEAF_EVENTS",
    "SHEAF_MEMORY",
    "SHEAF_WORKER_CORES",
    "SHEAF_WORKER_MEMORY",
}
SERVICES = COMPOSE["services"].items()


def settings_in(text: str) -> set[str]:
    return set(re.findall(r"\bSHEAF_[A-Z_]+\b", text))


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "kubernetes/service.yaml"])
def test_all_settings_that_are_named_are_ones_of_the_service(name: str) -> None:
    assert settings_in((DEPLOY / name).read_text()) <= SETTINGS | PUT_IN


def test_the_image_names_modules_and_options_that_there_are() -> None:
    text = (DEPLOY / "Dockerfile").read_text() + (DEPLOY / "compose.yaml").read_text()
    for module in set(re.findall(r"\bsheaf\.((?:api|engines)[\w.]*)", text)):
        path = DEPLOY.parent / module.replace(".", "/")
        assert path.with_suffix(".py").is_file(), module
    command = json.loads(re.findall(r"^CMD (.*)$", text, re.M)[-1])
    options = {word[2:] for word in command if word.startswith("--")}
    assert options <= set(serve.__annotations__)
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert not {"api", "engines", "docs", "README.md", "requirements.lock"} & set(ignored)


def test_the_versions_of_the_image_are_those_of_the_lock() -> None:
    script = re.search(r"sed (-e .*) requirements\.lock", (DEPLOY / "Dockerfile").read_text())
    assert script is not None
    lines = (DEPLOY.parent / "requirements.lock").read_text().splitlines()
    kept = [re.sub(r" \\$", "", line) for line in lines if not re.match(r" *--hash=", line)]
    assert script[1] == r"-e 's/ \\$//' -e '/^ *--hash=/d'"
    assert len(kept) > 50
    assert all(re.match(r"[\w.\[\]-]+==\S+( ;.*)?$", line) for line in kept), kept


def test_services_name_only_what_compose_has() -> None:
    for name, service in SERVICES:
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys(), name
        for secret in service.get("secrets", ()):
            assert secret in COMPOSE["secrets"], name
        for volume in service.get("volumes", ()):
            source = (
                volume.rpartition(":/")[0] if not volume.endswith(":ro") else volume.split(":")[0]
            )
            if source.startswith("./"):
                assert (DEPLOY / source).is_file(), source
            elif not source.startswith("${"):
                assert source in COMPOSE["volumes"], source
        image = service["image"]
        assert image == "sheaf:latest" or re.search(r":v?\d", image), f"{image} has no version"
        # Nothing but this machine reaches a port.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


def test_what_services_keep_is_in_volumes() -> None:
    kafka, grafana = (COMPOSE["services"][name] for name in ("kafka", "grafana"))
    assert kafka["volumes"] == [f"kafka:{kafka['environment']['KAFKA_LOG_DIRS']}"]
    dashboards = yaml.safe_load((DEPLOY / "grafana" / "dashboards.yaml").read_text())["providers"]
    folder = dashboards[0]["options"]["path"]
    assert f"./grafana/sheaf.json:{folder}/sheaf.json:ro" in grafana["volumes"]
    ignored = (DEPLOY.parent / ".gitignore").read_text().split()
    for secret in COMPOSE["secrets"].values():
        assert f"/deploy/{secret['file'].removeprefix('./')}" in ignored
    assert "/deploy/.env" in ignored


def test_services_of_our_image_may_do_no_more_than_they_need() -> None:
    for name in ("sheaf", "spark", "worker"):
        service = COMPOSE["services"][name]
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    text = (DEPLOY / "Dockerfile").read_text()
    extras = re.search(r"sheaf\[([\w,]+)\] @", text)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert extras is not None
    assert set(extras[1].split(",")) == project["optional-dependencies"].keys() - {"lsp"}


def test_services_find_each_other() -> None:
    environment = COMPOSE["services"]["sheaf"]["environment"]
    hosts = re.findall(r"(?:@|//|^)(\w+)[:/]", " ".join(environment.values()), re.M)
    kafka = COMPOSE["services"]["kafka"]["environment"]
    assert {"postgres", "spark"} <= set(hosts)
    assert environment["SHEAF_BROKERS"] in kafka["KAFKA_ADVERTISED_LISTENERS"]
    assert environment["SHEAF_MASTERS"] in COMPOSE["services"]["worker"]["command"][-1]
    scraped = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["sheaf:8000"]
    assert scraped["authorization"]["credentials_file"].split("/")[-1] in COMPOSE["secrets"]


def test_probes_ask_for_pages_that_there_are() -> None:
    deployment = next(each for each in KUBERNETES if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    paths = {route.path for route in health.router.routes if isinstance(route, APIRoute)}
    probed = {
        container[f"{when}Probe"]["httpGet"]["path"]
        for when in ("startup", "liveness", "readiness")
    }
    assert probed <= paths
    assert pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
    claims = {
        each["metadata"]["name"] for each in KUBERNETES if each["kind"] == "PersistentVolumeClaim"
    }
    claimed = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert set(claimed) == claims
    service = next(each for each in KUBERNETES if each["kind"] == "Service")
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    # Two services never have one data folder, not for a moment.
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (
        1,
        {"type": "Recreate"},
    )


def test_the_dashboard_shows_metrics_that_the_service_has() -> None:
    metrics = Metrics(dict)
    known = set[str]()
    for family in metrics.registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        known |= {family.name + ending for ending in endings.get(family.type, ("",))}
    shown = set[str]()
    for panel in DASHBOARD["panels"]:
        assert panel["title"]
        for target in panel["targets"]:
            expression = target["expr"]
            assert expression.count("(") == expression.count(")")
            shown |= set(re.findall(r"\b(?:sheaf|process)_\w+", expression))
    assert shown <= known, shown - known
    # And all of our own, but for what says which version runs.
    ours = {name for name in known if name.startswith("sheaf_")} - {"sheaf_build_info"}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in ours}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} >= families
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    sources = yaml.safe_load((DEPLOY / "grafana" / "provisioning.yaml").read_text())["datasources"]
    assert {p["datasource"]["uid"] for p in DASHBOARD["panels"]} == {sources[0]["uid"]}


def test_the_job_for_the_operator_finds_what_its_workload_asks_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    application: dict[str, Any] = yaml.safe_load(
        (DEPLOY / "kubernetes" / "spark-application.yaml").read_text()
    )["spec"]
    assert application["sparkVersion"] == spark.version
    assert application["mainApplicationFile"].endswith("/job/job.py")
    workload, _, _ = application["arguments"]
    mounts = {mount["mountPath"] for mount in application["driver"]["volumeMounts"]}
    assert {str(Path(workload).parent)} == mounts

    job: dict[str, Any] = {"__name__": "job"}
    exec(compile(ast.parse((DEPLOY / "kubernetes" / "job.py").read_text()), "job.py", "exec"), job)
    (tmp_path / "cards.yaml").write_text(
        "name: cards\nstream: {time: ts, unit: s, type: kind}\n"
        "queries:\n- QUERY q PATTERN SEQ(A a, B b) PARTITION BY card AGG COUNT(*) WITHIN 9 s\n"
    )
    rows = [(1, "A", "c"), (2, "A", "c"), (3, "B", "c")]
    spark.createDataFrame(rows, "ts long, kind string, card string").write.parquet(
        str(tmp_path / "events")
    )
    job["main"](*(str(tmp_path / name) for name in ("cards.yaml", "events", "found")))
    (row,) = spark.read.parquet(str(tmp_path / "found")).collect()
    assert (row["query"], row["count"]) == ("q", 2)
