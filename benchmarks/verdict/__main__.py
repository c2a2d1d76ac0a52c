"""``python -m benchmarks.verdict``, which is ``python -m benchmarks verdict``."""

from benchmarks.verdict.command import main

if __name__ == "__main__":
    main()
