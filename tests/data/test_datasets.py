"""Real data sets: how they become streams, where they are found, and golden rows."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from published_files import COVER, ELECTRICITY, FLIGHTS, pack
from scipy.sparse import csr_array

from driftsurf.cli import main
from driftsurf.core import numeric as _random
from driftsurf.data import catalogue
from driftsurf.data.datasets import _readers, known, real
from driftsurf.data.datasets import known as datasets
from driftsurf.data.datasets.known import DATASETS
from driftsurf.data.datasets.real import RealStream
from driftsurf.errors import InputError, OptionError
from driftsurf.reproduction.published import settings_of
from driftsurf.streams import ArrayStream, Drift, rotate


def tiny(monkeypatch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Let a registered dataset be a small one of its kind."""
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], **{"values": None, **changes}))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where data are looked for, empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(known.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_swapped_labels_after_a_shuffle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "rcv1", rows=23, batch_size=2)
    pack(folder / "rcv1_train.binary.bz2", "".join(f"{'+1' if k % 3 else '-1'} {k}:1\n" for k in range(1, 24)))
    stream = RealStream("rcv1")
    X, y = stream.arrays()
    order = real.permutation(23, 0)
    assert X.indices.tolist() == order.tolist()
    expected = np.where((order + 1) % 3, 1, -1)
    expected[7:14] *= -1  # 0.3 n = 6.9, 0.6 n = 13.8
    assert np.array_equal(y, expected)
    assert stream.drifts == (Drift(7, 7), Drift(14, 14))
    assert (stream.name, stream.exact, stream.sparse, stream.n_features) == ("RCV1", True, True, 47_236)
    assert np.array_equal(RealStream("rcv1", seed=5).arrays()[0].indices, real.permutation(23, 5))
    cut = RealStream("rcv1", n_rows=10)
    assert np.array_equal(cut.arrays()[1], expected[:10])
    assert cut.drifts == (Drift(7, 7),)


def test_words_are_weighted_after_the_shuffle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "newsgroups20", rows=3, batch_size=1)
    path = pack(folder / "newsgroups20_18846.svm.gz", "1 1:1 2:3\n2 2:1 3:9\n12 5:2\n")
    X, _ = _readers.newsgroups20(path)
    order = real.permutation(3, 0)
    stream = RealStream("newsgroups20")
    assert (stream.arrays()[0] != real.tf_idf(X[order])).nnz == 0
    assert stream.arrays()[1].tolist() == (np.where(order == 0, -1, 1) * [1, -1, 1]).tolist()


def test_rotated_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "covertype", rows=4, batch_size=1)
    X, y = _readers.covertype(pack(folder / "covtype.libsvm.binary.scale", COVER))
    order = real.permutation(4, 0)
    expected = rotate(ArrayStream(X[order], y[order]), 2, 3, columns=(0, 7), angle=3.14).arrays()
    stream = RealStream("covertype")
    assert np.array_equal(stream.arrays()[0], expected[0])
    assert np.array_equal(stream.arrays()[1], y[order])
    a, b = X[order[2]][[0, 7]]
    turned = [a * math.cos(3.14) - b * math.sin(3.14), a * math.sin(3.14) + b * math.cos(3.14)]
    assert stream.arrays()[0][2, [0, 7]] == pytest.approx(turned)
    assert stream.drift_steps(1) == (2, 3)


def test_real_streams_keep_the_order_of_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "airline", rows=3, batch_size=1, aware_steps=(1, 9), reader=_airline_2008(rows=3))
    pack(folder / "2008_14col.data", FLIGHTS)
    stream = RealStream("airline")
    assert stream.n_features == 21
    assert stream.drifts == (Drift(1, 1),)
    assert stream.arrays()[1].tolist() == [-1, 1, -1]
    assert [len(y) for _, y in stream.batches(2)] == [2, 1]


def _airline_2008(rows: int) -> dict[str, Any]:
    return {"name": "airline", "year": 2008, "file_rows": 4, "rows": rows}


