"""Programs with shardings, as text: what JAX lowers an MLP and a transformer to, in small."""

from __future__ import annotations

_MESH = 'sdy.mesh @mesh = <["data"=4, "model"=2]>'
_OPS_A_LAYER = 9

_MLP_LAYER = """\
    %d{i} = stablehlo.dot_general %x{i}, %w{i}, contracting_dims = [1] x [0], \
precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %r{i} = stablehlo.broadcast_in_dim %b{i}, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %f{i} = stablehlo.broadcast_in_dim %r{i}, dims = [0, 1] \
: (tensor<1x64xf32>) -> tensor<32x64xf32>
    %s{i} = stablehlo.add %d{i}, %f{i} : tensor<32x64xf32>
    %t{i} = stablehlo.tanh %s{i} : tensor<32x64xf32>
    %c{i} = stablehlo.constant dense<1.500000e+00> : tensor<f32>
    %g{i} = stablehlo.broadcast_in_dim %c{i}, dims = [] : (tensor<f32>) -> tensor<32x64xf32>
    %m{i} = stablehlo.multiply %t{i}, %g{i} : tensor<32x64xf32>
    %x{next} = stablehlo.add %m{i}, %x{i} : tensor<32x64xf32>
"""


def mlp(ops: int) -> str:
    """Return a function of about that many operations: layers with a bias and a residual connection."""
    layers = max(1, ops // _OPS_A_LAYER)
    arguments = [_argument("x0", "tensor<32x64xf32>", '{"data"}, {}')]
    for i in range(layers):
        weights, bias = ('{}, {"model"}', '{"model"}') if i % 2 == 0 else ('{"model"}, {}', "{}")
        arguments += [
            _argument(f"w{i}", "tensor<64x64xf32>", weights),
            _argument(f"b{i}", "tensor<64xf32>", bias),
        ]
    body = "".join(_MLP_LAYER.format(i=i, next=i + 1) for i in range(layers))
    return (
        f"module @mlp {{\n  {_MESH}\n"
        f"  func.func public @main({', '.join(arguments)}) -> tensor<32x64xf32> {{\n{body}"
        f"    return %x{layers} : tensor<32x64xf32>\n  }}\n}}\n"
    )


def _argument(name: str, type_: str, dims: str) -> str:
    return f"%{name}: {type_} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"


_X = "tensor<8x64x128xf32>"
_SCORES = "tensor<8x64x64xf32>"
_ROWS = "tensor<8x64xf32>"
_SQUARE = "tensor<128x128xf32>"
_UP = "tensor<128x256xf32>"
_DOWN = "tensor<256x128xf32>"
_WIDE = "tensor<8x64x256xf32>"

_TIMES = "contracting_dims = [2] x [0]"
_BLOCK = f"""\
  func.func private @block_{{i}}(%x: {_X}, %wq: {_SQUARE}, %wk: {_SQUARE}, %wv: {_SQUARE}, \
%w1: {_UP}, %w2: {_DOWN}) -> {_X} {{{{
    %q = stablehlo.dot_general %x, %wq, {_TIMES} : ({_X}, {_SQUARE}) -> {_X}
    %k = stablehlo.dot_general %x, %wk, {_TIMES} : ({_X}, {_SQUARE}) -> {_X}
    %v = stablehlo.dot_general %x, %wv, {_TIMES} : ({_X}, {_SQUARE}) -> {_X}
    %s = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] \
: ({_X}, {_X}) -> {_SCORES}
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [2] \
: ({_SCORES}, tensor<f32>) -> {_ROWS}
    %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({_ROWS}) -> {_SCORES}
    %d = stablehlo.subtract %s, %mb : {_SCORES}
    %e = stablehlo.exponential %d : {_SCORES}
    %z = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] \
: ({_SCORES}, tensor<f32>) -> {_ROWS}
    %zb = stablehlo.broadcast_in_dim %z, dims = [0, 1] : ({_ROWS}) -> {_SCORES}
    %p = stablehlo.divide %e, %zb : {_SCORES}
    %o = stablehlo.dot_general %p, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] \
: ({_SCORES}, {_X}) -> {_X}
    %r = stablehlo.add %x, %o : {_X}
    %h = stablehlo.dot_general %r, %w1, {_TIMES} : ({_X}, {_UP}) -> {_WIDE}
    %t = stablehlo.tanh %h : {_WIDE}
    %u = stablehlo.dot_general %t, %w2, {_TIMES} : ({_WIDE}, {_DOWN}) -> {_X}
    %y = stablehlo.add %r, %u : {_X}
    return %y : {_X}
  }}}}
"""
_OPS_A_BLOCK = 26

_CALL = (
    f"    %x{{next}} = call @block_{{i}}(%x{{i}}, %wq, %wk, %wv, %w1, %w2) "
    f": ({_X}, {_SQUARE}, {_SQUARE}, {_SQUARE}, {_UP}, {_DOWN}) -> {_X}\n"
)

_END = f"""\
    %first = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %loop:2 = stablehlo.while(%n = %first, %state = %x{{last}}) : tensor<i32>, {_X}
    cond {{{{
      %go = stablehlo.compare LT, %n, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }}}} do {{{{
      %more = stablehlo.add %n, %one : tensor<i32>
      %new = stablehlo.tanh %state : {_X}
      stablehlo.return %more, %new : tensor<i32>, {_X}
    }}}}
    %chosen = "stablehlo.case"(%loop#0) ({{{{
      %a = stablehlo.negate %loop#1 : {_X}
      stablehlo.return %a : {_X}
    }}}}, {{{{
      stablehlo.return %loop#1 : {_X}
    }}}}) : (tensor<i32>) -> {_X}
    return %chosen : {_X}
"""


def transformer(ops: int) -> str:
    """Functions of attention and MLP, called one after the other; then a loop and a case."""
    blocks = max(1, ops // _OPS_A_BLOCK)
    arguments = ", ".join(
        (
            _argument("x0", _X, '{"data"}, {}, {}'),
            *(_argument(name, _SQUARE, '{}, {"model"}') for name in ("wq", "wk", "wv")),
            _argument("w1", _UP, '{}, {"model"}'),
            _argument("w2", _DOWN, '{"model"}, {}'),
        )
    )
    calls = "".join(_CALL.format(i=i, next=i + 1) for i in range(blocks))
    functions = "".join(_BLOCK.format(i=i) for i in range(blocks))
    return (
        f"module @transformer {{\n  {_MESH}\n"
        f"  func.func public @main({arguments}) -> {_X} {{\n{calls}{_END.format(last=blocks)}"
        f"  }}\n{functions}}}\n"
    )
