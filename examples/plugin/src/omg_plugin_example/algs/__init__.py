"""Algorithm files. This package is imported to find them, so nothing heavy belongs here."""
