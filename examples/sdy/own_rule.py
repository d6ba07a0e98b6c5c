"""A kernel that Shardy does not know: without a rule nothing passes through it.

Run with: python examples/sdy/own_rule.py
"""

import emu.sdy
from emu.sdy.rules import einsum_rule

PROGRAM = """
sdy.mesh @mesh = <["data"=4, "model"=2]>

func.func @main(
    %q: tensor<8x128x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}, {}]>},
    %k: tensor<8x128x16x64xf32>, %v: tensor<8x128x16x64xf32>) -> tensor<8x128x16x64xf32> {
  %o = stablehlo.custom_call @flash_attention(%q, %k, %v)
      : (tensor<8x128x16x64xf32>, tensor<8x128x16x64xf32>, tensor<8x128x16x64xf32>)
      -> tensor<8x128x16x64xf32>
  return %o : tensor<8x128x16x64xf32>
}
"""


def shardings() -> str:
    """Return the shardings of the function's arguments and result after propagation."""
    module = emu.sdy.parse(PROGRAM)
    for diagnostic in emu.sdy.run_passes(module, "sdy-propagation-pipeline"):
        print(f"{diagnostic.severity.value}: {diagnostic.message}")
    return next(line.strip() for line in str(module).splitlines() if "func.func" in line)


def main() -> None:
    print("without a rule:", shardings())

    @emu.sdy.register_rule("@flash_attention")
    def flash_attention(op):
        return einsum_rule(op, "b q h d, b k h d, b k h d -> b q h d", need_replication="k d")

    print("with a rule:   ", shardings())


if __name__ == "__main__":
    main()
