"""The table of steps."""

from emu.mlir import parse
from emu.sdy.passes.base import Session, run_pass
from emu.sdy.passes.propagate import (
    BasicPropagate,
    UserPriorityPropagate,
)


def propagate(text, *passes):
    module, session = parse(text), Session()
    for each in passes or (BasicPropagate(),):
        run_pass(each, module, session)
    return module, session.diagnostics.emitted


LAYER = """
  %d{0} = stablehlo.dot %x{0}, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %x{1} = stablehlo.tanh %d{0} : tensor<8x8xf32>"""


def layers(count):
    body = "".join(LAYER.format(i, i + 1) for i in range(count))
    return f"""
sdy.mesh @grid = <["x"=2, "y"=2]>
func.func @main(%x0: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@grid, [{{"x"}}, {{?}}]>}},
                %w: tensor<8x8xf32>) -> tensor<8x8xf32> {{{body}
  return %x{count} : tensor<8x8xf32>
}}"""


def test_equal_layers_are_computed_once(monkeypatch):
    from emu.sdy.propagation import steps

    computed = []
    run_step = steps.run_step
    monkeypatch.setattr(steps, "run_step", lambda *args: computed.append(1) or run_step(*args))
    counts = []
    for depth in (5, 50):
        computed.clear()
        propagate(layers(depth), UserPriorityPropagate())
        counts.append(len(computed))
    assert counts[0] == counts[1] > 0
