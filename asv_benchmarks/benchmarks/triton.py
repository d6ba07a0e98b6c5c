"""Launches of Triton kernels, and what the tutorials' kernels take."""

from rows import triton as rows
from rows import triton_library

try:
    import torch
except ImportError:
    torch = None


class _WithTorch:
    def setup(self, *_):
        if torch is None:
            raise NotImplementedError("torch is not installed")


class Launch(_WithTorch):
    def setup(self):
        super().setup()
        import kernels_triton as kernels

        tensors = [torch.empty(8) for _ in range(4)]
        self.launch = lambda: kernels.nothing[(1,)](*tensors)
        self.launch()  # compiles or loads it

    def time_nothing(self):
        self.launch()


class Rows(_WithTorch):
    """Element-wise and row-wise kernels."""

    params = (["add", "softmax", "layer_norm"], [1, 2])
    param_names = ("kernel", "threads")

    def setup(self, kernel, threads):
        super().setup()
        self.call = getattr(rows, kernel)(threads)
        self.call()

    def time_kernel(self, kernel, threads):
        self.call()


class Product(_WithTorch):
    """1024 by 1024, one thread."""

    params = (["float32", "float16", "bfloat16"], [(64, 64, 32), (128, 128, 64)])
    param_names = ("dtype", "blocks")

    def setup(self, dtype, blocks):
        super().setup()
        self.call = rows.matmul(1, dtype, blocks)
        self.call()

    def time_product(self, dtype, blocks):
        self.call()


class Library(_WithTorch):
    """Kernels of libraries, one thread, sizes reduced."""

    params = (
        [
            "cross_entropy",
            "rms_norm",
            "rope",
            "softmax",
            "quantize_fp8",
            "int8",
            "topk",
            "embedding",
            "embedding_block",
            "gemv",
            "sort",
            "scatter_add",
            "histogram",
            "cumsum",
        ],
    )
    param_names = ("kernel",)

    def setup(self, kernel):
        super().setup()
        arguments = {
            "embedding": {"blocks": False},
            "embedding_block": {"blocks": True},
            "gemv": {"dtype": "float32"},
            "sort": {"rows": 1024, "columns": 1024},
            "scatter_add": {"dtype": "float32"},
            "histogram": {"against": "bincount"},
            "cumsum": {"rows": 1},
        }.get(kernel, {})
        make = getattr(triton_library, kernel.removesuffix("_block"))
        self.call = make(True, **arguments).ours
        self.call()

    def time_kernel(self, kernel):
        self.call()
