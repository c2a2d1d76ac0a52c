"""Prefetch instructions: load memory into the cache before it is needed.

Optimisers visit rows in random order, so the processor cannot foresee the next one, and a row from main memory takes as
long as several steps. numba has no prefetch; ``prefetch`` compiles to LLVM's instruction. It changes no result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from driftsurf.kernels.compile import inline

LINE = 64
"""Size of a cache line in bytes."""
MOST_LINES = 32
"""Most lines to prefetch of one row; the processor notices by itself that a long row is read in order."""


def prefetch(array: Any, place: Any) -> None:
    """Prefetch the element at ``place`` of the flattened array; without compilation, do nothing.

    A place outside the array is harmless: the instruction never faults.
    """


def _instruction(
    _: Any, array: Any, place: Any
) -> Any:  # pragma: no cover - runs only when nothing is in the compile cache
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", (pointer.type,), form)
        to_read, into_all_caches, data_not_code = word(0), word(3), word(1)
        builder.call(instruction, [pointer, to_read, into_all_caches, data_not_code])
        return context.get_dummy_value()

    return types.void(array, place), generate


_prefetch = intrinsic(_instruction)


def _compiled(array: Any, place: Any) -> Any:  # pragma: no cover - as above
    def call(array: Any, place: Any) -> Any:
        _prefetch(array, place)

    return call


overload(prefetch)(_compiled)


@inline
def prefetch_range(array: Any, start: Any, stop: Any) -> None:
    """Prefetch the elements from ``start`` to ``stop`` (exclusive) of the flattened array; there is at least one."""
    line = LINE // array.itemsize
    for place in range(start, min(stop, start + MOST_LINES * line), line):
        prefetch(array, place)
    prefetch(array, stop - 1)  # the last line, which the steps of the loop may miss
