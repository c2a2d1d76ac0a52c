"""The log of a served model: records in files that survive kills and power losses, and what a record says."""
