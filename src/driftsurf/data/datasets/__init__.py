"""The real data sets of the paper: facts about them, where their files are, and how they become streams."""
