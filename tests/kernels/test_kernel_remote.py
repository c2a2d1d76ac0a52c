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
from driftsurf.kernels import remote as remotes
from driftsurf.kernels.losses import weighted_sum
from driftsurf.kernels.remote import Remote, borrowed
from driftsurf.strategies.compiled.addresses import calls_by_address

compiled_only = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="there are no addresses without compiled code")
FLOATS = types.Array(types.float64, 1, "C", readonly=True)


@compiled_only
def test_compiled_code_calls_kernels_by_address_and_borrows_arrays() -> None:
    remote = Remote(weighted_sum, lambda f: types.UniTuple(types.float64, 2)(FLOATS, FLOATS))
    sum_at = remote.at

    @numba.njit(cache=False)  # type: ignore[untyped-decorator]
    def both(arrays: Any, kernels: Any) -> Any:
        (values, weights), scale = borrowed(arrays, kernels)
        return scale * sum_at(kernels[0], values)(values[1:], weights[1:])[0]

    values, weights = np.array([5.0, 1.0, 2.0]), np.array([1.0, 3.0, 4.0])
    assert both(((values, weights), 2.0), (remote.address(types.float64),)) == 22.0
    assert both(((values, weights), 2.0), (np.uint8(0),)) == 22.0  # without addresses, by ordinary calls
    assert borrowed((values, 1), ()) == (values, 1)


@compiled_only
def test_a_kernel_with_another_signature_is_not_called() -> None:
    remote = Remote(weighted_sum, lambda f: types.float64(FLOATS, FLOATS))
    with pytest.raises(TypeError, match="weighted_sum"):
        remote.address(types.float64)


# ---------------------------------------------------------------------------- the self-test


@compiled_only
def test_this_version_of_numba_passes_the_self_test() -> None:
    assert remotes.self_test() == ""
    assert calls_by_address()


@compiled_only
def test_the_self_test_notices_wrong_results_and_wrong_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def wrong_sum(arrays: Any, address: Any, kernels: Any) -> Any:
        return 0.0, 0.0

    def leaking(arrays: Any, address: Any, kernels: Any) -> Any:
        held.append(arrays)
        remotes.MARGINS.kernel(*arrays)
        return weighted_sum(arrays[2], arrays[2])

    monkeypatch.setattr(remotes, "entry_of", lambda run: run)
    monkeypatch.setattr(remotes, "compile_cached", lambda *_, **__: wrong_sum)
    assert remotes.self_test() != ""
    monkeypatch.setattr(remotes, "compile_cached", lambda *_, **__: leaking)
    assert remotes.self_test() != ""
    held.clear()


@compiled_only
def test_a_numba_without_a_fast_call_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "compile_cached", lambda *_, **__: remotes.probe)  # it has no signatures
    with pytest.warns(CompilationWarning, match="signatures"):
        assert not calls_by_address.__wrapped__()


@compiled_only
@pytest.mark.parametrize("problem", ["wrong", AttributeError("jit_addr")])
def test_a_failed_self_test_is_one_warning_that_names_the_version(
    problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        if isinstance(problem, Exception):
            raise problem
        return str(problem)

    monkeypatch.setattr(remotes, "self_test", fail)
    fresh = calls_by_address.__wrapped__
    with pytest.warns(CompilationWarning, match=numba.__version__):
        assert not fresh()
    with pytest.warns(CompilationWarning, match="jit_addr" if isinstance(problem, Exception) else problem):
        assert not fresh()


FALLBACK = """
import json, sys, warnings
from driftsurf.kernels import remote
remote.self_test = lambda: "made to fail"
from test_kernel_remote import fleet_table
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    table = fleet_table()
    fleet_table()
print(json.dumps([table, [type(one.message).__name__ for one in found]]))
"""


def fleet_table() -> dict[str, Any]:
    """Run a fleet with drifts; return the predictions, transitions and weights of its keys."""
    rng = np.random.default_rng(0)
    fleet, predicted = Fleet(n_features=3, step_size=0.1, batch_size=10, threshold=0.1), []
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
