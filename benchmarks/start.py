"""Start-up time of imports and commands in new processes, compared with ``import numpy`` and ``import numba``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import Contender, Contest


def contests(quick: bool, note: Callable[[str], None]) -> Iterator[Contest]:
    """Yield the contests: light imports against numpy, a run with cached code against numba, concurrent starts."""
    yield Contest(
        "light starts",
        "start",
        "import numpy",
        [
            _python("import numpy", "-c", "import numpy"),
            _python("import driftsurf", "-c", "import driftsurf"),
            _python("driftsurf --help", "-m", "driftsurf", "--help"),
        ],
    )
    with tempfile.TemporaryDirectory() as folder:
        run = ("-m", "driftsurf", "run", "sea10", "--quiet", "--overwrite", "--out", str(Path(folder) / "run"))
        yield Contest(
            "a whole command, from the disk cache",
            "start",
            "import numba",
            [
                _python("import numba", "-c", "import numba"),
                _python("import sklearn.base", "-c", "import sklearn.base"),
                _python("driftsurf run sea10, report included", *run),
            ],
        )


def _python(name: str, *arguments: str) -> Contender:
    def run(_: None) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    return Contender(name, 1, lambda: None, run)
