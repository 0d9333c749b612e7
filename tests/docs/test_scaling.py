"""What the page about scaling shows runs, and its manifests are ones that Kubernetes and Compose accept."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/scaling"
MANIFESTS = list(yaml.safe_load_all((EXAMPLES / "kubernetes/shop.yaml").read_text(encoding="utf-8")))
BY_KIND = {manifest["kind"]: manifest for manifest in MANIFESTS}
READ_BY_THE_SERVER = {"HOST", "PORT", "REDIS_URL", "DRAGOMAN_SECRET", "DRAGOMAN_ALLOWED_HOSTS"}
GRACE_SECONDS = 5
"""How long a server gives its requests after SIGTERM."""


def test_a_session_outlives_the_process_that_began_it():
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    lines = dict(re.findall(r"^(begun in|went on in|the order is) (.+)$", said.stdout, re.MULTILINE))
    assert lines["begun in"] != lines["went on in"]
    assert re.findall(r"^the cart: (.+)$", said.stdout, re.MULTILINE) == ["['tea']", "['tea', 'cups']"]
    assert lines["the order is"] == "ordered"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_kubernetes_accepts_a_manifest(manifest):
    import kubernetes_validate

    kubernetes_validate.validate(manifest, "1.37", strict=True)
    broken = manifest | {"spec": {**manifest["spec"], "selector": "shop"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.37", strict=True)


def test_the_manifests_belong_together():
    pod = BY_KIND["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert BY_KIND["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert BY_KIND["Service"]["spec"]["selector"] == labels
    assert BY_KIND["Service"]["spec"]["sessionAffinity"] == "None"
    assert BY_KIND["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert BY_KIND["PodDisruptionBudget"]["spec"]["minAvailable"] < BY_KIND["Deployment"]["spec"]["replicas"]


def test_a_pod_has_time_to_end_and_a_server_knows_its_variables():
    pod = BY_KIND["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > pause + GRACE_SECONDS
    names = {variable["name"] for variable in container["env"]}
    assert names <= READ_BY_THE_SERVER
    secret = (EXAMPLES / "kubernetes/shop.yaml").read_text(encoding="utf-8").split("apiVersion", 1)[0]
    assert names | set(re.findall(r"--from-literal=(\w+)=", secret)) == READ_BY_THE_SERVER


def test_the_compose_file_names_services_that_exist_and_files_that_are_there():
    services = yaml.safe_load((EXAMPLES / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"redis", "shop", "balancer"}
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        assert set(service.get("depends_on", ())) <= set(services)
        for mounted in (volume.split(":")[0] for volume in service.get("volumes", ())):
            assert not mounted.startswith(".") or (EXAMPLES / mounted).exists()
    assert set(services["shop"]["environment"]) <= READ_BY_THE_SERVER
    assert f"http://shop:{dockerfile_port()};" in (EXAMPLES / "nginx.conf").read_text(encoding="utf-8")


def dockerfile_port():
    found = re.search(r"PORT=(\d+)", (EXAMPLES / "Dockerfile").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]
