"""Check the files in ``deploy/`` as far as possible without a container engine or a cluster.

    python -m tools.check_deployment

Each file is parsed and compared with the service: users, ports, probes, volumes, metric names. Where systemd, nginx,
Prometheus or Docker's compose plugin are installed, their own checkers run too; a line names each one that is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

try:
    import yaml
except ImportError:
    sys.exit("this check needs PyYAML, which is part of the development environment: pip install pyyaml")

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
PORT = "8470"
INSTRUCTIONS = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"),
    *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}


def _instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(words[0], words[1]) for words in (line.split(None, 1) for line in joined.splitlines())]


def dockerfile() -> Iterator[str]:
    """Yield the faults of the Dockerfile."""
    found = _instructions((DEPLOY / "Dockerfile").read_text())
    yield from (f"unknown instruction {name}" for name, _ in found if name not in INSTRUCTIONS)
    for name, rest in found:
        words = rest.split()
        if name == "COPY" and not words[0].startswith("--from"):
            yield from (f"COPY names {word}, which does not exist" for word in words[:-1] if not (ROOT / word).exists())
    users = [rest for name, rest in found if name == "USER"]
    if not users or users[-1] in ("root", "0"):
        yield "the container runs as root"
    if ("EXPOSE", PORT) not in found:
        yield f"port {PORT} is not exposed"
    stages = [number for number, (name, _) in enumerate(found) if name == "FROM"]
    last = [rest for name, rest in found[stages[-1] :] if name == "RUN"]
    if not any("pip wheel" in rest for _, rest in found[: stages[-1]]) or not any(".whl" in rest for rest in last):
        yield "the wheel is not built in one stage and installed in another"
    if not any("libgomp1" in rest for rest in last):
        yield "LightGBM lacks libgomp1"


def compose() -> Iterator[str]:
    """Yield the faults of the compose file."""
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in found["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./") and not (DEPLOY / source).exists():
                yield f"{name} mounts {source}, which does not exist"
            if not source.startswith(".") and source not in found["volumes"]:
                yield f"{name} mounts the volume {source}, which is not declared"
        yield from (
            f"{name} uses the secret {one}" for one in service.get("secrets", ()) if one not in found["secrets"]
        )
        for port in service.get("ports", ()):
            if not port.startswith("127.0.0.1:"):
                yield f"{name} is reachable from outside at {port}"


def kubernetes() -> Iterator[str]:
    """Yield the faults of the manifests."""
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    by_kind: dict[str, Any] = {one["kind"]: one for one in found}
    spec = by_kind["StatefulSet"]["spec"]
    if spec["replicas"] != 1:
        yield "a model has one writer, so there must be one replica"
    if spec["selector"]["matchLabels"] != spec["template"]["metadata"]["labels"]:
        yield "the selector does not match the pods"
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    volumes = {one["name"] for one in pod["volumes"]}
    volumes |= {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
    for mount in container["volumeMounts"]:
        if mount["name"] not in volumes:
            yield f"the volume {mount['name']} is mounted and not declared"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = container[probe]["httpGet"]["path"]
        if path not in ("/healthz", "/readyz"):
            yield f"{probe} asks for {path}"
    if str(container["ports"][0]["containerPort"]) != PORT or not pod["securityContext"]["runAsNonRoot"]:
        yield "the container has another port, or may run as root"


def scraping() -> Iterator[str]:
    """Yield the faults of what lets Prometheus read the metrics, which needs a key: in the cluster and in compose."""
    manifests = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    service: dict[str, Any] = next(one for one in manifests if one["kind"] == "Service")
    pods: dict[str, Any] = next(one for one in manifests if one["kind"] == "StatefulSet")["spec"]["template"][
        "metadata"
    ]
    if any(name.startswith("prometheus.io/") for name in pods.get("annotations", ())):
        yield "an annotation has Prometheus scrape the pods without a key, which is refused"
    monitor = yaml.safe_load((DEPLOY / "kubernetes-metrics.yaml").read_text())["spec"]
    if not monitor["selector"]["matchLabels"].items() <= service["metadata"].get("labels", {}).items():
        yield "the ServiceMonitor does not select the service"
    for endpoint in monitor["endpoints"]:
        if endpoint["port"] not in [one["name"] for one in service["spec"]["ports"]]:
            yield f"the ServiceMonitor names the port {endpoint['port']}, which the service has not"
        credentials = endpoint.get("authorization", {}).get("credentials", {})
        if endpoint.get("path") != "/metrics" or not {"name", "key"} <= credentials.keys():
            yield "the ServiceMonitor does not read /metrics with a key from a secret"
    for job in yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]:
        if "credentials_file" not in job.get("authorization", {}):
            yield f"the job {job['job_name']} scrapes without a key"


def metric_names() -> set[str]:
    """Return the names of all metrics that the dashboard and the alert rules use."""
    texts = [panel["expr"] for panel in _targets()]
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    texts += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return {name for text in texts for name in re.findall(r"driftsurf_[a-z_]+", text)}


def _targets() -> list[dict[str, Any]]:
    dashboard = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return [target for panel in dashboard["panels"] for target in panel["targets"]]


def dashboard() -> Iterator[str]:
    """Yield the faults of the dashboard."""
    found = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    numbers = [panel["id"] for panel in found["panels"]]
    if len(set(numbers)) != len(numbers):
        yield "two panels have the same id"
    for panel in found["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > 24:
            yield f"the panel {panel['title']!r} is wider than the page"


def _tool(name: str, *arguments: str) -> Iterator[str]:
    """Run a checker if it is installed, and yield what it complains about."""
    path = shutil.which(name)
    if path is None:
        print(f"  {name} is not installed: not run")
        return
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    words = (done.stderr or done.stdout).strip()
    # systemd-analyze complains and succeeds; what it says of other units of the machine does not count.
    if done.returncode or (arguments[-1] in words and name == "systemd-analyze"):
        yield f"{name}: {words}"


def systemd() -> Iterator[str]:
    """Yield the faults that systemd finds in the unit; the program need not be installed where this runs."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "driftsurf.service"
        text = (DEPLOY / "driftsurf.service").read_text()
        unit.write_text(text.replace("/opt/driftsurf/bin/driftsurf", sys.executable))
        yield from _tool("systemd-analyze", "verify", "--man=no", str(unit))


