"""Wrong arguments of `emu.sdy` are refused by an `ArgumentError` that names them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import emu.sdy
from emu.sdy.passes.propagate import BasicPropagate
from emu.sdy.rules import unregister
from emu.stablehlo.reference.custom_calls import unregister_custom_call

TEXT = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = stablehlo.abs %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
MODULE = emu.sdy.parse(TEXT)
FUNCTION = MODULE.body().operations[1]
VALUES: list[Any] = [
    *(None, 0, -1, 2**70, 1.5, float("nan"), True, "", "x", "\x00", "\ud800", b"x", "a" * 10_000),
    *([], [1], [None], {}, {"a": 1}, (), ("x",), object(), int, len, print, lambda: 0, emu.sdy),
    *(np.zeros(3), np.float32(1), np.True_, MODULE, FUNCTION, FUNCTION.body().operations[0]),
    *("sdy-close-shardings{", "nope", "sdy-close-shardings{x=1}", ["sdy-close-shardings"]),
    *("sdy-basic-propagate{keep-sharding-rules=maybe}", "(" * 2_000, "builtin.module(" * 5_000),
    *(BasicPropagate, [BasicPropagate], BasicPropagate(), [BasicPropagate()], MODULE.body),
]


def register(name: Any = "fuzz.op", function: Any = lambda op: None, replace: Any = False) -> None:
    emu.sdy.register_rule(name, replace=replace)(function)
    unregister(name)


NUMBERS = np.zeros(4, np.float32)
PROGRAM = emu.sdy.compile(emu.sdy.parse(TEXT.replace('"x"=2', '"x"=1')))
"""Runs in this process: what was good after all costs nothing."""


def compiled(**arguments: Any) -> None:
    """Compile, and close what came of it."""
    emu.sdy.compile(MODULE, **arguments).close()


def register_call(
    name: Any = "fuzz_call", function: Any = lambda op: [], replace: Any = False
) -> None:
    emu.sdy.register_custom_call(name, replace=replace)(function)
    unregister_custom_call(name)


def explained() -> emu.sdy.Explanation:
    return emu.sdy.explain(TEXT)


CALLS: dict[str, Callable[[Any], Any]] = {
    "parse": emu.sdy.parse,
    **{
        f"parse {name}": lambda v, name=name: emu.sdy.parse(TEXT, **{name: v})
        for name in ("file", "verify", "allow_unregistered", "diagnostics", "names")
    },
    "to_text": emu.sdy.to_text,
    **{
        f"to_text {name}": lambda v, name=name: emu.sdy.to_text(MODULE, **{name: v})
        for name in ("generic", "locations", "local")
    },
    "run module": lambda v: emu.sdy.run_passes(v, "sdy-close-shardings"),
    "run passes": lambda v: emu.sdy.run_passes(emu.sdy.parse(TEXT), v),
    "run verify_each": lambda v: emu.sdy.run_passes(emu.sdy.parse(TEXT), [], verify_each=v),
    "explain": emu.sdy.explain,
    "explain passes": lambda v: emu.sdy.explain(TEXT, v),
    "explain file": lambda v: emu.sdy.explain(TEXT, file=v),
    "value name": lambda v: explained().value(v),
    "value function": lambda v: explained().value("%a", v),
    "paths": lambda v: explained().value("%a")[0].paths(v),
    "register name": register,
    "register_custom_call name": register_call,
    "register_custom_call function": partial(register_call, "fuzz_call"),
    "register_custom_call replace": lambda v: register_call(replace=v),
    "register function": partial(register, "fuzz.op"),
    "register replace": lambda v: register(replace=v),
    "option": BasicPropagate,
    "from_jax platform": lambda v: emu.sdy.from_jax(len, platform=v, locations=None),
    "from_jax function": lambda v: emu.sdy.from_jax(v, locations=None),
    "compile": emu.sdy.compile,
    **{
        f"compile {name}": lambda v, name=name: compiled(**{name: v})
        for name in (
            *("passes", "check", "custom_calls", "mesh", "n_pes", "replicas", "donate", "path"),
        )
    },
    "execute": lambda v: emu.sdy.run(v, NUMBERS),
    "call": PROGRAM,
    "call two": lambda v: PROGRAM(NUMBERS, v),
    "call options": lambda v: PROGRAM(NUMBERS, options=v),
    "call gather": lambda v: PROGRAM(NUMBERS, gather=v),
    "PerDevice": emu.sdy.PerDevice,
    "call PerDevice": lambda v: PROGRAM([v, NUMBERS]),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_wrong_argument_is_named(call: str) -> None:
    refused = 0
    for value in VALUES:
        try:
            CALLS[call](value)
        except emu.sdy.ArgumentError as error:
            refused += len(str(error)) > 20
        except emu.sdy.ExecutionError as error:
            refused += 20 < len(str(error)) < 2_000
        except (emu.sdy.MlirError, emu.sdy.PassFailed):
            pass  # it is an argument, but holds no module
    assert refused > 5


@pytest.mark.parametrize(
    ("call", "value", "message"),
    [
        ("parse", b"x", "text must be MLIR text, but got b'x' of type bytes"),
        ("parse verify", 1, "verify must be True or False, but got 1 of type int"),
        ("run module", FUNCTION, "but got the operation func.func"),
        ("run passes", [1], r"passes\[0\] must be a pass, but got 1 of type int"),
        ("run passes", 7, "passes must be a pipeline as text, a pass or a list of passes"),
        ("value name", "nope", "no value is called '%nope'; there are %a, %0"),
        ("paths", 0, "limit must be at least 1, but got 0"),
        ("register function", 3, "the sharding rule of 'fuzz.op' must be a function"),
        ("option", "yes", "sdy-basic-propagate: keep_sharding_rules must be of type bool"),
    ],
)
def test_the_message_names_argument_value_and_bound(call: str, value: Any, message: str) -> None:
    with pytest.raises(emu.sdy.ArgumentError, match=message):
        CALLS[call](value)
