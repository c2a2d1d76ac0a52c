"""``driftsurf serve`` in a process of its own, which is killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Serving", "until"]


def until(done: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it was not done"
        time.sleep(0.05)


class Serving:
    """A service with a configuration.

    Parameters
    ----------
    folder
        Folder of the configuration and of the models.
    text
        The TOML file, without its port and folder.
    """

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config = folder / "serve.toml"
        self.config.write_text(f'port = 0\nfolder = "{folder / "models"}"\nlog-level = "error"\n{text}')
        self.process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self) -> None:
        """Start the service, and return when it answers."""
        command = [sys.executable, "-m", "driftsurf", "serve", str(self.config)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def end(self) -> None:
        """Let it end by itself."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(300) == 0
        self.kill()

    def get(self, path: str) -> bytes:
        """Return an answer."""
        with urllib.request.urlopen(self.address + path, timeout=300) as answer:
            found: bytes = answer.read()
        return found

    def status(self, name: str) -> dict[str, Any]:
        """Return the state of a model."""
        found: dict[str, Any] = json.loads(self.get(f"/v1/models/{name}"))
        return found

    def __enter__(self) -> Serving:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
