"""The content of the live page is made when it is needed, once for all, and stays small."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from driftsurf.report.run_page import PageParts, record_parts
from driftsurf.runs.explanation.records import read_run
from driftsurf.service.page.content import LiveContent, plain_parts


@pytest.fixture
def parts(mixed_run: tuple[Path, str]) -> PageParts:
    found = record_parts(read_run(mixed_run[0]))
    assert found is not None
    return found


def test_parts_hold_every_figure_and_its_data(parts: PageParts) -> None:
    plain = json.loads(json.dumps(plain_parts(parts), allow_nan=False))
    named = [part["figure"] for section in plain["sections"] for part in section["parts"] if "figure" in part]
    assert named == [figure["id"] for figure in plain["data"]["figures"]]
    assert all(f'data-figure="{name}"' in json.dumps(plain["sections"]).replace('\\"', '"') for name in named)
    assert plain["data"]["steps"] == 100
    assert plain["data"]["changes"]


class Model:
    """A model whose version the test sets, and that counts how often its parts are asked for."""

    name = "sales"

    def __init__(self, parts: PageParts | None) -> None:
        self.snapshot: Any = type("Snapshot", (), {"version": 1})()
        self.found, self.asked = parts, 0
        self.when_asked: Callable[[], None] = lambda: None

    def parts(self) -> PageParts | None:
        self.asked += 1
        self.when_asked()
        return self.found


async def _at_once(function: Callable[[], bytes]) -> bytes:
    return function()


def test_content_is_made_once_for_a_version_and_not_too_often(parts: PageParts) -> None:
    now = [0.0]
    model = Model(parts)
    content = LiveContent(cast("Any", model), lambda: now[0])

    def get() -> int:
        return json.loads(asyncio.run(content.body(_at_once))[1])["version"]  # type: ignore[no-any-return]

    assert [get(), get(), model.asked] == [1, 1, 1]
    model.snapshot.version = 2
    assert [get(), model.asked] == [1, 1]  # within a second
    now[0] += 1.0
    assert [get(), model.asked] == [2, 2]
    model.when_asked = lambda: now.__setitem__(0, now[0] + 3.0)  # it takes three seconds
    model.snapshot.version, now[0] = 3, now[0] + 1.0
    assert get() == 3
    model.snapshot.version, now[0] = 4, now[0] + 20.0
    assert get() == 3  # three seconds in thirty at most
    now[0] += 10.0
    assert get() == 4


def test_a_model_without_scored_rows_has_no_data() -> None:
    content = LiveContent(cast("Any", Model(None)))
    assert json.loads(asyncio.run(content.body(_at_once))[1]) == {
        "model": "sales",
        "version": 1,
        "head": "",
        "sections": [],
        "data": None,
    }
