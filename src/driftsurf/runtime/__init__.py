"""A live run: rows in, predictions and decisions out, files in one place."""
