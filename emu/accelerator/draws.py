"""Random operators: those on emulated devices draw from their device's generator.

Every operator that draws ends in one of a few kernels for host memory, where emulated tensors lie. Those are replaced:
they find out for which device they work, and hand its generator to torch's own kernel. So dropout, initialisers
and distributions, whatever calls them, leave the host's generator as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from emu.accelerator.annotations import Args
from emu.accelerator.device_tags import emulated_device
from emu.accelerator.generator import as_device_generator, default_generator, is_engine
from emu.accelerator.narrow_floats import kernel_of_torch
from emu.accelerator.patches import record
from emu.accelerator.state import state

NAMES = (
    *("bernoulli.out", "bernoulli_.Tensor", "bernoulli_.float", "binomial", "cauchy_"),
    *("exponential_", "geometric_", "log_normal_", "multinomial", "multinomial.out", "normal_"),
    *("normal.Tensor_float", "normal.Tensor_float_out", "normal.float_Tensor"),
    *("normal.float_Tensor_out", "normal.Tensor_Tensor", "normal.Tensor_Tensor_out"),
    *("poisson", "random_", "random_.from", "random_.to", "randperm.generator_out"),
    *("rrelu_with_noise", "rrelu_with_noise.out", "rrelu_with_noise_", "uniform_"),
    *("_sample_dirichlet", "_standard_gamma"),
)
"""The operators that take a generator and have a kernel for the CPU."""


def install() -> None:
    """Replace the kernels."""
    library = torch.library.Library("aten", "IMPL", "CPU")  # the kernels end with it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its own are replaced
        for name in NAMES:
            library.impl(name, _drawing(name, kernel_of_torch(name)))
    what = f"torch.ops.aten.{', '.join(NAMES)}"
    record(what, "devices have generators of their own", library._destroy)


def _drawing(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
    place = [argument.name for argument in schema.arguments].index("generator")

    def draw(*args: Any, **kwargs: Any) -> Any:
        given = args[place] if len(args) > place else kwargs.get("generator")
        source = _source(given, (*args, kwargs.get("out")))
        if source is given:
            return run(*args, **kwargs)
        return run(*args[:place], **{**kwargs, "generator": source})

    return draw


def _source(given: torch.Generator | None, operands: Args) -> torch.Generator | None:
    """Return the host's generator to draw with; None: its default one.

    Raises:
        RuntimeError: The generator that was given is not of the tensors' device type.
    """
    if given is not None and is_engine(given):  # of the draw that this one is a part of
        return given
    device = state.running
    if device is None:  # outside of the mode, as in compiled functions
        tensors = (value for value in operands if isinstance(value, torch.Tensor))
        device = next((found for found in map(emulated_device, tensors) if found), None)
    if given is None:
        return None if device is None else default_generator(device).next_draw()
    meant = as_device_generator(given)
    wanted, found = (where.type if where else "cpu" for where in (device, meant and meant.device))
    if wanted != found:
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{found}'")
    return given if meant is None else meant.next_draw()
