"""A transformer written in JAX, for 256 devices that are not there: who communicates, and why.

JAX traces and lowers the model for an abstract mesh; nothing is compiled. Needs the extra "jax".

Run with: python examples/sdy/transformer.py [PAGE.html]
"""

import sys
from pathlib import Path

try:
    import jax
    import jax.numpy as jnp
    from jax.sharding import AbstractMesh, NamedSharding
    from jax.sharding import PartitionSpec as P
except ImportError:
    sys.exit("this example needs JAX: pip install 'tile-emu[jax]'")

import emu.sdy

LAYERS, BATCH, LENGTH, WIDTH, HEADS, HIDDEN = 3, 64, 128, 512, 16, 2048
MESH = AbstractMesh((16, 16), ("data", "model"))
SPECS = {
    "norm1": P(),
    "qkv": P(None, None, "model", None),
    "out": P("model", None, None),
    "norm2": P(),
    "up": P(None, "model"),
    "down": P("model", None),
}
SHAPES = {
    "norm1": (WIDTH,),
    "qkv": (3, WIDTH, HEADS, WIDTH // HEADS),
    "out": (HEADS, WIDTH // HEADS, WIDTH),
    "norm2": (WIDTH,),
    "up": (WIDTH, HIDDEN),
    "down": (HIDDEN, WIDTH),
}


def norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def block(x, p):
    h = norm(x, p["norm1"])
    q, k, v = jnp.einsum("bsd,cdhe->cbshe", h, p["qkv"])
    scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    mixed = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("bqhe,hed->bqd", mixed, p["out"])
    return x + jax.nn.gelu(norm(x, p["norm2"]) @ p["up"]) @ p["down"]


def model(x, layers):
    for p in layers:
        x = block(x, p)
    return x


def main() -> None:
    f32 = jnp.float32
    layer = {name: jax.ShapeDtypeStruct(shape, f32) for name, shape in SHAPES.items()}
    shardings = {name: NamedSharding(MESH, spec) for name, spec in SPECS.items()}
    module = emu.sdy.from_jax(
        model,
        jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), f32),
        [layer] * LAYERS,
        in_shardings=(NamedSharding(MESH, P("data")), [shardings] * LAYERS),
    )
    explanation = emu.sdy.explain(module)
    products = [r for r in explanation if r.operation == "stablehlo.dot_general"]
    for report in products[:6]:  # the first layer
        print(f"{report.name.name:6} {report.type!s:28} {report.after}")
    print(products[2])
    if len(sys.argv) > 1:
        page = explanation.html(cost=emu.sdy.cost(module))
        Path(sys.argv[1]).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
