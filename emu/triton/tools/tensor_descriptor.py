"""Tensor descriptors of the host: importable, as programs import them for some of their paths only."""

from __future__ import annotations

from typing import NoReturn

_MESSAGE = "{} is not in emu yet; pass the tensor and its strides, and use tl.load with a mask"


class TensorDescriptor:
    """Placeholder for a tensor descriptor; none can be made.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        del args, kwargs
        raise NotImplementedError(_MESSAGE.format("TensorDescriptor"))

    @staticmethod
    def from_tensor(*args: object, **kwargs: object) -> NoReturn:
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        del args, kwargs
        raise NotImplementedError(_MESSAGE.format("TensorDescriptor.from_tensor"))
