"""Files in object storage, with the storage in memory that fsspec has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftsurf import run
from driftsurf.data import open_source, polling
from driftsurf.errors import BadRowError, OptionError, SourceError

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty storage, and an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = fsspec.filesystem("memory")
    yield found
    for one in found.ls("/", detail=False):
        found.rm(one, recursive=True)


def numbers(address: str, position: Any = None, **options: Any) -> list[list[float]]:
    return [table["n"].values.tolist() for table, _ in open_source(address, **options).tables(position)]


def test_files_folders_and_patterns(storage: Any) -> None:
    storage.pipe("/bucket/a.csv", b"n\n1\n2\n")
    storage.pipe("/bucket/b.csv", b"n\n3\n")
    storage.pipe("/bucket/_hidden.csv", b"n\n9\n")
    storage.pipe("/bucket/notes.md", b"#")
    assert numbers("memory://bucket/b.csv") == [[3]]
    assert numbers("memory://bucket") == [[1, 2, 3]]
    assert numbers("memory://bucket/[ab].csv", batch_size=2) == [[1, 2], [3]]
    source = open_source("memory://bucket", batch_size=2)
    position: Any = next(place for _, place in source.tables())
    assert position["file"] == "memory://bucket/a.csv"  # not the copy: a run may resume on another machine
    assert numbers("memory://bucket", position, batch_size=2) == [[3]]


def test_a_new_version_is_copied_again(storage: Any) -> None:
    storage.pipe("/bucket/a.csv", b"n\n1\n")
    assert numbers("memory://bucket/a.csv") == [[1]]
    storage.pipe("/bucket/a.csv", b"n\n5\n6\n")
    assert numbers("memory://bucket/a.csv") == [[5, 6]]


def test_errors_name_the_address(storage: Any) -> None:
    with pytest.raises(SourceError, match=r"memory://bucket/no\.csv does not exist"):
        numbers("memory://bucket/no.csv")
    storage.pipe("/bucket/a.csv", b"n\n" + b"1\n" * 100 + b"x\n")
    with pytest.raises(BadRowError, match=r"memory://bucket/a\.csv, line 102: column 'n' must be a number"):
        numbers("memory://bucket/a.csv")
    with pytest.raises(OptionError, match="do not grow"):
        numbers("memory://bucket/a.csv", follow=polling(0.1))


def test_a_run_learns_from_objects(storage: Any, tmp_path: Path) -> None:
    rows = "".join(f"{n % 7},{n % 2}\n" for n in range(400))
    storage.pipe("/bucket/rows.csv", b"n,y\n" + rows.encode())
    result = run(
        "memory://bucket/rows.csv", label="y", model="recommended-linear", out=tmp_path / "out", batch_size=100
    )
    assert len(result.trace.of(result.model)["error"]) == 4
