"""Parts of the documentation site that Sphinx and its extensions do not have; ``docs/conf.py`` connects them."""
