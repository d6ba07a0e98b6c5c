"""Parameters of tests of which `make test` runs a few, and the thorough run all."""

import pytest


def thorough(values, *quick):
    """Return ``values`` as parameters, those that are not in ``quick`` marked slow."""
    assert all(value in values for value in quick), quick
    return [
        value if value in quick else pytest.param(*_as_tuple(value), marks=pytest.mark.slow)
        for value in values
    ]


def _as_tuple(value):
    return value if type(value) is tuple else (value,)
