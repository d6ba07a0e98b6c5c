"""``triton.experimental``: what is not there says so."""

import pytest


def test_gluon_is_refused_by_name():
    with pytest.raises(
        ModuleNotFoundError, match=r"triton\.experimental\.gluon is not in emu: Gluon"
    ):
        from emu.triton.experimental import gluon  # noqa: F401
    with pytest.raises(
        ModuleNotFoundError, match=r"triton\.experimental\.gluon is not in emu: Gluon"
    ):
        import emu.triton.experimental.gluon.language  # noqa: F401
