"""The process of ``driftsurf serve``: killed and started again, ended by SIGTERM, reloaded by SIGHUP."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httptools")

from driftsurf.service.http.security import new_key

WAIT = 120.0


class Served:
    """A running command, with a small client."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.key = ""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http://" in line, line
        self.address = line.rpartition(" at ")[2].strip()

    def ask(self, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.address + path, data, {"authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            return json.load(answer)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "driftsurf", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield Served(process)
    finally:
        process.kill()
        process.wait(WAIT)
        assert process.stdout is not None
        process.stdout.close()


def test_what_was_acknowledged_survives_a_kill_and_sigterm_ends_with_0(tmp_path: Path) -> None:
    arguments = ("--model", "sales", "--label", "sold", "--task", "binary", "--column", "price=number")
    rows = [{"price": i % 7, "sold": "yes" if i % 7 > 3 else "no"} for i in range(200)]
    with serving(tmp_path, *arguments) as served:
        served.ask("/v1/models/sales/learn", {"rows": rows})
        served.ask("/v1/models/sales/predict", {"rows": [{"id": "o-17", "price": 6}]})
        served.process.kill()
        served.process.wait(WAIT)
    with serving(tmp_path, *arguments) as again:
        taken = again.ask("/v1/models/sales/label", {"labels": {"o-17": "yes"}})
        assert taken["count"] == 1
        while (info := again.ask("/v1/models/sales"))["applied"] <= taken["position"]:
            pass
        assert (info["rows"], info["labels"]["predicted"], info["labels"]["labelled"]) == (200, 1, 1)
        assert again.ask("/readyz")["ready"]
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(WAIT) == 0


def test_keys_are_read_again_by_sighup(tmp_path: Path) -> None:
    def write(*names: str) -> dict[str, str]:
        secrets = {}
        lines = ['[models.sales]\nlabel = "sold"\ntask = "binary"\n']
        for name in names:
            key, secrets[name] = new_key(name, ["read"])
            lines.append(f'[[keys]]\nname = "{name}"\nsha256 = "{key.sha256}"\nscopes = ["read"]\n')
        (tmp_path / "serve.toml").write_text("\n".join(lines))
        return secrets

    first = write("first")
    with serving(tmp_path, "serve.toml") as served:
        served.key = first["first"]
        assert served.ask("/v1/models")["models"][0]["name"] == "sales"
        second = write("second")
        served.process.send_signal(signal.SIGHUP)
        served.key = second["second"]
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            with contextlib.suppress(urllib.error.HTTPError):
                assert served.ask("/v1/models")["models"]
                break
        else:
            pytest.fail("the new key was not taken")
