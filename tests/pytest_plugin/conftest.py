"""What tests of the plugin share."""

import pytest

from emu.kernels.core import cache_folder

KERNELS = str(cache_folder.base())


@pytest.fixture(autouse=True)
def kernels_of_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests of tests find compiled kernels where these do: pytester gives them a new home."""
    monkeypatch.setenv("EMU_CACHE_DIR", KERNELS)
