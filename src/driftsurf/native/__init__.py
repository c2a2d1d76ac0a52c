"""The native core: compiled loops and models without any Python in them, and the modules that bind them."""
