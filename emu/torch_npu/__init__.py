"""The operators of ``torch_npu`` on the CPU, for NumPy arrays and torch tensors.

They read and write the memory of their arguments; results are of the kind of the first argument.
Importing this package loads nothing heavy, and torch only where the program has.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
