"""Red zones around tensors: a write just outside of one is reported, and the process lives."""

import copy
import ctypes
import io
import os
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

import emu.accelerator
from emu.tile.cpu.run import red_zones

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="torch's allocator is known on Linux"
)
pytestmark = linux_only


@pytest.fixture(autouse=True)
def devices():
    emu.accelerator.install()
    red_zones.load().take_freed()
    yield
    assert red_zones.load().take_freed() == []
    emu.accelerator.uninstall()


DTYPES = [torch.uint8, torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (1000,), (129, 257)])
def test_memory_is_torchs_own_in_every_other_way(shape, dtype):
    x = torch.ones(shape, dtype=dtype, device="cuda")
    assert x.data_ptr() % 64 == 0
    assert x.untyped_storage().nbytes() == x.numel() * x.element_size()
    assert red_zones.load().size_of(x.data_ptr()) == x.untyped_storage().nbytes()
    assert x.cpu().tolist() == torch.ones(shape, dtype=dtype).tolist()


def test_odd_tensors():
    assert torch.empty(0, device="cuda").data_ptr() == 0
    assert torch.empty((3, 0, 5), device="cuda").untyped_storage().nbytes() == 0
    strided = torch.empty_strided((2, 3), (7, 2), device="cuda")
    assert strided.untyped_storage().nbytes() == 4 * (7 + 4 + 1)
    view = torch.arange(10.0, device="cuda")[3:]
    assert view.untyped_storage().nbytes() == 40
    with pytest.raises(RuntimeError, match="140737488355328 bytes"):
        torch.empty(1 << 45, device="cuda")


def test_sizes_change():
    x = torch.arange(4.0, device="cuda")
    for size in (4, 1000, 3, 0, 70_000, 1):
        kept = x.tolist()[: min(size, 1)]
        x.resize_(size)
        assert x.tolist()[: len(kept)] == kept
        x.fill_(1)


def test_copies_are_guarded_and_whole():
    x = torch.arange(100.0, device="cuda")
    for y in (copy.deepcopy(x), x.clone(), x.cpu(), x.npu(), x + 0, x.contiguous()):
        assert red_zones.load().size_of(y.data_ptr()) == 400
        assert y.tolist() == x.tolist()


def test_storages_that_are_made_by_themselves():
    for storage in (torch.UntypedStorage(400), torch.UntypedStorage(400).clone()):
        assert (type(storage), storage.nbytes()) == (torch.UntypedStorage, 400)
        assert red_zones.load().size_of(storage.data_ptr()) == 400
    assert torch.UntypedStorage().nbytes() == torch.UntypedStorage(0).nbytes() == 0
    assert torch.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert torch.UntypedStorage(8, device="meta").device.type == "meta"
    with pytest.raises((RuntimeError, TypeError)):
        torch.UntypedStorage(-1)
    with pytest.raises((RuntimeError, TypeError)):
        torch.UntypedStorage("x")
    emu.accelerator.uninstall()
    assert red_zones.load().size_of(torch.UntypedStorage(400).data_ptr()) is None
    assert torch.UntypedStorage(400).clone().nbytes() == 400
    emu.accelerator.install()


