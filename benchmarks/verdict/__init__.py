"""How often drifts are declared without a change, and how many changes are found, how soon and with which cause."""
