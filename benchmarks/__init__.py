"""Benchmarks: the compiled loops beside C, whole runs beside what a user would pick instead."""

import os

# One thread for everybody, and before numpy is imported: the loops compared here have no more.
os.environ.setdefault("OMP_NUM_THREADS", "1")
