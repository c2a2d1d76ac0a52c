"""The floating-point mode of the caller changes no bit of a time step, and is the same afterwards."""

from __future__ import annotations

import ctypes
import mmap
import platform
from collections.abc import Callable

import numpy as np
import pytest

from driftsurf.core.contracts import Batch
from driftsurf.core.state import to_bytes
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import DriftSurf

USUAL, WITHOUT_SUBNORMALS, TOWARDS_ZERO = 0x1F80, 0x9FC0, 0x7F80


@pytest.fixture
def set_mode() -> Callable[[int], None]:
    """Return a function that sets the register with the mode: the instruction itself, which Python has no call for."""
    if platform.machine() not in ("x86_64", "AMD64") or not hasattr(mmap, "PROT_EXEC"):
        pytest.skip("written for x86-64 and a system with mmap")
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x0f\xae\x17\xc3")  # ldmxcsr [rdi]; ret
    call = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint32))(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def set_to(mode: int) -> None:
        call(ctypes.pointer(ctypes.c_uint32(mode)))
        assert code is not None  # it has to live as long as the function

    return set_to


def learned(set_mode: Callable[[int], None], mode: int) -> tuple[bytes, float]:
    """Return the state after steps on rows of subnormal values, and a subnormal product in that mode."""
    strategy = DriftSurf(LogisticRegression(scale=False, step_size=0.05), seed=1)
    strategy.begin(3, sparse=False, n_classes=2)
    rng, small = np.random.default_rng(0), np.array([1e-160])
    batches = [Batch(1e-310 * rng.normal(size=(50, 3)), rng.integers(0, 2, 50).astype(float), np.ones(50))] * 8
    strategy.step(batches[0])
    for batch in batches:
        set_mode(mode)
        try:
            strategy.step(batch)
            product = (small * small).item()
        finally:
            set_mode(USUAL)
    return to_bytes(strategy.state()), product


@pytest.mark.parametrize("mode", [WITHOUT_SUBNORMALS, TOWARDS_ZERO])
def test_a_step_does_not_depend_on_the_mode_of_the_caller(set_mode: Callable[[int], None], mode: int) -> None:
    usual, product = learned(set_mode, USUAL)
    other, in_mode = learned(set_mode, mode)
    assert other == usual
    assert product > 0.0
    assert (in_mode == 0.0) == (mode == WITHOUT_SUBNORMALS)  # the caller still has its own mode after the step