def nginx() -> Iterator[str]:
    """Yield the faults that nginx finds in its configuration, with a certificate made for this check."""
    if shutil.which("openssl") is None:
        print("  openssl is not installed: not run")
        return
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder) / "server.key", Path(folder) / "server.pem"
        request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "1"]
        subprocess.run([*request, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
        shutil.copy(certificate, Path(folder) / "clients.pem")
        configuration = Path(folder) / "nginx.conf"
        text = (DEPLOY / "nginx.conf").read_text().replace("/etc/nginx/tls", folder)
        configuration.write_text(f"pid {folder}/nginx.pid;\nerror_log stderr;\n{text}")
        yield from _tool("nginx", "-t", "-q", "-c", str(configuration), "-p", folder)


def prometheus() -> Iterator[str]:
    """Yield the faults that Prometheus finds in the alert rules."""
    yield from _tool("promtool", "check", "rules", str(DEPLOY / "prometheus" / "alerts.yml"))


CHECKS: tuple[Callable[[], Iterator[str]], ...] = (
    dockerfile,
    compose,
    kubernetes,
    scraping,
    dashboard,
    systemd,
    nginx,
    prometheus,
)


def main() -> int:
    """Run all checks, print their faults, and return 1 if there are any."""
    faults = 0
    for check in CHECKS:
        print(check.__name__)
        for fault in check():
            print(f"  FAULT {fault}")
            faults += 1
    print(f"{len(CHECKS)} files checked, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
