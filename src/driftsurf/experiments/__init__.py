"""The paper as data, and the models it describes."""
