"""Secrets come from files and environment variables, and appear in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftsurf.core.secrets import Secret, read_secret
from driftsurf.errors import OptionError
from driftsurf.runs.alerts import read_alerts


def test_first_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("  hunter2 \nsecond line\n")
    assert read_secret("secret", f"file:{path}") == Secret("hunter2")


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSURF_TEST_SECRET", "hunter2")
    assert read_secret("secret", "env:DRIFTSURF_TEST_SECRET").value == "hunter2"


@pytest.mark.parametrize("where", ["hunter2", "", "env:", "file:", "https:hunter2", None, 7])
def test_a_secret_in_the_configuration_is_refused_and_not_repeated(where: object) -> None:
    with pytest.raises(OptionError, match="file:PATH") as caught:
        read_secret("secret", where)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\nhunter2", b"\xff\xfe"])
def test_unusable_files_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(OptionError, match="key"):
        read_secret("secret", f"file:{path}")
    with pytest.raises(OptionError, match="missing"):
        read_secret("secret", f"file:{tmp_path / 'missing'}")


def test_an_unset_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTSURF_TEST_SECRET", raising=False)
    with pytest.raises(OptionError, match="DRIFTSURF_TEST_SECRET"):
        read_secret("secret", "env:DRIFTSURF_TEST_SECRET")


def test_a_secret_is_hidden_in_texts() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"


def test_the_channel_of_a_missing_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTSURF_TEST_SECRET", raising=False)
    hook = {"kind": "webhook", "url": "https://ops.example/hook", "secret": "env:DRIFTSURF_TEST_SECRET"}
    with pytest.raises(OptionError, match=r"\[alerts.channels.ops\]: secret is .*'DRIFTSURF_TEST_SECRET'"):
        read_alerts({"channels": {"ops": hook}})
