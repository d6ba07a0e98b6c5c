"""Modules of jitted JAX functions.

In a process of its own: where JAX has been imported, each later fork in the
process warns, other tests' forks too.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")

HEAD = """\
import jax
import jax.numpy as jnp
import emu.sdy

spec = jax.sharding.PartitionSpec
mesh = jax.sharding.AbstractMesh((16, 16), ("data", "model"))
rows = jax.sharding.NamedSharding(mesh, spec("data", None))
columns = jax.sharding.NamedSharding(mesh, spec(None, "model"))
x, w = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 32), (32, 128)))

def layer(x, w):
    return jnp.tanh(x @ w)

module = emu.sdy.from_jax(layer, x, w, in_shardings=(rows, columns))
jitted = jax.jit(layer, in_shardings=(rows, columns))
"""


def run(program: str) -> str:
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_mesh_larger_than_the_machine() -> None:
    printed = run("""
print(module)
(tanh,) = [r for r in emu.sdy.explain(module) if r.operation == "stablehlo.tanh"]
print([[axis.name for axis, _ in axes] for axes in tanh.axes], tanh.place)
""")
    assert '<["data"=16, "model"=16]>' in printed
    assert "[['data'], ['model']] jit(layer)/tanh (layer (<string>:" in printed


def test_a_jitted_function_gives_the_same_and_has_its_shardings_already() -> None:
    printed = run("""
print(str(emu.sdy.from_jax(jitted, x, w)) == str(module))
try:
    emu.sdy.from_jax(jitted, x, w, in_shardings=rows)
except ValueError as error:
    print(error)
""")
    assert printed == (
        "True\nin_shardings: the function is jitted already; give the shardings to jax.jit\n"
    )


def test_shardings_pass_through_what_was_chlo() -> None:
    """XLA legalizes CHLO before Shardy, which has no rules for it."""
    printed = run("""
def activated(x):
    return jax.lax.erf(x) * jnp.square(x)

for legalize in (True, False):
    module = emu.sdy.from_jax(activated, x, in_shardings=rows, legalize_chlo=legalize)
    *_, last = (r for r in emu.sdy.explain(module) if r.operation == "stablehlo.multiply")
    print("chlo." in str(module), last.after)
""")
    assert printed.splitlines() == [
        'False #sdy.sharding<@mesh, [{"data", ?}, {?}]>',
        "True None",
    ]


def test_arguments_of_from_jax_are_checked_before_jax_is_asked() -> None:
    printed = run("""
for wrong in ({"platform": 3}, {"locations": 1}, {"legalize_chlo": "yes"}):
    try:
        emu.sdy.from_jax(layer, x, w, **wrong)
    except emu.sdy.ArgumentError as error:
        print(error)
""")
    assert printed.splitlines() == [
        "platform must be the name of a platform, but got 3 of type int",
        "locations must be True or False, but got 1 of type int",
        "legalize_chlo must be True or False, but got 'yes' of type str",
    ]
