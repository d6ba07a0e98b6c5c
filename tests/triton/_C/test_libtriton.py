"""Names of Triton's compiled library."""

import numpy as np
import pytest

from emu.triton._C import libtriton

torch = pytest.importorskip("torch")


def test_variables_of_the_environment(monkeypatch):
    monkeypatch.delenv("EMU_SAMPLE", raising=False)
    assert libtriton.getenv("EMU_SAMPLE", "x") == "x"
    assert libtriton.getenv_bool("EMU_SAMPLE", True) is True
    monkeypatch.setenv("EMU_SAMPLE", "off")
    assert libtriton.getenv("EMU_SAMPLE") == "off"
    assert libtriton.getenv_bool("EMU_SAMPLE", True) is False


def test_what_is_not_there_is_an_import_error():
    with pytest.raises(ImportError, match="gluon_ir"):
        from emu.triton._C.libtriton import gluon_ir  # noqa: F401
    with pytest.raises(
        AttributeError, match="emu has no compiled part of Triton's, and so no 'ir'"
    ):
        _ = libtriton.ir


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_products_of_matrices(dtype):
    rng = np.random.default_rng(3)
    a, b = (torch.tensor(rng.standard_normal((m, 24)), dtype=dtype) for m in (5, 7))
    c = torch.full((5, 7), float("nan"), dtype=dtype)
    library = libtriton.nvidia.cublas.CublasLt(torch.empty(1))
    library.matmul(a, b, c)
    exact = a.double() @ b.double().T
    assert torch.allclose(
        c.double(), exact, rtol=1e-2 if dtype != torch.float32 else 1e-5, atol=1e-5
    )
    d = torch.empty_like(c)
    library.gemm(a, b, torch.ones_like(c), d, 2.0, 3.0)
    assert torch.allclose(d.double(), 2 * exact + 3, rtol=2e-2, atol=2e-2)


def test_shapes_must_fit():
    library = libtriton.CublasLt(None)
    a, b = torch.zeros(5, 3), torch.zeros(7, 4)
    with pytest.raises(
        ValueError, match=r"a, b and c must be \(M, K\), \(N, K\) and \(M, N\), but are"
    ):
        library.matmul(a, b, torch.zeros(5, 7))
