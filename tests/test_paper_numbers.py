"""The paper's numbers: mean error over 100 steps, median of five seeds, with the paper's settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import driftsurf
from driftsurf import prequential
from driftsurf.experiments.paper import SETTINGS
from driftsurf.streams import AuthorsFile, Stream
from driftsurf.streams.catalogue import CATALOGUE

TARGETS = {
    "sea0": 0.089,
    "sea10": 0.161,
    "sea20": 0.246,
    "sea30": 0.337,
    "sea-gradual": 0.161,
    "hyper-slow": 0.118,
    "hyper-fast": 0.170,
}
FROM_FILES = {"mixed": 0.203, "sine1": 0.191, "circles": 0.367}


def median_error(name: str, stream: Stream) -> float:
    setting = SETTINGS[name]
    models = {str(seed): driftsurf.paper(setting.step_size, setting.l2, random_state=seed) for seed in range(5)}
    trace = prequential(stream, models, batch_size=stream.n_rows // 100)
    return float(np.median([trace.of(model)["error"].mean() for model in trace.models]))


@pytest.mark.parametrize("name", TARGETS)
def test_generated_streams(name: str) -> None:
    assert median_error(name, CATALOGUE[name].make()) == pytest.approx(TARGETS[name], abs=0.006)


@pytest.mark.parametrize("name", FROM_FILES)
def test_the_authors_files(name: str, data_folder: Path) -> None:
    stream = AuthorsFile(data_folder / f"driftsurf_{name}.csv.gz")
    assert median_error(name, stream) == pytest.approx(FROM_FILES[name], abs=0.006)
