"""Calls by address and borrowed arrays: what they do, how they are tested at first use, and what replaces them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from driftsurf import Fleet
from driftsurf.errors import CompilationWarning
from driftsurf.kernels.losses import weighted_sum
from driftsurf.keyed.compiled import addresses
from driftsurf.keyed.compiled.native import Remote, borrowed

compiled_only = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there are no addresses without compiled code")
FLOATS = types.Array(types.float64, 1, "C", readonly=True)


@compiled_only
def test_compiled_code_calls_kernels_by_address_and_borrows_arrays() -> None:
    remote = Remote(weighted_sum, types.UniTuple(types.float64, 2)(FLOATS, FLOATS), np.float64)
    sum_at = remote.at

    @numba.njit(cache=False)  # type: ignore[untyped-decorator]
    def both(arrays: Any, kernels: Any) -> Any:
        (values, weights), scale = borrowed(arrays, kernels)
        return scale * sum_at(kernels[0])(values[1:], weights[1:])[0]

    values, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 3.0, 4.0])
    assert both(((values, weights), 2.0), (remote.address(),)) == 22.0
    assert both(((values, weights), 2.0), (np.uint8(0),)) == 22.0  # without addresses, by ordinary calls
    assert borrowed((values, 1), ()) == (values, 1)
    assert sum_at(weighted_sum) is weighted_sum


@compiled_only
def test_a_kernel_with_another_signature_is_not_called() -> None:
    remote = Remote(weighted_sum, types.float64(FLOATS, FLOATS), np.float64)
    with pytest.raises(TypeError, match="weighted_sum"):
        remote.address()


# ---------------------------------------------------------------------------- the self-test


@compiled_only
def test_this_version_of_numba_passes_the_self_test() -> None:
    assert addresses.self_test() == ""
    assert addresses.calls_by_address()


@compiled_only
def test_the_self_test_notices_wrong_results_and_wrong_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def wrong_sum(arrays: Any, kernels: Any) -> Any:
        return 0.0, 0.0

    def leaking(arrays: Any, kernels: Any) -> Any:
        held.append(arrays)
        return addresses.probe(arrays, (addresses.REMOTES.margins.kernel, weighted_sum))

    monkeypatch.setattr(addresses, "compile_cached", lambda *_, **__: wrong_sum)
    assert addresses.self_test() != ""
    monkeypatch.setattr(addresses, "compile_cached", lambda *_, **__: leaking)
    assert addresses.self_test() != ""
    held.clear()


@pytest.mark.parametrize("problem", ["wrong", AttributeError("jit_addr")])
def test_a_failed_self_test_is_one_warning_that_names_the_version(
    problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        if isinstance(problem, Exception):
            raise problem
        return str(problem)

    monkeypatch.setattr(addresses, "self_test", fail)
    fresh = addresses.calls_by_address.__wrapped__
    with pytest.warns(CompilationWarning, match=numba.__version__):
        assert not fresh()
    with pytest.warns(CompilationWarning, match="jit_addr" if isinstance(problem, Exception) else problem):
        assert not fresh()


FALLBACK = """
import json, sys, warnings
from driftsurf.keyed.compiled import addresses
addresses.self_test = lambda: "made to fail"
from test_native import fleet_table
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    table = fleet_table()
    fleet_table()
print(json.dumps([table, [type(one.message).__name__ for one in found]]))
"""


def fleet_table() -> dict[str, Any]:
    """Run a fleet with drifts; return the predictions, transitions and weights of its keys."""
    rng = np.random.default_rng(0)
    fleet, predicted = Fleet(3, step_size=0.1, batch_size=10, threshold=0.1), []
    for call in range(20):
        X, keys = rng.normal(size=(200, 3)), rng.integers(5, size=200)
        predicted.append(fleet.observe(keys, X, ((X[:, 0] > 0) == (call < 10)).astype(int)).tolist())
    return {
        "predicted": predicted,
        "transitions": fleet.table()["transitions"].tolist(),
        "weights": [fleet.weights(key).tolist() for key in range(5)],
    }


@compiled_only
def test_without_addresses_a_fleet_warns_once_and_learns_the_same_up_to_rounding() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FALLBACK],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    table, warned = json.loads(done.stdout)
    expected = fleet_table()
    assert warned == ["CompilationWarning"]
    assert table["transitions"] == expected["transitions"]
    assert table["predicted"] == expected["predicted"]
    np.testing.assert_allclose(table["weights"], expected["weights"], rtol=1e-9, atol=1e-12)
