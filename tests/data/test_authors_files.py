"""The files of the paper's authors as streams."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from driftsurf.data import catalogue
from driftsurf.data.datasets import authors, known
from driftsurf.data.datasets.authors import AuthorsFile
from driftsurf.errors import InputError
from driftsurf.streams import SINE1


def write(path: Path, text: str) -> Path:
    with gzip.open(path, "wt") as file:
        file.write(text)
    return path


def test_a_file_like_the_authors(tmp_path: Path) -> None:
    rows = "\n".join("True,False,0.5,0.25,p" if i % 2 else "False,True,0.125,1,n" for i in range(100))
    stream = AuthorsFile(write(tmp_path / "driftsurf_mixed.csv.gz", f"v,w,x,y,class\n{rows}\n"))
    X, y = stream.arrays()
    assert (stream.name, stream.n_rows, stream.n_features) == ("mixed", 100, 4)
    assert X[:2].tolist() == [[0.0, 1.0, 0.125, 1.0], [1.0, 0.0, 0.5, 0.25]]
    assert y[:2].tolist() == [-1, 1]
    assert stream.drift_steps(1) == (20, 40, 60, 80)
    assert AuthorsFile(stream.path, name="circles").drift_steps(1) == (25, 30, 50, 55, 75, 80)
    assert AuthorsFile(stream.path, name="mine").drifts == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ""),
        ("x,class\n", ""),
        ("class\np\n", ""),
        ("x,class\n0.5,p\n0.5\n", "line 3: .*1.*2"),
        ("x,class\n0.5,p\nabc,n\n", "line 3: .*'x'.*'abc'"),
        ("x,class\nnan,p\n", "row 1: x"),
        ("x,class\n0.5,q\n", "row 1: class.*p, n.*'q'"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, text: str, named: str) -> None:
    path = write(tmp_path / "driftsurf_sine1.csv.gz", text)
    with pytest.raises(InputError, match=rf"{path}.*{named}.*github\.com/Ashraf-T/DriftSurf"):
        AuthorsFile(path).arrays()


def test_a_missing_or_truncated_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="DRIFTSURF_DATA"):
        _ = AuthorsFile(tmp_path / "driftsurf_sine1.csv.gz").n_rows
    cut = write(tmp_path / "cut.csv.gz", "x,class\n" + "0.5,p\n" * 1_000)
    cut.write_bytes(cut.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"cut\.csv\.gz"):
        AuthorsFile(cut).arrays()


def test_the_authors_file_is_used_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(known.FOLDER_VARIABLE, raising=False)
    assert authors.find("sine1") is None
    assert isinstance(authors.published("sine1"), SINE1)
    assert authors.origin(authors.published("sine1")) == "generated"
    monkeypatch.setenv(known.FOLDER_VARIABLE, str(tmp_path))
    assert authors.find("sine1") is None
    path = write(tmp_path / "driftsurf_sine1.csv.gz", "x,class\n0.5,p\n")
    assert authors.find("SINE1") == path
    found = catalogue.get("sine1").make()
    assert (found.name, found.n_rows, authors.origin(found)) == ("SINE1", 1, f"the authors' file {path}")
    assert isinstance(catalogue.get("sine1").make(n_rows=50), SINE1)
