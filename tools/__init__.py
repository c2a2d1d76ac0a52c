"""Tools for developing driftsurf; no part of the package."""
