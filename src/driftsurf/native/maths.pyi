"""Elementary functions of the native core, one array at a time."""

from driftsurf.core.contracts import FloatArray

def evaluate(name: str, values: FloatArray, out: FloatArray) -> None: ...
