"""The chart of Helm gives what the manifests for Kubernetes say, and what its values ask for."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from api.http.settings import Settings
from tests.deploy.go_templates import merged, rendered

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
# Everything that can be said, at once.
ALL: dict[str, Any] = {
    "image": {"tag": "1.2", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
    "secret": "mine",
    "connections": "places",
    "settings": {"SHEAF_BROKERS": "kafka:9092", "SHEAF_JOBS_AT_ONCE": 2},
    "environment": [{"name": "KAFKA_PASSWORD", "value": 'a "b"'}],
    "data": {"claim": "old", "storageClass": "fast"},
    "events": {"storageClass": "slow", "accessModes": ["ReadWriteOnce", "ReadWriteMany"]},
    "service": {"port": 8080, "type": "NodePort"},
    "ingress": {
        "host": "sheaf.example.org",
        "class": "nginx",
        "tlsSecret": "tls",
        "annotations": {"a/b": "c"},
    },
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
}


def by_name(documents: list[Any]) -> dict[tuple[str, str], Any]:
    found = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    assert len(found) == len(documents)
    return found


def test_the_chart_as_it_is_makes_the_manifests_that_there_are_without_it() -> None:
    plain = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "service.yaml").read_text()))
    made = by_name(rendered(CHART, "sheaf"))
    for (kind, _), document in made.items():
        if kind == "PersistentVolumeClaim":  # which outlives its release
            assert document["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert made == by_name(plain)


def test_values_are_found_where_they_belong() -> None:
    made = by_name(rendered(CHART, "shop", **ALL))
    assert set(made) == {
        ("Deployment", "shop"),
        ("Service", "shop"),
        ("Ingress", "shop"),
        ("PersistentVolumeClaim", "shop-events"),  # the other one is there already
    }
    pod = made["Deployment", "shop"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "sheaf:1.2"
    assert container["imagePullPolicy"] == "Always"
    variables = {v["name"]: v.get("value", v.get("valueFrom")) for v in container["env"]}
    assert variables == {
        "SHEAF_STORE": {"secretKeyRef": {"name": "mine", "key": "store"}},
        "SHEAF_TOKEN_FILE": "/etc/sheaf/tokens",
        "SHEAF_CONNECTIONS": "/etc/sheaf-connections/connections.yaml",
        "SHEAF_JOB_MEMORY": "6 GB",
        "SHEAF_BROKERS": "kafka:9092",
        "SHEAF_JOBS_AT_ONCE": "2",  # variables are texts
        "KAFKA_PASSWORD": 'a "b"',
    }
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "old"}
    assert volumes["events"]["persistentVolumeClaim"] == {"claimName": "shop-events"}
    assert volumes["connections"]["secret"]["secretName"] == "places"
    assert (pod["nodeSelector"], pod["tolerations"]) == (ALL["nodeSelector"], ALL["tolerations"])
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    claim = made["PersistentVolumeClaim", "shop-events"]["spec"]
    assert claim["storageClassName"] == "slow"
    assert claim["accessModes"] == ["ReadWriteOnce", "ReadWriteMany"]
    service = made["Service", "shop"]["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("NodePort", 8080)
    ingress = made["Ingress", "shop"]
    assert ingress["spec"]["tls"] == [{"hosts": ["sheaf.example.org"], "secretName": "tls"}]
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "shop", "port": {"name": service["ports"][0]["name"]}}


def test_settings_of_the_chart_are_those_of_the_service() -> None:
    # The others are paths and secrets that the chart itself sets.
    own = {"data", "store", "tokens", "token_file", "connections"}
    named = set(SCHEMA["properties"]["settings"]["propertyNames"]["enum"])
    assert named == {f"SHEAF_{name.upper()}" for name in Settings.model_fields.keys() - own}


@pytest.mark.parametrize(
    "wrong",
    [
        {"settings": {"SHEAF_JOB_MEMROY": "6 GB"}},
        {"settings": {"SHEAF_STORE": "x"}},
        {"imag": {}},
        {"data": {"size": "much"}},
        {"service": {"port": "http"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"secret": ""},
    ],
)
def test_values_that_cannot_be_meant_are_refused(wrong: dict[str, Any]) -> None:
    schema = jsonschema_rs.validator_for(SCHEMA)
    assert schema.is_valid(VALUES)
    assert schema.is_valid(merged(VALUES, ALL))
    assert not schema.is_valid(merged(VALUES, wrong))


def test_the_chart_has_the_version_of_the_package_and_names_only_values_that_there_are() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.*)"$', (DEPLOY.parent / "pyproject.toml").read_text(), re.M)
    assert version is not None
    assert chart["appVersion"] == chart["version"] == version[1]
    for template in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values((?:\.\w+)+)", template.read_text()):
            found = VALUES
            for name in path[1:].split("."):
                assert name in found, f"{template.name}: {path}"
                found = found[name]


@pytest.mark.parametrize("values", [{}, ALL])
def test_helm_finds_nothing_wrong_and_makes_the_same(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm")
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    given = ["--values", str(tmp_path / "values.yaml"), "--kube-version", "1.31.0"]
    lint = subprocess.run(
        [helm, "lint", "--strict", str(CHART), *given], capture_output=True, text=True, check=False
    )
    assert lint.returncode == 0, lint.stdout
    command = [helm, "template", "shop", str(CHART), *given]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = [each for each in yaml.safe_load_all(made) if each is not None]
    assert by_name(documents) == by_name(rendered(CHART, "shop", **values))