@pytest.mark.parametrize("zipped", [True, False])
def test_saved_tensors(zipped):
    x = torch.arange(100.0, device="cuda")
    buffer = io.BytesIO()
    torch.save(x, buffer, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded.tolist() == x.tolist()
    assert loaded.is_cuda
    assert red_zones.load().size_of(loaded.data_ptr()) == loaded.untyped_storage().nbytes() == 400


def test_saved_views_share_their_memory():
    x = torch.arange(100.0, device="cuda")
    buffer = io.BytesIO()
    torch.save((x, x[50:]), buffer)
    for location in (None, "cuda", "npu:0", "cpu"):
        buffer.seek(0)
        whole, part = torch.load(buffer, map_location=location)
        part.zero_()
        assert whole.sum() == sum(range(50))


def test_memory_outlives_uninstalling():
    x = torch.ones(100, device="cuda")
    address = x.data_ptr()
    emu.accelerator.uninstall()
    assert red_zones.load().size_of(torch.ones(100).data_ptr()) is None
    ctypes.memset(address + 400, 0, 1)
    del x
    (damage,) = red_zones.load().take_freed()
    assert damage.first == 400
    emu.accelerator.install()


@pytest.mark.parametrize(("offset", "first"), [(400, 400), (-4, -4)])
def test_a_store_through_a_pointer(offset, first, capsys):
    x = torch.ones(100, device="cuda")
    ctypes.memset(x.data_ptr() + offset, 0x41, 3)
    del x
    red_zones.report_freed()
    text = capsys.readouterr().err
    assert "memory of 400 bytes at 0x" in text
    place = "0 bytes behind its end" if first > 0 else "4 bytes before its beginning"
    assert f"3 bytes from {place} hold 41 41 41\n" in text


def test_a_fork():
    x = torch.ones(100, device="cuda")
    child = os.fork()
    if not child:
        good = (x + torch.ones(100, device="cuda")).sum().item() == 200
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


HEAD = """
import torch, triton, triton.language as tl

@triton.jit
def fill(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, i.to(tl.float32))
"""


def run(tmp_path, text, *options):
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(text) + "print('alive')\n")
    command = [sys.executable, "-m", "emu", "run", "-n", "1", "--no-prefix", *options, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("alive\n")
    return done.stderr


def test_a_kernel_that_stores_behind_its_tensor(tmp_path):
    text = run(tmp_path, "x = torch.zeros(1000, device='cuda')\nfill[(8,)](x, BLOCK=128)\n")
    assert text.count("emu: ") == 1
    assert "emu: kernel fill (" in text
    assert "script.py:6) wrote outside the memory of x_ptr (ptr<f32>, 4000 bytes at 0x" in text
    assert "96 bytes from 0 bytes behind its end hold 00 00 7a 44" in text  # 1000.0
    assert "--check bounds" in text


@pytest.mark.slow
def test_a_kernel_of_several_threads(tmp_path):
    program = (
        "x = torch.zeros(1 << 20, device='cuda')\nfill[(8193,)](x, BLOCK=128, num_threads=2)\n"
    )
    text = run(tmp_path, program)
    assert "wrote outside the memory of x_ptr" in text
    assert "512 bytes from 0 bytes behind its end" in text


@pytest.mark.slow
def test_a_view_is_reported_at_the_end_and_when_it_is_freed(tmp_path):
    program = """
    def main():
        w = torch.zeros(1000, device='cuda')
        fill[(8,)](w[4:], BLOCK=128)
    main()
    kept = torch.zeros(1000, device='cuda')
    fill[(8,)](kept[4:], BLOCK=128)
    import builtins
    builtins.kept = kept
    """
    text = run(tmp_path, program)
    assert "freed meanwhile, was written outside its bounds: 112 bytes from 0 bytes" in text
    assert "of a tensor of torch.float32, shape (1000,) (4000 bytes at 0x" in text


def test_a_kernel_that_stays_inside(tmp_path):
    program = "x = torch.zeros(1024, device='cuda')\nfor _ in range(9): fill[(8,)](x, BLOCK=128)\n"
    assert run(tmp_path, program) == ""


def test_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_RED_ZONES", "0")
    program = "x = torch.zeros(1020, device='cuda')[:1000]\nfill[(8,)](x, BLOCK=64)\n"
    program += "import emu.accelerator.red_zones\n"
    program += "from emu.tile.cpu.run import red_zones\nassert red_zones.loaded() is None\n"
    assert run(tmp_path, program) == ""


def test_numpy_arrays_have_no_zones(tmp_path):
    program = "import numpy as np\nx = np.zeros(1024, np.float32)\nfill[(8,)](x, BLOCK=128)\n"
    assert run(tmp_path, program) == ""
