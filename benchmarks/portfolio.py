"""What a portfolio achieves on real streams, and what each of its experts contributes.

``python -m benchmarks.portfolio [stream ...] [--ablation]`` prints, for each stream, the mean error of batch
test-then-train (the first batch does not count), the mean log loss, and the CPU seconds of the portfolio and of each expert
alone. ``--ablation`` adds the error of the portfolio without each of its parts. The streams are read from the folder in
DRIFTSURF_DATA; regression streams show the mean absolute error divided by that of the mean of all values before.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from driftsurf.comparison.inputs import open_input
from driftsurf.core.contracts import Batch
from driftsurf.strategies import Portfolio

SMALL = "luxembourg", "phishing", "noaa-weather", "electricity", "powersupply", "insects"


def main() -> None:
    """Measure the streams that are named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio", description=__doc__)
    parser.add_argument("streams", nargs="*", default=SMALL)
    parser.add_argument("--ablation", action="store_true")
    parser.parse_args()
