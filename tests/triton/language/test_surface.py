"""The names of the language: each is listed once."""

import types

import emu.triton.language as tl
from emu.triton.language import core, random, standard

ONLY_IN_CORE = {
    *("CONSTEXPR_0", "builtin", "builtin_max", "builtin_min", "is_builtin", "slice_type"),
    *("extern", "extern_elementwise", "validate_block_shape"),
    *("tensor_descriptor_base", "tensor_descriptor_base_type"),
}
SUBMODULES = {"core", "extra", "math", "random", "standard", "target_info"}


def test_tl_has_what_core_standard_and_random_list():
    listed = {*core.__all__, *standard.__all__, *random.__all__} - ONLY_IN_CORE - {"_log2"}
    others = {"Context", "TRITON_MAX_TENSOR_NUMEL", "building", "current"}
    assert set(tl.__all__) == listed | others | SUBMODULES
    assert len(tl.__all__) == len(set(tl.__all__)) == 164
    for module in (core, standard, random):
        for name in set(module.__all__) & set(tl.__all__):
            assert getattr(tl, name) is getattr(module, name), name


def test_no_other_name_is_in_the_way():
    """A name that is not listed is one of the package's modules."""
    for name in set(dir(tl)) - set(tl.__all__):
        assert name.startswith("_") or isinstance(getattr(tl, name), types.ModuleType), name


def test_core_lists_the_language_alone():
    package = tl.__name__
    for name in core.__all__:
        value = getattr(core, name)
        assert getattr(value, "__module__", type(value).__module__).startswith(package), name


def test_names_of_core_alone_are_not_in_tl():
    assert not [name for name in ONLY_IN_CORE if hasattr(tl, name)]
    assert set(core.__all__) >= ONLY_IN_CORE


def test_modules_have_tritons_names() -> None:
    assert tl.core.constexpr is tl.constexpr
    assert tl.core.dtype is tl.dtype
    assert tl.core.tensor is tl.tensor
    assert tl.standard.sum is tl.sum
    assert tl.math.exp is tl.exp
    assert tl.random.philox is tl.philox
    assert tl.core._unwrap_if_constexpr(tl.constexpr(3)) == 3
    assert tl.TRITON_MAX_TENSOR_NUMEL == 2**20
    for name in ("range", "static_range", "condition"):
        assert isinstance(getattr(tl, name), type)
