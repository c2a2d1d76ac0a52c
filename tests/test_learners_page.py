"""The examples of docs/learners.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "learners.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_an_example_runs(code: str) -> None:
    for package in ("lightgbm", "river", "torch"):
        if re.search(rf"^(from|import) {package}", code, re.M):
            pytest.importorskip(package, reason=f"{package} is not installed")
    exec(code, {})
