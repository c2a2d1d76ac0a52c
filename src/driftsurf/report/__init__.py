"""Pages and terminal output for a run, a comparison and a keyed run, made from traces and journals alone.

Nothing here trains, predicts or decides. The page of the paper's evaluation is in :mod:`driftsurf.reproduction`.
"""
