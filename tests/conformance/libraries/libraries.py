"""The libraries whose suites run here, and what of each has no meaning without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Library:
    """How a library's tests are found and run.

    Attributes:
        files: Patterns of its test files, from the root of a checkout.
        are_ours: Whether these are files of the folder ``kernels`` here, which compare its kernels with torch.
        folders: Folders that its packages are imported from.
        needs: Packages that it or its tests import, beside torch and Triton.
        environment: Of the processes.
        arguments: Of pytest.
        left_out: Names of files for another back end than Triton, or patterns of them.
        absent: Beginnings of errors, and texts in reasons of skipped tests, by which a test has no meaning here.
        marks: Marks of pytest that plugins declare which are not installed.
        pes: PEs on which each test runs, in a process group of torch; 0: in pytest's process alone.
        ranks: Number of ranks of torch's classes of tests that start a process for each: PEs are forked instead, as
            ``torch_processes.py`` says; 0: there are none.
    """

    files: tuple[str, ...]
    are_ours: bool = False
    folders: tuple[str, ...] = (".",)
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    pes: int = 0
    ranks: int = 0


_NO_NETWORK = (
    "OSError: We couldn't connect to",
    "LocalEntryNotFoundError",
    "huggingface_hub.errors",
)

LIBRARIES: dict[str, Library] = {
    "bitsandbytes": Library(
        files=("test_bitsandbytes.py",),
        are_ours=True,  # its own are of its kernels in CUDA C++
    ),
    "liger": Library(
        files=(
            "test/transformers/test_*.py",
            "test/chunked_loss/test_*.py",
            "test/triton/test_*.py",
        ),
        folders=("src", "."),
        needs=(
            "transformers<5",
            "accelerate",
        ),  # its tests make rotary embeddings as release 4 does
        environment={"HF_HUB_OFFLINE": "1"},
        left_out=frozenset({"test_cutile_rope.py"}),  # imports cuTile
        absent=_NO_NETWORK,
        marks=("flaky",),
    ),
    "flaggems": Library(
        files=("tests/test_*.py",),
        folders=("src", "."),
        needs=("sqlalchemy", "pyyaml", "packaging"),
        environment={"GEMS_VENDOR": "nvidia"},
    ),
    "fla": Library(
        files=("tests/ops/test_*.py", "tests/modules/test_*.py"),
        needs=("transformers", "einops"),
        absent=_NO_NETWORK,
    ),
    "helion": Library(
        files=("test/test_*.py",),
        needs=("expecttest", "filecheck", "hypothesis", "rich", "scikit-learn", "tabulate"),
        environment={"HELION_AUTOTUNE_EFFORT": "none"},
        left_out=frozenset(
            {
                "test_distributed.py",  # helion-distributed
                "test_examples_dist.py",
                "test_amd_cdna.py",
                "test_cute_*.py",
                "test_metal*.py",
                "test_pallas*.py",
                "test_pretuned_*pallas*.py",
                "test_tileir.py",
            }
        ),
    ),
    "helion-distributed": Library(
        files=("test/test_distributed.py", "test/test_examples_dist.py"),
        needs=("expecttest", "filecheck", "psutil", "rich", "scikit-learn"),
        environment={"HELION_AUTOTUNE_EFFORT": "none"},
        arguments=("--emu-devices", "4"),
        ranks=4,
    ),
    "iris": Library(  # with tritonBLAS, whose folder "include" must be importable
        files=(
            "tests/unittests/test_*.py",
            "tests/ccl/test_*.py",
            "tests/context/test_*.py",
            "tests/examples/test_*.py",
        ),
        left_out=frozenset({"*gluon*.py"}),
        pes=2,
    ),
    "kraken": Library(
        files=("test/test_*.py",),
        needs=("cuda-bindings",),
        arguments=("--emu-devices", "4"),
        ranks=4,
    ),
    "mamba": Library(
        files=("tests/ops/triton/test_*.py", "tests/ops/test_*.py", "tests/modules/test_*.py"),
        needs=("einops", "transformers"),
        absent=(
            "RuntimeError: MAMBA_KEEP_CUDA_BUILD",  # its extension in CUDA C++
            "AssertionError: Fails to import Mamba-3 MIMO kernels",  # of TileLang
        ),
    ),
    "pytorch-symmetric": Library(  # of PyTorch's repository, at the release that is installed
        files=(
            "test/distributed/test_symmetric_memory.py",
            "test/distributed/test_shmem_triton.py",
        ),
        needs=("expecttest",),
        environment={"EMU_DEVICE_MODEL": "h100"},
        absent=("multicast support is not available", "torchcomms not installed"),
        arguments=("--emu-devices", "4"),
        ranks=4,
    ),
    "torchao": Library(
        files=(
            "test/prototype/mx_formats/test_kernels.py",
            "test/prototype/blockwise_fp8_training/test_blockwise_kernels.py",
            "test/prototype/blockwise_fp8_inference/test_blockwise.py",
            "test/prototype/moe_training/test_kernels.py",
            "test/prototype/moe_training/ep/test_kernels.py",
            "test/prototype/test_quantized_training.py",
            "test/prototype/moe_training/nvfp4_training/test_*.py",
        ),
        needs=("expecttest", "parameterized", "transformers"),
    ),
    "triton_kernels": Library(  # of the folder python of Triton's repository, whose conftest.py it needs
        files=(
            "triton_kernels/tests/test_*.py",
            "triton_kernels/tests/test_*_details/test_*.py",
        ),
        folders=("triton_kernels",),
        left_out=frozenset(
            {"test_distributed.py", "test_layout_cdna4.py", "test_layout_gfx1250.py"}
        ),
    ),
    "unsloth": Library(
        files=("test_unsloth.py",),
        needs=("transformers<5", "unsloth_zoo"),
        environment={"UNSLOTH_IS_PRESENT": "1", "EMU_CUDA_CAPABILITY": "9.0"},  # for descriptors
        are_ours=True,  # its own train whole models
    ),
    "vllm": Library(
        files=("test_vllm.py",),
        needs=(
            *(
                "cachetools",
                "einops",
                "orjson",
                "psutil",
                "pydantic",
                "regex",
                "requests",
                "safetensors",
            ),
            *("tokenizers", "tqdm", "transformers"),
        ),
        are_ours=True,  # its own want its extension in CUDA C++, and models
    ),
    "xformers": Library(
        files=("test_xformers.py",),
        are_ours=True,  # its own import mslk
    ),
    "xformers-own": Library(
        files=(
            "tests/test_indexing.py",
            "tests/test_rmsnorm.py",
            "tests/test_rope_padded.py",
            "tests/test_tiled_matmul.py",
        ),
        needs=("scipy",),  # and a checkout of MSLK, whose attention xformers imports
        environment={"MSLK_PYTHON_ONLY": "1"},
    ),
}
