"""The examples that Hypothesis draws in `make test` depend on the code of a test alone."""

from __future__ import annotations

from hypothesis.internal.conjecture import providers


def ignore_constants_of_modules() -> None:
    """Hypothesis also draws constants that it finds in all modules that are imported at that moment. Which modules these are
    depends on the tests that ran before in the same process, so the examples of a test would differ from run to run.
    Hypothesis has no public setting for this."""
    none = providers.Constants()
    providers._get_local_constants = lambda: none
