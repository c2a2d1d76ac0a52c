"""The arithmetic of the core has the same bits without optimisation, and on another processor.

`make test-bits` compares more builds, and what models learn.
After a change of results, ``python -m tools.same_bits --write arithmetic`` stores the digests.
"""

from __future__ import annotations

import json
import shlex

import hatch_build
import pytest
from tools.same_bits import BUILDS, EXPECTED, Build, arithmetic

COMPILER = shlex.join(hatch_build.find_compiler() or ("no compiler",))


HERE = [
    Build(COMPILER, ("-O0",)),
    Build(COMPILER, ("-O3",)),
    Build(COMPILER, ("-O3",), environment=(("DRIFTSURF_NO_AVX2", "1"),)),
    Build(COMPILER, ("-O3",), environment=(("DRIFTSURF_NO_AVX512", "1"),)),
]


@pytest.mark.parametrize(
    "build", [*HERE, BUILDS["aarch64-gcc-O3"]], ids=["-O0", "-O3", "-O3 without AVX2", "-O3 without AVX-512", "aarch64"]
)
def test_the_digests_are_those_that_are_stored(build: Build) -> None:
    if build.missing:
        pytest.skip(f"this machine has no {build.missing}")
    expected = {name: digest for name, digest in json.loads(EXPECTED.read_text()).items() if "arithmetic/" in name}
    assert arithmetic(build) == expected
