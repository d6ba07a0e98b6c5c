"""Why is a value sharded as it is? Two layers, and one whose two users want different shardings.

Run with: python examples/sdy/why.py
"""

import emu.sdy

PROGRAM = """
sdy.mesh @mesh = <["data"=4, "model"=2]>

func.func @main(
    %x: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %up: tensor<256x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>},
    %down: tensor<1024x256xf32>,
    %bias: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", ?}, {?}]>})
    -> tensor<64x256xf32> {
  %h = stablehlo.dot %x, %up : (tensor<64x256xf32>, tensor<256x1024xf32>) -> tensor<64x1024xf32>
  %a = stablehlo.tanh %h : tensor<64x1024xf32>
  %y = stablehlo.dot %a, %down : (tensor<64x1024xf32>, tensor<1024x256xf32>) -> tensor<64x256xf32>
  %z = stablehlo.add %y, %bias : tensor<64x256xf32>
  return %z : tensor<64x256xf32>
}
"""


def main() -> None:
    explanation = emu.sdy.explain(PROGRAM, file="two_layers.mlir")
    print(explanation)
    for name in ("%a", "%down", "%z"):
        for report in explanation.value(name):
            print(report)
    print(explanation.module)


if __name__ == "__main__":
    main()
