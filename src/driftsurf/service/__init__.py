"""Models that are served: the log that every row, label and order goes through, and its group commit."""
