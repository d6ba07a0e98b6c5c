"""Targets for wrong arguments: the ops of PyPTO beyond the first ones."""

from __future__ import annotations

from typing import Any

import emu.pypto as p


def add_language(add: Any, x: Any) -> None:
    """Add targets.

    Args:
        add: Adds one: name, function, arguments.
        x: Makes an operand: shape, data type.
    """
    _add_mathematics(add, x)
    _add_rows(add, x)
    _add_quantization(add, x)
    _add_indexing(add, x)
    _add_arranging(add, x)


def _add_mathematics(add: Any, x: Any) -> None:
    both = {"a": ("operand 0", "number"), "b": ("operand 1", "operand 0", "number")}
    for name in ("pow", "remainder", "logical_and", "logical_or", "logical_xor"):
        words = {k: (*v, f"{name}:", f"{name} needs") for k, v in both.items()}
        add(name, getattr(p, name), a=lambda: x(), b=lambda: x(), also=words)
        add(f"{name} of a number", getattr(p, name), a=lambda: x(dtype=p.DT_INT8), b=2, also=words)
    for name in ("and", "or", "xor", "left_shift", "right_shift"):
        words = {k: (*v, f"bitwise_{name}:", f"bitwise_{name} needs") for k, v in both.items()}
        a, b = (lambda: x(dtype=p.DT_INT16) for _ in range(2))
        add(f"bitwise_{name}", getattr(p, f"bitwise_{name}"), a=a, b=b, also=words)
    for name in (
        *("sin", "cos", "tanh", "erf", "expm1", "log1p", "reciprocal", "silu", "relu", "sign"),
        *("floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite", "logical_not"),
    ):
        add(name, getattr(p, name), a=lambda: x(), also={"a": ("operand 0", f"{name} needs")})
    add(
        "bitwise_not",
        p.bitwise_not,
        a=lambda: x(dtype=p.DT_INT8),
        also={"a": ("operand 0", "bitwise_not needs")},
    )
    add(
        "gelu",
        p.gelu,
        a=lambda: x(),
        approximate="tanh",
        also={"a": ("operand 0", "gelu needs", "gelu_tanh needs")},
    )
    words = ("operand", "number", "clip", "maximum", "minimum")
    add(
        "clip",
        p.clip,
        a=lambda: x(),
        min=1.0,
        max=lambda: x(),
        also=dict.fromkeys(("a", "min", "max"), words),
    )


def _add_rows(add: Any, x: Any) -> None:
    """Add targets of ops along axes."""
    for name in ("sum", "amax", "amin", "mean", "prod", "any", "all"):
        add(
            f"{name} of axes", getattr(p, name), a=lambda: x(), dim=(0, 1), keepdim=True,
            also={"a": (f"{name} needs", "dim")},
        )  # fmt: skip
    add(
        "var",
        p.var,
        a=lambda: x(),
        dim=1,
        keepdim=False,
        correction=0,
        also={"a": ("var needs", "dim")},
    )
    for name in ("argmax", "argmin"):
        add(
            name,
            getattr(p, name),
            a=lambda: x(),
            dim=1,
            keepdim=True,
            also={"a": (f"{name} needs", "dim must")},
        )
    for name in ("cumprod", "log_softmax"):
        add(name, getattr(p, name), a=lambda: x(), dim=0, also={"a": (f"{name} needs", "dim must")})
    for name in ("sort", "argsort"):
        add(
            name, getattr(p, name), a=lambda: x(), dim=0, descending=True, also={"a": ("dim must",)}
        )
    also = {"a": ("layer_norm needs", "rms_norm needs", "weight", "bias")}
    add(
        "layer_norm",
        p.layer_norm,
        a=lambda: x(),
        weight=lambda: x((8,)),
        bias=lambda: x((1, 8)),
        eps=1e-5,
        also=also,
    )
    add("rms_norm", p.rms_norm, a=lambda: x(), weight=lambda: x((8,)), eps=1e-6, also=also)


def _add_quantization(add: Any, x: Any) -> None:
    add(
        "quantize", p.quantize, a=lambda: x(), scale=lambda: x((4, 1)), zero_point=3, dtype=p.DT_UINT8,
        also={"a": ("quantize needs", "scale", "zero_point")},
    )  # fmt: skip
    add(
        "dequantize", p.dequantize, a=lambda: x(dtype=p.DT_INT8), scale=0.5, zero_point=lambda: x((1, 8), p.DT_INT32),
        dtype=p.DT_BF16, also={"a": ("dequantize needs", "scale", "zero_point")},
    )  # fmt: skip
    add(
        "dynamic_quantize",
        p.dynamic_quantize,
        a=lambda: x(),
        dim=-1,
        also={"a": ("dynamic_quantize needs", "dim must")},
    )


def _add_indexing(add: Any, x: Any) -> None:
    words = {
        "a": ("index", "dim must", "src", "scatter", "index_add needs"),
        "dim": ("index", "src"),
        "index": ("src",),
    }
    add(
        "take_along",
        p.take_along,
        a=lambda: x(),
        index=lambda: x((2, 3), p.DT_INT64),
        dim=1,
        also=words,
    )
    add(
        "index_select",
        p.index_select,
        a=lambda: x((8, 8)),
        dim=1,
        index=lambda: x((3,), p.DT_INT64),
        also=words,
    )
    add(
        "index_add", p.index_add, a=lambda: x((8, 8)), dim=1, index=lambda: x((3,), p.DT_INT64), src=lambda: x((8, 3)),
        also=words,
    )  # fmt: skip
    for name in ("scatter", "scatter_add"):
        add(
            name, getattr(p, name), a=lambda: x((8, 8)), dim=1, index=lambda: x((2, 3), p.DT_INT32), src=lambda: x((2, 3)),
            also={**words, "src": ("number", "scatter:")},
        )  # fmt: skip


def _add_arranging(add: Any, x: Any) -> None:
    add(
        "broadcast_to",
        p.broadcast_to,
        a=lambda: x((4, 1)),
        shape=[2, 4, 8],
        also={"a": ("shape must", "shape of")},
    )
    add("expand", p.expand, a=lambda: x((4, 1)), shape=[-1, 8], also={"a": ("shape",)})
    add("unsqueeze", p.unsqueeze, a=lambda: x(), dim=1, also={"a": ("dim must",)})
    add("squeeze", p.squeeze, a=lambda: x((4, 1)), dim=1, also={"a": ("dim must",)})
    add("permute", p.permute, a=lambda: x(), dims=[1, 0], also={"a": ("dims",)})
    add("stack", p.stack, tensors=lambda: [x(), x()], dim=0, also={"tensors": ("dim must",)})
    add(
        "split",
        p.split,
        a=lambda: x(),
        sizes=[3, 1],
        dim=0,
        also={"a": ("sizes", "dim must"), "dim": ("sizes",)},
    )
    add(
        "full_like",
        p.full_like,
        a=lambda: x(),
        value=2,
        dtype=p.DT_INT8,
        also={"dtype": ("value",)},
    )
    add("zeros_like", p.zeros_like, a=lambda: x(), dtype=p.DT_BF16)
    add("ones_like", p.ones_like, a=lambda: x(), dtype=p.DT_BF16)
