"""Tests with real engines: ``make test-engines``, in an environment of its own."""
