"""The reference of the site, made from what the package declares: nothing of it is by hand."""
