"""Matrix products."""

from rows.matmul import DTYPES, ours


class Product:
    """One thread, square matrices."""

    params = (["fp32", "fp64", "bf16", "fp16", "int8"], [64, 256, 1024])
    param_names = ("dtype", "size")

    def setup(self, dtype, size):
        self.product = ours(size, DTYPES[dtype](), 1)  # has been called once: compiled or loaded

    def time_product(self, dtype, size):
        self.product()

    def peakmem_product(self, dtype, size):
        self.product()


class TwoThreads:
    params = ([256, 1024],)
    param_names = ("size",)

    def setup(self, size):
        self.product = ours(size, DTYPES["fp32"](), 2)

    def time_product(self, size):
        self.product()
