"""Modules that scripts import from ``torch_npu.contrib``."""

from . import transfer_to_npu as transfer_to_npu
