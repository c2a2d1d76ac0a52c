"""Benchmarks: the compiled loops compared with C, and whole runs compared with the usual alternatives."""

import os

# One thread for all contenders, set before numpy is imported: the loops that are compared use one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
