"""The package's version: the only place where it stands; pyproject.toml reads it here."""

VERSION = "0.1.0"
