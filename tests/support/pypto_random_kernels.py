"""Random kernels of local ops."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np

from emu import pypto
from emu.pypto import submission
from emu.pypto.tensor import Tensor

DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.int8, np.uint8]
SHAPES = [(4, 6), (3, 1, 5), (2, 33), (7,), (1, 1), (5, 40)]


class Program:
    """A random kernel, drawn from a seed; each run makes the same ops."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.dtype = rng.choice(DTYPES)
        self.shape = rng.choice(SHAPES)
        self.is_float = np.dtype(self.dtype).kind not in "iu"
        self.arguments = [self.array(rng) for _ in range(3)]

    def array(self, rng: random.Random) -> np.ndarray:
        """Return values with extremes among them, on memory of a random layout."""
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        if self.is_float:
            values = numbers.standard_normal(self.shape) * 3
            flat = values.reshape(-1)
            for special in (np.nan, np.inf, -np.inf, -0.0, 1e30):
                if rng.random() < 0.4:
                    flat[rng.randrange(flat.size)] = special
            with np.errstate(all="ignore"):
                values = values.astype(self.dtype)
        else:
            limits = np.iinfo(self.dtype)
            values = numbers.integers(limits.min, limits.max, self.shape, endpoint=True)
            values = values.astype(self.dtype)
        layout = rng.randrange(4)
        if layout == 1:  # every second element of a wider array
            wide = np.zeros((*self.shape[:-1], 2 * self.shape[-1]), self.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        if layout == 2:  # backwards
            return values[..., ::-1].copy()[..., ::-1]
        if layout == 3:  # transposed
            return np.asfortranarray(values)
        return values

    def kernel(self, *args: Tensor) -> None:
        """Make the ops; results go to the last argument, and some in place of others."""
        rng = random.Random(self.seed + 1)
        out = args[-1]
        values = list(args[:-1])
        for _ in range(rng.randrange(3, 14)):
            a, b = rng.choice(values), rng.choice(values)
            values.append(self.op(rng, a, b))
            if rng.random() < 0.2:  # what is overwritten may have been read, and be read again
                self.assign(rng, rng.choice(values), rng.choice(values))
            if rng.random() < 0.3:
                values.pop(rng.randrange(len(values)))
        for value in values:
            if value.shape == out.shape:
                self.assign(rng, out, value)

    def assign(self, rng: random.Random, target: Tensor, value: Tensor) -> None:
        """Assemble all of a value, or a rectangle of it, into another tensor."""
        if target.shape != self.shape or value.shape != self.shape:
            return
        low, extent = self.rectangle(rng)
        part = pypto.view(value, extent, low)
        at = tuple(slice(a, None) for a in (low if rng.random() < 0.5 else [0] * len(low)))
        target[at] = part

    def rectangle(self, rng: random.Random) -> tuple[list[int], list[int]]:
        if rng.random() < 0.5:
            return [0] * len(self.shape), list(self.shape)
        low = [rng.randrange(n) for n in self.shape]
        return low, [rng.randrange(1, n - a + 1) for n, a in zip(self.shape, low, strict=True)]

    def op(self, rng: random.Random, a: Tensor, b: Tensor) -> Tensor:
        """Make an op whose bits backends agree on."""
        names = ["add", "sub", "mul", "maximum", "minimum", "where", "amax", "amin", "view", "cast"]
        names += ["sign", "logic"]
        if self.is_float:
            names += ["div", "sqrt", "floor", "relu", "number", "test"]
        else:
            names += ["sum", "bits", "bits", "bitwise_not"]
        name = rng.choice(names)
        if name == "where":
            return pypto.where(pypto.gt(a, b), a, b) + 0
        if name == "logic":
            word = rng.choice(["and", "or", "xor"])
            flags = getattr(pypto, f"logical_{word}")(a, b)
            return pypto.where(pypto.logical_not(flags), a, b)
        if name == "test":
            test = getattr(pypto, rng.choice(["isnan", "isinf", "isfinite"]))
            return pypto.where(pypto.bitwise_xor(test(a), test(b)), a, b)
        if name == "bits":
            word = rng.choice(["and", "or", "xor", "left_shift", "right_shift"])
            other = b if rng.random() < 0.5 else rng.randrange(12)
            return getattr(pypto, f"bitwise_{word}")(a, other)
        if name in ("sqrt", "floor", "relu", "sign", "bitwise_not"):
            return getattr(pypto, name)(a)
        if name == "number":
            return (a + 0.5) * 2.0
        if name in ("amax", "amin", "sum"):
            return getattr(pypto, name)(a, rng.randrange(-a.ndim, a.ndim), True) + a
        if name == "cast":
            other = rng.choice([pypto.DT_FP32, pypto.DT_INT32, pypto.DT_BOOL, pypto.DT_INT8])
            return pypto.cast(pypto.cast(a, other), a.dtype)
        if name == "view":
            low, extent = self.rectangle(rng)
            if a.shape != self.shape:
                return a + b
            part = pypto.view(a, extent, low) + 1
            return pypto.amax(part, -1, True) + a if part.shape[:-1] == a.shape[:-1] else a + 1
        return getattr(pypto, name)(a, b)

    def run(self, backend: str, monkeypatch, most_ops: int = 256) -> list[np.ndarray]:
        arguments = [np.copy(x) if x.flags.c_contiguous else x.copy("K") for x in self.arguments]
        arguments = [
            as_laid_out(x, like) for x, like in zip(arguments, self.arguments, strict=True)
        ]
        with monkeypatch.context() as patch, pypto.set_options(backend=backend):
            patch.setattr(submission, "MOST_OPS", most_ops)
            pypto.frontend.jit(lambda *a: self.kernel(*a))(*arguments)
        return arguments


def as_laid_out(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return a copy with the strides of another array."""
    if like.strides[-1] < 0:
        return values[..., ::-1].copy()[..., ::-1]
    if like.shape[-1] > 1 and like.strides[-1] == 2 * like.itemsize:
        wide = np.zeros((*like.shape[:-1], 2 * like.shape[-1]), like.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values.copy("K")
