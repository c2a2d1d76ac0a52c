"""A real browser for tests: headless chromium, controlled through a pipe with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 180.0
"""Seconds to wait for an answer; the machine may be busy."""
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --disable-dev-shm-usage --remote-debugging-pipe"
)


class Browser:
    """Pages of chromium, one of which is used at a time.

    The console output of all is in ``messages``, and the requested addresses are in ``requests``.
    """

    def __init__(self, width: int = 1100, height: int = 900) -> None:
        assert CHROMIUM is not None
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        ends = f"3<&{theirs_in} 4>&{theirs_out}"
        command = f'exec "$0" {OPTIONS} --user-data-dir="$1" --window-size={width},{height} about:blank {ends}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, self._profile.name],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._rest, self._session, self._loaded = 0, b"", "", False
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.tabs: list[tuple[str, str]] = []
        """Target and session of every tab, in the order in which they were opened."""
        self._attach(page["targetId"])

    def _attach(self, target: str) -> None:
        self._session = ""
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.tabs.append((target, self._session))
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def new_tab(self) -> None:
        """Open one more tab, and use it from now on."""
        self._session = ""
        self._attach(self.call("Target.createTarget", url="about:blank")["targetId"])

    def use_tab(self, number: int) -> None:
        """Use a tab from now on; 0 is the first one."""
        self._session = self.tabs[number][1]

    def close_tab(self, number: int) -> None:
        """Close a tab, and use the first one from now on."""
        self._session = ""
        self.call("Target.closeTarget", targetId=self.tabs.pop(number)[0])
        self.use_tab(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its answer."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._out, json.dumps(order).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                answer: dict[str, Any] = message["result"]
                return answer

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], SECONDS)[0], "the browser does not answer"
            part = os.read(self._in, 2**16)
            assert part, "the browser has gone"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Page.loadEventFired":
            self._loaded = True
        elif message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.messages.append(json.dumps(parameters))
        return message

    def open(self, path: Path | str) -> None:
        """Open a file or an address and wait until it is loaded."""
        self._loaded = False
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not self._loaded:
            self._read()

    def tell(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of a JavaScript expression as soon as it is true."""
        until = time.monotonic() + SECONDS
        while not (value := self.tell(expression)):
            assert time.monotonic() < until, f"never true: {expression}"
            time.sleep(0.05)
        return value

    def settle(self) -> None:
        """Wait until pending changes are drawn."""
        self.tell("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Move, press or release the mouse, or turn its wheel."""
        self.call("Input.dispatchMouseEvent", type=f"mouse{kind}", x=x, y=y, **more)

    def key(self, key: str, **more: Any) -> None:
        """Press and release a key."""
        pressed = {"text": key} if len(key) == 1 else {}
        for kind, text in (("keyDown", pressed), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **text, **more)

    def picture(self, path: Path) -> None:
        """Save a screenshot."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def printed(self, path: Path) -> int:
        """Print the page to PDF and return its size."""
        data = base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])
        return path.write_bytes(data)

    def prefer(self, scheme: str, media: str = "") -> None:
        """Emulate a light or dark colour scheme, or print media."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
