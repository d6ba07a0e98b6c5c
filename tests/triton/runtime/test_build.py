"""Building kernels: what their keys and digests depend on."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime import cache
from emu.triton.runtime.build import Request


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    return cache.folder()


class Odd:
    """A constant whose spelling says nothing of it."""


@triton.jit
def ignore(y_ptr, VALUE: tl.constexpr):
    tl.store(y_ptr, 1)


def test_a_kernel_with_a_constant_of_unknown_kind_is_not_stored(folder):
    y = np.zeros(1, np.int32)
    ignore[(1,)](y, Odd(), backend="cpu")
    assert y[0] == 1
    assert not list(folder.parent.rglob("*.kernel"))


SIGNATURE = {"y_ptr": "*i32", "VALUE": "constexpr"}


def request(**changes):
    facts = {"fn": ignore, "signature": SIGNATURE, "constants": {"VALUE": 1}, "debug": False}
    return Request(**{**facts, "backend": "cpu", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": {**SIGNATURE, "y_ptr": "*fp32"}},
        {"constants": {"VALUE": 2}},
        {"constants": {"VALUE": True}},
        {"constants": {"VALUE": 1.0}},
        {"constants": {"VALUE": "1"}},
        {"constants": {"VALUE": (1,)}},
        {"constants": {"VALUE": None}},
        {"debug": True},
        {"backend": "reference"},
        {"contract": True},
        {"target": "cuda:90"},
    ],
)
def test_whatever_changes_the_code_changes_key_and_digest(changes):
    plain, changed = request(), request(**changes)
    assert plain.digest() == request().digest()
    assert plain.key() == request().key()
    assert plain.digest() != changed.digest()
    assert plain.key() != changed.key()


def test_a_constant_without_a_lasting_spelling_has_a_key_and_no_digest():
    odd = request(constants={"VALUE": Odd()})
    assert odd.digest() is None
    hash(odd.key())
