"""The files in ``deploy/`` fit the service, and the script that checks them finds faults."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools import check_deployment
from tools.check_deployment import CHECKS, DEPLOY

from driftsurf.service.http.metrics import ServiceMetrics


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_files_have_no_faults(check: Callable[[], Iterator[str]]) -> None:
    assert list(check()) == []


def test_the_dashboard_and_the_alert_rules_use_metrics_that_exist() -> None:
    exist = {f"driftsurf_{one.name}" for one in ServiceMetrics().families([], {})}
    exist.add("driftsurf_http_request_seconds_bucket")
    used = check_deployment.metric_names()
    assert len(used) > 10
    assert used - exist == set()


FAULTS = [
    ("dockerfile", "Dockerfile", "USER driftsurf", "USER root"),
    ("dockerfile", "Dockerfile", "COPY src src", "COPY sources src"),
    ("dockerfile", "Dockerfile", "EXPOSE 8470", "EXPOSE 80"),
    ("dockerfile", "Dockerfile", "RUN pip wheel", "RUN pip download"),
    ("dockerfile", "Dockerfile", "libgomp1", "libgomp"),
    ("dockerfile", "Dockerfile", "WORKDIR /models", "CHDIR /models"),
    ("compose", "compose.yaml", "127.0.0.1:8470:8470", "8470:8470"),
    ("compose", "compose.yaml", "./prometheus:", "./prometeus:"),
    ("compose", "compose.yaml", "./serve.toml:", "./served.toml:"),
    ("compose", "compose.yaml", "- models:/models", "- model:/models"),
    ("compose", "compose.yaml", "secrets: [keys]", "secrets: [key]"),
    ("kubernetes", "kubernetes.yaml", "replicas: 1", "replicas: 2"),
    ("kubernetes", "kubernetes.yaml", "path: /readyz", "path: /ready"),
    (
        "kubernetes",
        "kubernetes.yaml",
        "- name: models\n              mountPath",
        "- name: model\n              mountPath",
    ),
    ("kubernetes", "kubernetes.yaml", "containerPort: 8470", "containerPort: 80"),
    (
        "scraping",
        "kubernetes.yaml",
        "      labels:",
        '      annotations: {prometheus.io/scrape: "true"}\n      labels:',
    ),
    ("scraping", "kubernetes.yaml", "name: driftsurf\n  labels:\n    app: driftsurf", "name: driftsurf"),
    ("scraping", "kubernetes-metrics.yaml", "port: http", "port: metrics"),
    ("scraping", "kubernetes-metrics.yaml", "          key: key\n", ""),
    ("scraping", "prometheus/prometheus.yml", "credentials_file", "credentials"),
    ("dashboard", "grafana/dashboard.json", '"w": 12', '"w": 30'),
    ("systemd", "driftsurf.service", "Type=exec", "Type=forever"),
    ("nginx", "nginx.conf", "ssl_verify_client on;", "ssl_verify_client maybe;"),
    ("prometheus", "prometheus/alerts.yml", "for: 1m", "for: ever"),
]
PROGRAMS = {"systemd": "systemd-analyze", "nginx": "nginx", "prometheus": "promtool"}


@pytest.mark.parametrize(("name", "file", "old", "new"), FAULTS)
def test_a_fault_is_found(
    name: str, file: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS.get(name)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    copy = shutil.copytree(DEPLOY, tmp_path / "deploy")
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new))
    monkeypatch.setattr(check_deployment, "DEPLOY", copy)
    assert list(getattr(check_deployment, name)())
