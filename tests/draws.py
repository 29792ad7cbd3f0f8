"""The examples that Hypothesis draws in `make test` depend on the code of a test alone."""

from __future__ import annotations

from hypothesis.internal.conjecture import providers


def ignore_constants_of_modules() -> None:
    """Hypothesis also draws constants that it finds in the modules that are imported at that moment. Which ones these are depends on
    the tests that ran before in the same process, so the examples of a test would differ from run to run. There is no public
    setting for this."""
    none = providers.Constants()
    providers._get_local_constants = lambda: none
