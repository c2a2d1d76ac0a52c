"""The stream of ``driftsurf serve --demo``."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner
from served_models import MemoryModel

from driftsurf.cli import main
from driftsurf.service.demo import DEMO_MODEL, LATE, ROWS, Demo, batches
from driftsurf.service.settings import SETTINGS_FILE


def test_rows_have_the_columns_of_the_model() -> None:
    table, labels = next(islice(batches(), 3, None))
    assert {name: column.kind for name, column in table.columns.items()} == DEMO_MODEL.columns
    assert set(labels) <= set(DEMO_MODEL.classes)
    assert len(labels) == len(table) == ROWS


def test_labels_come_later_than_their_rows() -> None:
    model = MemoryModel("demo", dict(DEMO_MODEL.columns))  # type: ignore[arg-type]
    enough = threading.Event()
    label = model.label

    def noted(labels: object, request: object = None) -> object:
        enough.set()
        return label(labels)  # type: ignore[arg-type]

    model.label = noted  # type: ignore[method-assign, assignment]
    with Demo(model, seconds=0.0):
        assert enough.wait(60)
    assert len(model.waiting) >= len(model.labels_given) + LATE * ROWS
    assert model.labels_given.keys() <= model.waiting.keys()


def test_the_demo_keeps_its_model_in_the_folder_that_is_named(tmp_path: Path) -> None:
    pytest.importorskip("httptools")
    command = [sys.executable, "-m", "driftsurf", "serve", "--demo", "--port", "0"]
    named = tmp_path / "named"
    for _ in range(2):  # the second time it goes on with the same model
        with subprocess.Popen([*command, "--folder", str(named)], stdout=subprocess.PIPE, text=True) as service:
            assert service.stdout is not None
            assert service.stdout.readline().startswith("serving demo at http://")
            service.terminate()
            assert service.wait(60) == 0
        assert (named / "demo" / SETTINGS_FILE).is_file()


def test_options_of_a_model_are_refused_beside_the_demo() -> None:
    result = CliRunner().invoke(main, ["serve", "--demo", "--batch-size", "7"])
    assert result.exit_code == 2
    assert "batch-size" in result.output + str(result.exception)
