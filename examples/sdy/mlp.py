"""An MLP trained on 8 PEs, data by tensor parallel: the sharded step gives what JAX gives on one device.

The figure shows which devices hold which blocks; the table shows what the step communicates, and which
line of this file is the reason. Needs the extra "jax"; the PEs do not load it.

Run with: python examples/sdy/mlp.py
"""

import sys

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P
except ImportError:
    sys.exit("this example needs JAX: pip install 'tile-emu[jax]'")

import emu.sdy

MESH = {"data": 2, "model": 4}
BATCH, WIDTH, HIDDEN, STEPS = 32, 16, 64, 5
SPECS = {"up": P(None, "model"), "down": P("model", None), "bias": P()}


def loss(weights, x, y):
    hidden = jax.nn.relu(x @ weights["up"])
    return jnp.mean((hidden @ weights["down"] + weights["bias"] - y) ** 2)


def step(weights, x, y):
    value, gradients = jax.value_and_grad(loss)(weights, x, y)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value


def main() -> None:
    rng = np.random.default_rng(0)
    weights = {
        "up": rng.normal(0, WIDTH**-0.5, (WIDTH, HIDDEN)).astype(np.float32),
        "down": rng.normal(0, HIDDEN**-0.5, (HIDDEN, WIDTH)).astype(np.float32),
        "bias": np.zeros(WIDTH, np.float32),
    }
    x = rng.normal(size=(BATCH, WIDTH)).astype(np.float32)
    y = np.roll(x, 1, axis=1)

    sharded = emu.sdy.jit(
        step, mesh=MESH, in_shardings=(SPECS, P("data"), P("data")), out_shardings=(SPECS, P())
    )
    single = jax.jit(step)
    print(sharded.picture(weights, x, y))
    print(emu.sdy.cost(sharded.lower(weights, x, y)).table())
    expected = weights
    for number in range(STEPS):
        weights, value = sharded(weights, x, y)
        expected, wanted = single(expected, x, y)
        print(f"step {number}: loss {value:.6f} on 8 PEs, {wanted:.6f} on one device")
    for name, value in weights.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)
    print("the weights are those of one device")


if __name__ == "__main__":
    main()
