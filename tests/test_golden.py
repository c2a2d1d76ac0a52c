"""What released versions have saved is loaded, predicts as it did, and learns on with the same decisions."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.golden import write as golden

ABOUT = {path.parent.name: json.loads(path.read_text()) for path in sorted(golden.HERE.glob(f"*/{golden.ABOUT}"))}
CASES = golden.cases()
WRITTEN = [
    (version, group, name)
    for version, about in ABOUT.items()
    for group, names in about["cases"].items()
    for name in names
]

pytestmark = pytest.mark.filterwarnings("ignore")


HAS_PERCEPTRON = re.compile("perceptron|light|portfolio|default")
SINGLE = 1e-5
"""Difference that numbers may have in cases with perceptrons, whose parameters are float32: version 0.2 added up their
outputs in another order."""


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return the folder with the cases of a group, which is unpacked once."""
    known: dict[tuple[str, str], Path] = {}

    def folder(version: str, group: str) -> Path:
        if (version, group) not in known:
            known[version, group] = tmp_path_factory.mktemp(group)
            archive = golden.HERE / version / f"{group}.tar.xz"
            shutil.unpack_archive(archive, known[version, group], filter="data")
        return known[version, group]

    return folder


@pytest.mark.parametrize(("version", "group", "name"), WRITTEN)
def test_what_a_version_has_saved_goes_on_as_it_did(
    version: str, group: str, name: str, unpacked: Callable[[str, str], Path], tmp_path: Path
) -> None:
    case = CASES[group][name]
    if case.missing:
        pytest.skip(f"not installed: {', '.join(case.missing)}")
    known = ABOUT[version]["libraries"]
    other = [library for library in case.libraries if golden.library_version(library) != known[library]]
    if other and case.same_library:
        pytest.skip(f"another version of {', '.join(other)} may not read these pickles")
    place = shutil.copytree(unpacked(version, group) / name, tmp_path / "case")
    expected = json.loads((place / golden.EXPECTED).read_text())
    (place / golden.EXPECTED).unlink()
    found = golden.plain(case.go_on(place))
    if other:
        pytest.skip(f"it was loaded and learned on; another version of {', '.join(other)} decides its numbers")
    close = SINGLE if HAS_PERCEPTRON.search(name) else golden.CLOSE
    assert golden.differences(expected, found, close=close) == []


def test_every_group_of_cases_has_an_archive() -> None:
    assert ABOUT
    for version, about in ABOUT.items():
        files = {path.name for path in (golden.HERE / version).iterdir()}
        assert files == {golden.ABOUT, *(f"{group}.tar.xz" for group in about["cases"])}
        assert about["driftsurf"] == version


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda result: result["labels"][1].__setitem__(0, "other"), "/labels/1/0"),
        (lambda result: result["transitions"].pop(), "/transitions"),
        (lambda result: result["scores"][0].__setitem__(2, result["scores"][0][2] + 1e-6), "/scores/0/2"),
        (lambda result: result.pop("loaded"), "/loaded"),
    ],
    ids=["label", "transition", "number", "missing"],
)
def test_a_difference_is_named(
    change: Callable[[Any], object], named: str, unpacked: Callable[[str, str], Path]
) -> None:
    version = next(iter(ABOUT))
    expected = json.loads((unpacked(version, "strategies") / "driftsurf-binary-dense" / golden.EXPECTED).read_text())
    found = copy.deepcopy(expected) | {"new": 1}
    found["scores"][0][0] += 1e-11
    assert golden.differences(expected, found) == []
    change(found)
    assert [one.split()[0] for one in golden.differences(expected, found)] == [named]
