"""Real files, as they were published, through source and encoder into the default classifier."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from driftsurf import DriftSurfClassifier
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.tables import Table

FOLDER = os.environ.get("DRIFTSURF_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="DRIFTSURF_DATA does not name a folder with the real data")

Labelled = tuple[Table, npt.NDArray[Any]]


@dataclass(frozen=True)
class Stream:
    """A file, its label, and how large the errors may be."""

    file: str
    label: str
    error: float
    """What the classifier reached when this was written, and a little more."""
    majority: float
    persistence: float
    batch_size: int = 1000
    drop: tuple[str, ...] = ()
    positive: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda values: values

    def batches(self) -> Iterator[Labelled]:
        assert FOLDER is not None
        reading = ReadingOptions(drop=self.drop)
        for table, _ in FileSource(Path(FOLDER) / self.file, reading, batch_size=self.batch_size).tables():
            yield table.without(self.label), self.positive(table.labels(self.label))


STREAMS = [
    Stream("elec2.csv.gz", "class", 0.23, 0.4230, 0.1468, drop=("date",)),
    Stream("noaa_weather.csv.gz", "target", 0.25, 0.3145, 0.3194, 500),
    Stream("phishing.csv.gz", "target", 0.065, 0.4442, 0.4861, 110),
    Stream(
        "airline_2007_first50482.csv.gz",
        "ArrDelay",
        0.345,
        0.4809,
        0.4717,
        500,
        positive=lambda delay: delay > 0,
    ),
]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.file.partition(".")[0])
def test_the_error_is_lower_than_that_of_simple_rules(stream: Stream) -> None:
    encoder, model = TableEncoder(), DriftSurfClassifier(random_state=0)
    wrong = {"model": 0, "majority": 0, "persistence": 0}
    seen: list[npt.NDArray[Any]] = []
    rows = 0
    for table, y in stream.batches():
        predicted = model.test_then_train(encoder.partial_fit(table).transform(table), y)
        if seen:  # the first batch is for all of them to learn from
            past = np.concatenate(seen)
            values, counts = np.unique(past, return_counts=True)
            wrong["model"] += int((predicted != y).sum())
            wrong["majority"] += int((values[np.argmax(counts)] != y).sum())
            wrong["persistence"] += int((np.concatenate([past[-1:], y[:-1]]) != y).sum())
            rows += len(y)
        seen.append(y)
    errors = {name: count / rows for name, count in wrong.items()}
    assert errors["majority"] == pytest.approx(stream.majority, abs=5e-4)
    assert errors["persistence"] == pytest.approx(stream.persistence, abs=5e-4)
    assert errors["model"] < stream.error


def test_sparse_text_is_read_as_published() -> None:
    assert FOLDER is not None
    tables = [
        table
        for table, _ in FileSource(
            Path(FOLDER) / "rcv1_vw_sample1500.svm.gz", ReadingOptions(on_schema_change="ignore-added")
        ).tables()
    ]
    whole = Table.concatenate(tables)
    assert len(whole) == 1500
    assert set(whole.labels("label").tolist()) == {-1, 1}
    assert whole.features is not None
    assert np.isfinite(whole.features.data).all()


def test_an_interrupted_run_resumes_exactly() -> None:
    """Encoder, model and position are saved after some batches, and everything is restored from them."""
    assert FOLDER is not None
    source = FileSource(Path(FOLDER) / "airline_2007_first50482.csv.gz", batch_size=2000)

    def run(cuts: set[int]) -> bytes:
        encoder, model = TableEncoder(), DriftSurfClassifier(random_state=0)
        tables = source.tables()
        step = 0
        while True:
            following = next(tables, None)
            if following is None:
                return model.to_bytes()
            table, position = following
            features = table.without("ArrDelay")
            model.partial_fit(encoder.partial_fit(features).transform(features), table.labels("ArrDelay") > 0)
            if step in cuts:
                encoder = TableEncoder.from_state(encoder.state())
                model = DriftSurfClassifier.from_bytes(model.to_bytes())
                tables = source.tables(position)
            step += 1

    assert run({0, 3, 11}) == run(set())
