"""What models learn and save has the same bits without optimisation; `make test-bits` compares more builds."""

from __future__ import annotations

import shlex

import hatch_build
import pytest
from tools.same_bits import Build, digests_of

EVERY = 10
"""One case of as many is compared."""


@pytest.mark.skipif(hatch_build.find_compiler() is None, reason="needs a C compiler")
def test_models_have_the_same_bits_without_optimisation() -> None:
    installed = digests_of(Build(), EVERY)
    compiler = shlex.join(hatch_build.find_compiler() or ())
    plain = digests_of(Build(compiler, ("-O0",)), EVERY)
    assert len(installed) > 10
    assert {name: digest for name, digest in plain.items() if "arithmetic/" not in name} == installed