def test_bad_files_are_refused_with_the_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(folder / "elec2.csv", ELECTRICITY)
    for wrong, named in [
        (ELECTRICITY, r"elec2\.csv.* 2 .*45,312"),
        ("1,2\n", r"elec2\.csv.* 2 .*9"),
    ]:
        pack(path, wrong)
        with pytest.raises(InputError, match=f"{named}.*'driftsurf datasets fetch electricity'"):
            RealStream("electricity").arrays()
    digest = _readers.digest(*_readers.electricity(pack(path, ELECTRICITY)))
    tiny(monkeypatch, "electricity", rows=2, values="0" * 64)
    with pytest.raises(InputError, match=f"Electricity.*{digest}.*{'0' * 64}"):
        RealStream("electricity").arrays()
    tiny(monkeypatch, "electricity", rows=2, values=digest)
    assert RealStream("electricity").arrays()[1].tolist() == [1, -1]
    with pytest.raises(InputError, match="nowhere"):
        RealStream("electricity", "nowhere").arrays()


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (lambda: RealStream("elektricity"), "'elektricity'.*'electricity'"),
        (lambda: RealStream("zzz"), "'zzz'.*rcv1"),
        (lambda: RealStream("electricity", seed=1), "electricity.*1"),
        (lambda: RealStream("rcv1", seed=-1), "seed.*-1"),
        (lambda: RealStream("electricity", n_rows=0), "n_rows.*0"),
        (lambda: RealStream("electricity", n_rows=45_313), "45,312.*45313"),
    ],
)
def test_bad_arguments_are_refused(attempt: Callable[[], object], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        attempt()


@given(n=st.integers(0, 200), seed=st.integers(0, 2**70))
def test_the_permutation_sorts_by_the_words_of_the_generator(n: int, seed: int) -> None:
    words = [_random.word(seed, k) for k in range(n)]
    assert real.permutation(n, seed).tolist() == sorted(range(n), key=words.__getitem__)


def test_flights_have_twelve_columns_without_one_hot() -> None:
    slots = np.arange(7) * 2
    one_hot = np.zeros((2, 19))
    one_hot[0, slots] = one_hot[1, slots + 1] = 1.0
    one_hot[:, 14:] = [[0.5, 0.0, 0.25, 0.1, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
    compact = real.category_numbers(csr_array(one_hot), DATASETS["airline"])
    assert compact[0].tolist() == [*slots.tolist(), 0.5, 0.0, 0.25, 0.1, 1.0]
    assert compact[1].tolist() == [*(slots + 1).tolist(), 0.0, 0.0, 0.0, 0.0, 0.0]


def test_tf_idf_row_by_row() -> None:
    counts = np.array([[1, 2, 0, 0], [1, 0, 5, 0], [1, 1, 1, 0], [1, 0, 0, 0]], float)
    weights = real.tf_idf(csr_array(counts)).toarray()
    for row, given_counts in zip(weights, counts, strict=True):
        expected = [
            (1 + math.log(c)) * math.log(4 / np.count_nonzero(counts[:, k])) if c else 0.0
            for k, c in enumerate(given_counts)
        ]
        length = math.hypot(*expected)
        assert row == pytest.approx(np.array(expected) / (length or 1.0))


def test_the_cache_folder_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    for value, base in [(str(tmp_path / "x"), tmp_path / "x"), ("", tmp_path / ".cache"), ("x", tmp_path / ".cache")]:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert known.cache_folder() == base / "driftsurf" / "data"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert known.cache_folder() == tmp_path / "Library" / "Caches" / "driftsurf" / "data"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert known.cache_folder() == tmp_path / "local" / "driftsurf" / "data"


def test_the_named_folder_comes_before_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.find("electricity") is None
    known.cache_folder().mkdir(parents=True)
    cached = pack(known.cache_folder() / "electricity.zip", ELECTRICITY)
    assert datasets.find("electricity") == cached
    named = pack(folder / "electricity-normalized.csv.bz2", ELECTRICITY)
    assert datasets.find("electricity") == named
    monkeypatch.delenv(known.FOLDER_VARIABLE)
    assert datasets.find("electricity") == cached


def test_a_missing_data_set_tells_how_to_get_it(folder: Path) -> None:
    with pytest.raises(InputError, match=r"'driftsurf datasets fetch covertype'.*DRIFTSURF_DATA"):
        catalogue.get("covertype").make()
    pack(folder / "covtype_sample92962.csv", "")
    with pytest.raises(InputError, match="covertype-sample"):
        catalogue.get("covertype").make()
    with pytest.raises(InputError, match=r"http://kt\.ijs\.si.*2008_14col\.data"):
        real.load("airline")


def test_the_facts_about_data_sets_are_consistent() -> None:
    steps = {name: RealStream(name).drift_steps(entry.batch_size) for name, entry in DATASETS.items()}
    assert steps == {
        "rcv1": (30, 60),
        "covertype": (30, 60),
        "airline": (31, 67),
        "electricity": (20,),
        "powersupply": (17, 47, 76),
        "covertype-sample": (30, 60),
        "airline-2007": (33, 69),
        "newsgroups20": (30, 60),
        "spam-assassin": (),
    }
    odd = {"electricity": 34, "airline-2007": 86}
    assert {name: entry.batches for name, entry in DATASETS.items()} == {name: odd.get(name, 100) for name in DATASETS}
    for name, entry in DATASETS.items():
        assert entry.exact == (name in catalogue.CATALOGUE.paper)
        assert entry.exact or entry.stands_for in catalogue.CATALOGUE.paper
        assert bool(entry.urls) == bool(entry.saved_as)
        assert not entry.saved_as or any(entry.saved_as in (f + p for p in known.COMPRESSIONS) for f in entry.files)
        assert settings_of(name).l2 > 0
    assert len({entry.label for entry in DATASETS.values()}) == len(DATASETS)
    assert len({file for entry in DATASETS.values() for file in entry.files}) == sum(
        len(entry.files) for entry in DATASETS.values()
    )


def test_the_list_of_data_sets_tells_how_to_get_each(folder: Path) -> None:
    path = pack(folder / "elec2.csv", ELECTRICITY)
    output = CliRunner().invoke(main, ["datasets"], catch_exceptions=False).output
    flat = " ".join(output.split())
    for name, entry in DATASETS.items():
        assert f"\n{name}\n" in f"\n{output}"
        assert " ".join(entry.licence.split()) in flat
        assert entry.page in flat
        assert entry.stands_for is None or entry.stands_for in flat
    assert f"{path} (0.0 MB)" in flat
    assert "'driftsurf datasets fetch rcv1'" in flat
    assert str(known.cache_folder()) in flat
    assert "\x1b" not in output
    assert all(len(line) <= 100 or "http" in line for line in output.splitlines() if str(folder) not in line)
    streams = CliRunner().invoke(main, ["streams"], catch_exceptions=False).output
    assert "New South Wales electricity market, price up or down" in " ".join(streams.split())
    assert all(name in streams for name in catalogue.CATALOGUE)


def test_a_dataset_can_be_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "airline-2007", "--rows", "4", "--batch-size", "2", "--quiet", "--out", str(folder / "run")]
    missing = CliRunner().invoke(main, arguments)
    assert "'driftsurf datasets fetch airline-2007'" in " ".join(missing.output.split())
    tiny(monkeypatch, "airline-2007", rows=4, columns=None, reader=_airline_2008(rows=4))
    pack(folder / "airline_2007_first50482.csv", FLIGHTS)
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "mean error" in result.output


@dataclass(frozen=True)
class Golden:
    """A prepared stream: its shape, share of +1, digest of labels, and some places of its rows."""

    name: str
    shape: tuple[int, int]
    positives: int
    labels: str
    first: list[float]
    values: str | None = None
    """Digest of rows and labels; None where a logarithm or sine may differ in its last digit."""


GOLDEN = [
    Golden(
        "electricity",
        (45_312, 13),
        19_237,
        "1f1bd2b19af51026",
        [0, 1, 0, 0, 0, 0, 0, 0, 0.056443, 0.439155, 0.003467, 0.422915, 0.414912],
        "c7ea47672ddacdc9",
    ),
    Golden("powersupply", (29_928, 2), 14_964, "388926eab4906393", [117.4 / 296.7, 127 / 280], "492176f4e9a232cb"),
    Golden(
        "covertype-sample",
        (92_962, 54),
        45_328,
        "de2cc0244f842fd3",
        [0.67984, 0.952778, 0.19697, 0.030064, 0.23385, 0.452157, 0.76378, 0.866142, 0.649606, 0.574516, 1],
    ),
    Golden(
        "airline-2007", (50_482, 601), 26_330, "2e8aefedb60266f1", [1, 1, 1, 1, 1, 1, 1, 10 / 2359], "12ed9418055e9366"
    ),
    Golden(
        "newsgroups20",
        (18_846, 26_214),
        9_271,
        "8204ce0996bad77e",
        [5.4738055997479694e-05, 0.0007742143001469851, 0.00834456309139955, 0.015692332935826947],
    ),
    Golden("spam-assassin", (9_324, 39_916), 2_387, "562eb959d9a98fe1", [1, 1, 1, 1], "49c19d0bc49b5a07"),
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_prepared_rows_are_the_golden_ones(case: Golden) -> None:
    if known.FOLDER_VARIABLE not in os.environ or datasets.find(case.name) is None:
        pytest.skip(f"{case.name} is not in the folder that {known.FOLDER_VARIABLE} names")
    stream = RealStream(case.name)
    X, y = stream.arrays()
    assert X.shape == case.shape == (stream.n_rows, stream.n_features)
    assert stream.sparse == (not isinstance(X, np.ndarray))
    assert np.count_nonzero(y == 1) == case.positives
    assert hashlib.sha256(y.astype("<i8").tobytes()).hexdigest()[:16] == case.labels
    stored = X.data if stream.sparse else X[0]
    assert stored[: len(case.first)] == pytest.approx(case.first, rel=1e-12)
    if case.values is not None:
        assert _readers.digest(X, y)[:16] == case.values
    made = catalogue.get(case.name).make()
    entry = DATASETS[case.name]
    assert len(made) == entry.batches * entry.batch_size
    assert np.array_equal(np.concatenate([labels for _, labels in made.blocks()]), y[: len(made)])


def test_the_rotated_rows_of_covertype_sample() -> None:
    if known.FOLDER_VARIABLE not in os.environ or datasets.find("covertype-sample") is None:
        pytest.skip(f"covertype-sample is not in the folder that {known.FOLDER_VARIABLE} names")
    path = datasets.require("covertype-sample")
    X, _ = RealStream("covertype-sample", path).arrays()
    raw, _ = _readers.covertype_sample(path)
    changed = np.flatnonzero((raw != X).any(axis=1))
    assert (changed[0], changed[-1], len(changed)) == (27_889, 55_777, 27_889)
    assert np.flatnonzero((raw != X).any(axis=0)).tolist() == [0, 7]
    assert X[30_000, [0, 7]] == pytest.approx([-0.7284547310561614, -0.9988410912507031])
