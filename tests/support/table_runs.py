"""Runs of ``driftsurf run`` over tables that are killed and resumed, and the files they must leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from commands import invoke
from table_files import Row, csv_text, mixed_rows

from driftsurf.core.state import to_bytes
from driftsurf.report import terminal
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import MODEL

ROWS = mixed_rows(1500)
LEARN = ["--label", "sold", "--drop", "id", "--batch-size", "100", "--model", "driftsurf", "--quiet"]
SAVED = ["--checkpoint", "live", "--every", "3", "--predictions", "predictions/p.csv"]
LATE = ["--label", "sold", "--key", "id", "--batch-size", "100", "--model", "driftsurf", "--quiet"]


class Killed(BaseException):
    """Simulates kill -9: no code of the run follows it."""


def good(*arguments: Any, input: str | None = None) -> Result:
    """Run the command, which must succeed."""
    result = invoke("run", *arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def killed(step: int, *arguments: Any, input: str | None = None) -> None:
    """Run the command and kill it at this step."""

    def die(self: terminal.ProgressBar, at: int, *_: object) -> None:
        if at == step:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal.ProgressBar, "__call__", die)
        with pytest.raises(Killed):
            invoke("run", *arguments, input=input)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files that must not differ between runs: results without timings, predictions, and the last model."""
    kept = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in kept
        if path.name not in ("timings.json", "lock", "fence") and (path.suffix != ".state" or path.name == MODEL)
    }
    last = CheckpointFolder(folder / "live").load()
    assert last is not None
    return found | {"model": to_bytes(last.state)}


def broken(rows: list[Row]) -> str:
    """Return the rows as CSV with bad rows (too many cells, a wrong date, too few cells) and one without a label."""
    lines = csv_text(rows).splitlines()
    lines[50] += ",too,many"
    lines[250] = lines[250].replace("2007-", "never-")
    lines[260] = lines[260].rsplit(",", 1)[0] + ","  # no label
    lines.append("the end, half")
    return "\n".join(lines) + "\n"


def split(folder: Path, rows: list[Row], *, shuffled: int = 0) -> tuple[Path, Path]:
    """Write the rows without labels, and the labels by key, out of order by up to ``shuffled`` rows."""
    columns = [name for name in rows[0] if name != "sold"]
    (folder / "rows.csv").write_text(csv_text(rows, columns))
    order = sorted(range(len(rows)), key=lambda i: i + (i * 7919) % (shuffled + 1))
    (folder / "labels.csv").write_text(csv_text([rows[i] for i in order], ["id", "when", "sold"]))
    return folder / "rows.csv", folder / "labels.csv"
