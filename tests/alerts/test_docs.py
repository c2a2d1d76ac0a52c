"""The configuration in docs/alerts.md can be read, and its rules are all there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from driftsurf.runs.alerts import AlertOptions, read_alerts

PAGE = (Path(__file__).parents[2] / "docs/alerts.md").read_text(encoding="utf-8")


def test_the_documented_configuration_holds_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("hunter2")
    monkeypatch.setenv("SLACK_WEBHOOK", "https://chat.example.org/hook")
    monkeypatch.setenv("MAIL_PASSWORD", "hunter2")
    block = re.search(r"```toml\n(.*?)```", PAGE, re.S)
    assert block is not None
    options = read_alerts(tomllib.loads(block[1].replace("/run/secrets", str(tmp_path)))["alerts"])
    assert sorted(channel.kind for channel in options.channels.values()) == ["alertmanager", "mail", "slack", "webhook"]
    given = {name: value for name, value in vars(options).items() if name != "channels"}
    assert given == {name: value for name, value in vars(AlertOptions()).items() if name != "channels"}


def test_every_rule_is_documented() -> None:
    source = "".join(
        (Path(__file__).parents[2] / "src/driftsurf/runs/alerts" / name).read_text()
        for name in ("rules.py", "delivery.py")
    )
    rules = set(re.findall(r"Condition\(\s*\"([a-z-]+)\"", source)) | {"transition", "drift"}
    assert rules == set(re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.M))
