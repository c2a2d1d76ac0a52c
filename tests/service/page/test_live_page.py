"""The live page in a browser, on a real service: it follows models, survives a restart, and is steered by keyboard."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from browser import CHROMIUM, Browser
from tests.integration.services.ports import free_port

from driftsurf.service.config import ModelConfig, ServiceConfig
from driftsurf.service.http.security import new_key
from driftsurf.service.serve import Service
from driftsurf.service.settings import ServedOptions, ServiceOptions

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
HOSTILE = "<img src=x onerror=alert(1)>"
ROWS = 50


class Running:
    """A service in a thread, which learns rows of a concept that the test can reverse."""

    def __init__(self, folder: Path, port: int = 0, **more: Any) -> None:
        options = ServedOptions(model="driftsurf", learner="logistic", label="sold", task="binary", batch_size=ROWS)
        config = ServiceConfig(
            service=ServiceOptions(folder=folder, port=port), models={"sales": ModelConfig(options)}, **more
        )
        self.service = Service(config)
        self.rng = np.random.default_rng(1)

    def __enter__(self) -> Running:
        self.service.__enter__()
        ready = threading.Event()
        self.thread = threading.Thread(target=self.service.run, args=(ready.set,))
        self.thread.start()
        assert ready.wait(60)
        self.client = httpx.Client(base_url=self.service.address, timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.service.stop()
        self.thread.join()
        self.service.__exit__()

    def learn(self, steps: int, *, reverse: bool = False) -> None:
        for _ in range(steps):
            X = self.rng.normal(size=(ROWS, 2))
            sold = (X[:, 0] > 0) != reverse
            rows = [
                {"price": price, "size": size, "sold": HOSTILE if yes else "no"}
                for (price, size), yes in zip(X.tolist(), sold.tolist(), strict=True)
            ]
            answer = self.client.post("/v1/models/sales/learn", json={"rows": rows})
            assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


def view(page: Browser) -> str:
    return str(page.tell("document.querySelector('.view').textContent"))


def steps_are(count: int) -> str:
    return f"document.querySelector('.view')?.textContent.includes('of {count}')"


@needs_chromium
def test_the_page_follows_a_model_through_a_drift_and_a_restart(browser: Browser, tmp_path: Path) -> None:
    browser.messages.clear()
    port = free_port()
    with Running(tmp_path, port) as running:
        running.learn(10)
        browser.open(running.service.address)
        browser.wait_for(steps_are(10))
        assert browser.tell("document.querySelector('.happened').textContent").startswith("Nothing yet")
        browser.tell("window.stays = 1")
        running.learn(8, reverse=True)
        browser.wait_for(steps_are(18))
        browser.wait_for("document.querySelector('.happened').textContent.includes('took over')")
        told = browser.tell("document.querySelectorAll('.happened li').length")
        # What a user has named is shown as text: no element was made of it, and nothing ran.
        assert HOSTILE in browser.tell("document.querySelector('.model').textContent")
        assert browser.tell("document.querySelectorAll('img').length") == 0
    with Running(tmp_path, port) as running:
        browser.wait_for("document.querySelector('.link.on') !== null")
        running.learn(2, reverse=True)
        browser.wait_for(steps_are(20))
        lines = browser.tell("[...document.querySelectorAll('.happened li')].map((one) => one.textContent)")
        assert len(set(lines)) == len(lines) >= told  # nothing is lost, nothing is told twice
        assert browser.tell("window.stays") == 1  # the page was not loaded again
        browser.open("about:blank")
    faults = [one for one in browser.messages if "violates" in one or "exceptionDetails" in one]
    assert faults == []


@needs_chromium
def test_an_operator_steers_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.learn(4)
        browser.open(running.service.address)
        browser.wait_for(steps_are(4))
        browser.tell("document.querySelector('.orders summary').focus()")
        browser.key("Enter", windowsVirtualKeyCode=13, text="\r")
        browser.wait_for("document.querySelector('.orders').open")
        browser.tell(
            "[...document.querySelectorAll('.orders button')].find((one) => one.textContent === 'pin').focus()"
        )
        browser.key("Enter", windowsVirtualKeyCode=13, text="\r")
        browser.wait_for("document.querySelector('dialog').open")
        assert browser.tell("document.activeElement.textContent") == "cancel"
        browser.key("Tab", windowsVirtualKeyCode=9)
        browser.key("Enter", windowsVirtualKeyCode=13, text="\r")
        browser.wait_for("document.querySelector('.status').textContent.includes('pinned')")
        assert running.client.get("/v1/models/sales").json()["pinned"] is True
        browser.open("about:blank")


@needs_chromium
def test_a_key_is_asked_for_and_its_scope_decides(browser: Browser, tmp_path: Path) -> None:
    reader, secret = new_key("reader", ["read"])
    with Running(tmp_path, keys=(reader,)) as running:
        browser.open(running.service.address)
        browser.wait_for("!document.querySelector('form.log-in').hidden")
        for typed, shown in (("wrong", "form.log-in"), (secret, ".model")):
            browser.tell(f"document.querySelector('#key').value = {typed!r}")
            browser.tell("document.querySelector('form.log-in').requestSubmit()")
            browser.wait_for(f"!document.querySelector('{shown}').hidden")
            if typed == "wrong":
                assert browser.wait_for("document.querySelector('.problem').textContent")
        assert browser.tell("document.querySelector('.orders').hidden") is True
        assert secret not in browser.tell("document.documentElement.outerHTML + document.cookie + location.href")
        browser.tell("document.querySelector('.log-out').click()")
        browser.wait_for("!document.querySelector('form.log-in').hidden")
        browser.open("about:blank")


@needs_chromium
def test_numbers_of_models_are_in_full_and_a_rare_class_has_its_own(browser: Browser, tmp_path: Path) -> None:
    """Errors of prices had powers of ten, and the overview compared a rare class by the share of wrong rows."""
    options = ServedOptions(model="recommended-linear", label="y", batch_size=ROWS)
    models = {
        "prices": ModelConfig(replace(options, task="regression")),
        "fraud": ModelConfig(replace(options, task="binary")),
    }
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    noise = rng.normal(size=800)
    targets = {"prices": (1e5 * (5 + X[:, 0] + noise)).tolist(), "fraud": np.where(X[:, 0] > 1.7, "yes", "no").tolist()}
    with Service(ServiceConfig(service=ServiceOptions(folder=tmp_path, port=0), models=models)) as service:
        ready = threading.Event()
        thread = threading.Thread(target=service.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            with httpx.Client(base_url=service.address, timeout=60) as client:
                for name, y in targets.items():
                    rows = [{"a": a, "b": b, "y": target} for (a, b), target in zip(X.tolist(), y, strict=True)]
                    assert client.post(f"/v1/models/{name}/learn", json={"rows": rows}).status_code == 200
            browser.open(service.address)
            shown = "document.querySelector('.overview .models').textContent"
            browser.wait_for(f"/800 rows learned.*800 rows learned/.test({shown})")
            text = str(browser.tell(shown))
            assert re.search(r"error \d{2,3},\d{3} in the last 500 rows, rule without a model \d{2,3},\d{3}", text)
            assert re.search(r"average precision of yes 0\.\d{3}, by chance 0\.\d{3}", text)
            browser.open("about:blank")
        finally:
            service.stop()
            thread.join()


@needs_chromium
def test_eight_tabs_share_one_stream_of_events(browser: Browser, tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.learn(3)
        try:
            for number in range(8):  # a browser opens six connections to a server at most
                if number:
                    browser.new_tab()
                browser.open(running.service.address)
                browser.wait_for(steps_are(3))
            running.learn(2)
            for number in range(8):
                browser.use_tab(number)
                browser.wait_for(steps_are(5))
            assert running.service.app.events.readers == 1
            browser.use_tab(0)  # the tab that reads the events goes away, and another one takes its place
            browser.open("about:blank")
            running.learn(2)
            for number in range(1, 8):
                browser.use_tab(number)
                browser.wait_for(steps_are(7))
        finally:
            while len(browser.tabs) > 1:
                browser.close_tab(len(browser.tabs) - 1)


NAMES = (
    HOSTILE,
    "</script><script>window.ran = 1</script>",
    "\"'`&lt;<b>",
    "\u202eabc\u2066",
    "nul\0nul",
    "a" * 3000,
    "__proto__",
    "javascript:alert(1)",
)


@needs_chromium
def test_hostile_names_of_columns_classes_and_challengers_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    browser.messages.clear()
    classes = [name[:200].replace("\0", "") for name in NAMES]
    with Running(tmp_path) as running:
        for step in range(16):
            X = running.rng.normal(size=(ROWS, len(NAMES)))
            sold = (X[:, 0] > 0) != (step >= 8)
            rows = [
                dict(zip(NAMES, row, strict=True)) | {"sold": classes[int(yes)]}
                for row, yes in zip(X.tolist(), sold.tolist(), strict=True)
            ]
            answer = running.client.post("/v1/models/sales/learn", json={"rows": rows})
            assert answer.status_code == 200, answer.text
        order = {"kind": "challenge", "model": HOSTILE, "options": {"model": "oblivious"}}
        running.client.post("/v1/models/sales/orders", json=order)
        browser.open(f"{running.service.address}/#%zz")  # no name of a model, and no encoded text
        browser.wait_for(steps_are(16))
        browser.wait_for("document.querySelector('.happened').textContent.includes('took over')")
        assert HOSTILE in browser.tell("document.querySelector('.model').textContent")
        assert browser.tell("document.querySelectorAll('main img, main script, main b.x').length") == 0
        assert browser.tell("window.ran") is None
        assert browser.tell("document.documentElement.scrollWidth <= innerWidth") is True
        browser.open("about:blank")
    assert [one for one in browser.messages if "violates" in one or "exceptionDetails" in one] == []
