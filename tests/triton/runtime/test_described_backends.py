"""Back ends as programs that ask Triton about its own see them."""

import pytest

from emu.triton.backends import Backend, backends
from emu.triton.backends.compiler import BaseBackend, GPUTarget, HostBackend, make_backend
from emu.triton.backends.driver import DriverBase, GPUDriver
from emu.triton.runtime.driver import driver


def test_one_back_end_is_active():
    found = backends["emu"]
    assert set(map(id, backends.values())) == {id(found)}  # Inductor asks for it as "cpu"
    assert "cpu" in backends
    assert isinstance(found, Backend)
    assert found.driver.is_active()
    assert issubclass(found.compiler, BaseBackend)
    assert issubclass(GPUDriver, DriverBase)


def test_options_have_defaults_and_a_digest():
    backend = make_backend(GPUTarget("cuda", 80, 32))
    assert backend.supports_target(GPUTarget("hip", "gfx942", 64))
    plain, other = backend.parse_options({}), backend.parse_options({"num_warps": 8})
    assert (plain.num_warps, other.num_warps) == (4, 8)
    assert plain.hash() == backend.parse_options({"num_warps": 4}).hash() != other.hash()
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_wraps'"):
        backend.parse_options({"num_wraps": 8})


def test_the_digest_of_a_back_end_depends_on_the_device():
    target = driver.active.get_current_target()
    assert make_backend(target).hash() == HostBackend(target).hash()
    assert make_backend(target).hash() != make_backend(GPUTarget("cuda", 999, 32)).hash()
    with pytest.raises(TypeError, match="target must be a GPUTarget, but got str"):
        make_backend("cuda")


def test_alignment_has_a_name():
    assert BaseBackend.get_int_specialization(32, align=True) == "D"
    assert BaseBackend.get_int_specialization(33, align=True) == ""
    assert BaseBackend.get_int_specialization(32, align=False) == ""
