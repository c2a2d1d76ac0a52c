"""From names and options to the parts of a run."""
