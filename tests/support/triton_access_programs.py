"""Random Triton kernels whose accesses are inside or outside of random tensors: texts, and the arguments of launches."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
from triton_accesses import DTYPES, Model, Number

HEADER = "import emu.triton as triton\nimport emu.triton.language as tl\n"

GAP = 4096
"""Bytes between two storages, which hold ``CANARY``."""

CANARY = 0x5C

INDICES = 16

PARAMETERS = "t0, t1, pair, idx, table, out, a, b, s, n, m"


class Arena:
    """Storages with gaps between them, in memory of its own."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1 << 18)
        self._memory[:] = bytes((CANARY,)) * len(self._memory)
        # No array of the whole may live: pointers from memory might reach all of it then.
        self.start = ctypes.addressof(ctypes.c_uint8.from_buffer(self._memory))
        self._next = GAP
        self._spans: list[tuple[int, int]] = []
        self._held: list[Any] = []

    def take(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Return the bytes of a new storage, whose array has no base of its own that is longer."""
        at = self._next
        self._next += (nbytes + 2 * GAP - 1) // GAP * GAP
        self._spans.append((at, at + nbytes))
        if not nbytes:
            return np.zeros(0, np.uint8)
        kind = ctypes.c_uint8 * nbytes
        return np.frombuffer(kind.from_address(self.start + at), np.uint8)

    def check_gaps(self) -> None:
        """Check that nothing between the storages was written."""
        found = np.frombuffer(self._memory[:], np.uint8)
        free = np.ones(len(found), np.bool_)
        for start, end in self._spans:
            free[start:end] = False
        assert (found[free] == CANARY).all()


@dataclass
class Tensor:
    """An argument.

    Attributes:
        value: What the launch gets.
        element: Name of its type.
        start: Address of its storage.
        data: Bytes of its storage.
        pointer: Address that the kernel gets.
    """

    value: Any
    element: str
    start: int
    data: np.ndarray[Any, Any]
    pointer: int


def _filled(data: np.ndarray[Any, Any], element: str, random: Any) -> np.ndarray[Any, Any]:
    """Fill bytes with small numbers of a type, which all conversions keep."""
    dtype = DTYPES[element]
    whole = data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
    whole[...] = random.integers(0, 2 if dtype == np.bool_ else 5, len(whole)).astype(dtype)
    return whole


def _numpy_view(whole: np.ndarray[Any, Any], random: Any) -> np.ndarray[Any, Any]:
    """Return a view of a one-dimensional array."""
    count = len(whole)
    if count < 12:
        return whole
    first = int(random.integers(count // 3))
    views = (
        lambda: whole,
        lambda: whole[first:],
        lambda: whole[first : count - 2],
        lambda: whole[::-1],
        lambda: whole[first:][::-2],
        lambda: whole[: count // 4 * 4].reshape(4, -1).T,
        lambda: whole[: count // 4 * 4].reshape(4, -1)[1:, ::-1],
        lambda: np.lib.stride_tricks.as_strided(whole[first:], (3, 5), (0, 0)),
        lambda: np.lib.stride_tricks.as_strided(
            whole[first:], (3, 2), (whole.itemsize, whole.itemsize)
        ),
        lambda: whole[first:first],
    )
    return views[int(random.integers(len(views)))]()


def _torch_view(whole: Any, random: Any) -> Any:
    count = len(whole)
    if count < 12:
        return whole
    first = int(random.integers(count // 3))
    views = (
        lambda: whole,
        lambda: whole[first:],
        lambda: whole.narrow(0, first, count // 2),
        lambda: whole[: count // 4 * 4].view(4, -1).t(),
        lambda: whole[first].expand(3, 5),
        lambda: whole.as_strided((3, 2), (1, 2), first),
        lambda: whole[first:].unfold(0, 4, 2),
        lambda: whole[first:first],
    )
    return views[int(random.integers(len(views)))]()


def make_tensor(arena: Arena, element: str, random: Any) -> Tensor:
    """Return a random view of a random storage of a type."""
    torch = __import__("torch")
    dtype = DTYPES[element]
    kinds = ["numpy", "numpy", "torch", "torch", "made"]
    kind = kinds[int(random.integers(len(kinds)))]
    count = int(random.choice([0, 5, 33, 64, 100, 150], p=[0.08, 0.12, 0.2, 0.2, 0.2, 0.2]))
    of_torch = getattr(torch, _TORCH_NAMES.get(element, element), None)
    if dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2") and kind == "numpy":
        kind = "torch"
    if kind == "numpy" or of_torch is None:
        data = arena.take(count * dtype.itemsize + int(random.integers(dtype.itemsize)))
        view = _numpy_view(_filled(data, element, random), random)
        return Tensor(view, element, int(data.ctypes.data), data, int(view.ctypes.data))
    if kind == "torch" and count:
        data = arena.take(count * dtype.itemsize)
        _filled(data, element, random)
        whole = torch.from_numpy(data).view(of_torch)
    else:
        whole = torch.zeros(count, dtype=of_torch)
        whole.resize_(count + 7 if random.random() < 0.5 else max(count - 7, 0))
        nbytes = whole.untyped_storage().nbytes()
        start = whole.untyped_storage().data_ptr()
        data = np.zeros(0, np.uint8)
        if nbytes:
            data = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(start), np.uint8)
        _filled(data, element, random)
    view = _torch_view(whole, random)
    if random.random() < 0.2 and element in ("float32", "float16"):
        view = torch.nn.Parameter(view) if random.random() < 0.5 else view.detach()
    start = view.untyped_storage().data_ptr()
    return Tensor(view, element, start, data, view.data_ptr())


_TORCH_NAMES = {
    "int1": "bool",
    "float8e4nv": "float8_e4m3fn",
    "float8e5": "float8_e5m2",
    "uint16": "-",
    "uint32": "-",
}


class Program:
    """A random kernel.

    Attributes:
        text: Module with the function ``kernel``.
        grid: Extents of the launches.
        elements: Types of ``t0`` and ``t1``.
        in_place: Whether it loads from tensors to which it stores.
        unknown: Numbers of lines whose pointers come from several arguments, as far as a compiler can know.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        r = self.random
        self.elements = [str(r.choice(list(DTYPES))) for _ in range(2)]
        self.grid = (int(r.integers(1, 4)), int(r.integers(1, 3)), 1)
        self.block = int(r.choice([1, 8, 16, 32]))
        self.rows, self.columns = int(r.choice([2, 4])), int(r.choice([4, 8]))
        self.in_place = bool(r.random() < 0.3)
        self.lines: list[str] = []
        self.unknown: set[int] = set()
        self.names = 0
        self.helpers: set[str] = set()
        self._write()

    # ---- text

    def pick(self, *items: Any) -> Any:
        return items[int(self.random.integers(len(items)))]

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def put(self, line: str, depth: int) -> None:
        self.lines.append("    " * depth + line)

    def _write(self) -> None:
        self.lines = HEADER.strip().split("\n")
        for decorator, name in (
            ("@triton.jit", "inlined"),
            ("@triton.jit(noinline=True)", "called"),
        ):
            self.put(decorator, 0)
            self.put(f"def {name}(p, k):", 0)
            self.put("return tl.load(p + k).to(tl.float32)", 1)
        self.put("@triton.jit", 0)
        self.put(f"def kernel({PARAMETERS}, B: tl.constexpr, R: tl.constexpr, C: tl.constexpr):", 0)
        for line in (
            "x = tl.program_id(0)",
            "y = tl.program_id(1)",
            "lin = y * tl.num_programs(0) + x",
            "i = tl.arange(0, B)",
            "r = tl.arange(0, R)[:, None]",
            "c = tl.arange(0, C)[None, :]",
            "acc = (lin * 0).to(tl.float32)",
        ):
            self.put(line, 1)
        for _ in range(int(self.random.integers(1, 5))):
            self.statement(1)
        self.put("tl.store(out + lin, acc)", 1)
        self.text = "\n".join(self.lines) + "\n"

    def statement(self, depth: int) -> None:
        kinds = [
            *["access"] * 6,
            "scalar",
            "gather",
            "cast",
            "from table",
            "select",
            "helper",
            "scan",
        ]
        kinds += ["descriptor", "block pointer", "pair", "atomic", "atomic"]
        if depth == 1:
            kinds += [
                "loop",
                "loop",
                "while",
                "unrolled",
                "return",
                "carried",
                "branch",
                "if",
                "if",
            ]
        kind = str(self.random.choice(kinds))
        getattr(self, "_" + kind.replace(" ", "_"))(depth)

    def tensor(self, store: bool) -> tuple[str, str]:
        """Return a tensor to store to or to load from; the same ones only if the program works in place."""
        which = int(self.random.integers(2)) if self.in_place else int(store)
        return f"t{which}", self.elements[which]

    def stores(self, share: float = 0.5) -> bool:
        return bool(self.random.random() < share)

    def offsets(self, shape: str, depth: int) -> str:
        """Return the text of a tile of offsets."""
        if shape == "scalar":
            return str(self.pick("x + a", "lin", "a", "n - 1", "x * s + b", "m - 1", "lin * 2 + a"))
        if shape == "2d":
            wide = self.pick("", ".to(tl.int64)")
            stride = self.pick("s", "C", "4", "1")
            first, second = self.pick(("r", "c"), ("r", "c"), ("c", "r"))
            base = f"{first}{wide} * {stride} + {second}"
            return f"{base}{self.pick('', ' + a', ' + x * R', ' + lin', ' + b')}"
        i = self.pick("i", "i", "i + x * B", "i + lin * 2")
        return str(
            self.pick(
                *(i, i, f"{i} + a", f"({i}) * s", f"({i}).to(tl.int64) * s", f"n - 1 - ({i})"),
                *(f"(({i} + b) % m + m) % m", "tl.cumsum(i, 0)", f"({i}) // 2", f"({i}) ^ 3"),
                *(f"({i}) & 7", f"tl.where(i < b, {i}, a)", f"tl.minimum({i} + a, n - 1)"),
                *(f"tl.maximum({i} + a, 0)", "tl.max(i, 0) - i"),
            )
        )

    def mask(self, off: str, shape: str) -> str | None:
        if self.random.random() < 0.35:
            return None
        if shape == "scalar":
            return str(self.pick(f"{off} < n", "x < 1", f"({off} >= 0) & ({off} < n)"))
        lanes = {"1d": "i", "2d": "(r * C + c)"}[shape]
        return str(
            self.pick(
                *(f"{off} < n", f"({off} >= 0) & ({off} < n)", f"({off} < m) & ({lanes} > a)"),
                *(f"({off} < n) & (x < 2)", f"{lanes} == b", f"({off} < n) | ({lanes} < b)"),
                f"{lanes} % 3 != 0",
            )
        )

    def address(self, shape: str, depth: int, store: bool) -> tuple[str, str | None]:
        """Put lines that compute addresses; return pointer and mask."""
        base, _ = self.tensor(store)
        off = self.name()
        self.put(f"{off} = {self.offsets(shape, depth)}", depth)
        pointer = f"{base} + {off}"
        if self.random.random() < 0.2:
            pointer = f"{base} + a + {off}"
        return pointer, self.mask(off, shape)

    def touch(self, pointer: str, mask: str | None, shape: str, depth: int, store: bool) -> None:
        """Put a load or a store."""
        if store:
            value = self.pick("2.0", "(lin & 1).to(tl.float32)")
            given = "" if mask is None else f", mask={mask}"
            self.put(f"tl.store({pointer}, {value}{given})", depth)
            return
        given = "" if mask is None else f", mask={mask}" + self.pick("", ", other=0.0")
        name = self.name()
        self.put(f"{name} = tl.load({pointer}{given}).to(tl.float32)", depth)
        self.put(f"acc += {name if shape == 'scalar' else f'tl.sum({name})'}", depth)

    # ---- statements

    def _access(self, depth: int) -> None:
        shape = self.pick("1d", "1d", "2d", "2d")
        store = self.stores()
        pointer, mask = self.address(shape, depth, store)
        self.touch(pointer, mask, shape, depth, store)

    def _scalar(self, depth: int) -> None:
        store = self.stores()
        pointer, mask = self.address("scalar", depth, store)
        self.touch(pointer, mask, "scalar", depth, store)

    def _gather(self, depth: int) -> None:
        store = self.stores()
        base, _ = self.tensor(store)
        name, mask = self.name(), self.pick(None, f"i < {INDICES}", "i < n")
        given = "" if mask is None else f", mask={mask}, other=0"
        self.put(f"{name} = tl.load(idx + i{given})", depth)
        more = self.pick("", " + a", " * s")
        inner = self.pick(None, f"({name} >= 0) & ({name} < n)")
        self.touch(f"{base} + {name}{more}", inner, "1d", depth, store)

    def _cast(self, depth: int) -> None:
        store = self.stores()
        base, element = self.tensor(store)
        name, other = self.name(), self.name()
        bytes_ = DTYPES[element].itemsize
        self.put(
            f"{name} = {base}.to(tl.int64) + {self.pick('0', 'a', 'x', 'lin')} * {bytes_}", depth
        )
        self.put(f"{other} = {name}.to(tl.pointer_type(tl.{element})) + i", depth)
        mask = self.pick(None, "i < n", "i < b")
        self.touch(other, mask, "1d", depth, store)

    def _from_table(self, depth: int) -> None:
        name = self.name()
        at = self.pick("x", "lin", "x + 1")
        self.put(f"{name} = tl.load(table + {at}).to(tl.pointer_type(tl.float32)) + i", depth)
        mask = self.pick(None, "i < 4", "i < n")
        self.touch(name, mask, "1d", depth, self.in_place and self.stores())

    def _select(self, depth: int) -> None:
        if self.elements[0] != self.elements[1]:
            self._access(depth)
            return
        name = self.name()
        condition = self.pick("i < a", "i % 2 == 0", "i < b")
        self.put(
            f"{name} = tl.where({condition}, t0 + i, t1 + ({self.offsets('1d', depth)}))", depth
        )
        self.touch(name, self.pick(None, "i < n"), "1d", depth, self.in_place and self.stores())

    def _branch(self, depth: int) -> None:
        if self.elements[0] != self.elements[1]:
            self._if(depth)
            return
        name = self.name()
        self.put(f"{name} = t0 + i", depth)
        self.put("if x == 1:", depth)
        self.put(f"{name} = t1 + ({self.offsets('1d', depth)})", depth + 1)
        before = len(self.lines)
        self.touch(name, self.pick(None, "i < n"), "1d", depth, self.in_place and self.stores())
        self.unknown.update(range(before + 1, len(self.lines) + 1))

    def _helper(self, depth: int) -> None:
        base, _ = self.tensor(False)
        self.put(
            f"acc += {self.pick('inlined', 'called')}({base}, {self.offsets('scalar', depth)})",
            depth,
        )

    def _scan(self, depth: int) -> None:
        store = self.stores()
        base, _ = self.tensor(store)
        name = self.name()
        self.put(f"{name} = tl.cumsum(tl.load(idx + i % {INDICES}), 0)", depth)
        self.touch(f"{base} + {name}", f"({name} >= 0) & ({name} < n)", "1d", depth, store)

    def _descriptor(self, depth: int) -> None:
        store = self.stores()
        base, element = self.tensor(store)
        if element == "int1":  # descriptors of it are refused
            self._access(depth)
            return
        size = DTYPES[element].itemsize
        columns = max(16 // size, self.columns)
        name = self.name()
        self.put(
            f"{name} = tl.make_tensor_descriptor({base}, shape=[{self.pick('m', 'n', '4')}, {columns}], "
            f"strides=[{columns}, 1], block_shape=[R, {columns}])",
            depth,
        )
        at = f"[{self.pick('a', 'x', '0', 'x * R')}, {self.pick('0', 'b', '0')}]"
        if not store:
            self.put(f"acc += tl.sum({name}.load({at}).to(tl.float32))", depth)
            return
        lane = f"(r + tl.arange(0, {columns})[None, :]) & 1"
        self.put(f"{name}.store({at}, ({lane}).to(tl.float32).to(tl.{element}))", depth)

    def _block_pointer(self, depth: int) -> None:
        base, _ = self.tensor(False)
        name = self.name()
        self.put(
            f"{name} = tl.make_block_ptr({base}, ({self.pick('m', 'n')}, {self.pick('n', 'C')}), "
            f"({self.pick('s', 'C', '1')}, {self.pick('1', 's')}), ({self.pick('a', 'x')}, "
            f"{self.pick('0', 'b')}), (R, C), (1, 0))",
            depth,
        )
        checked = self.pick("", ", boundary_check=(0,)", ", boundary_check=(0, 1)")
        self.put(f"acc += tl.sum(tl.load({name}{checked}).to(tl.float32))", depth)

    def _pair(self, depth: int) -> None:
        store = self.stores()
        which = int(self.tensor(store)[0][1])
        off = self.name()
        self.put(f"{off} = {self.offsets('1d', depth)}", depth)
        self.touch(f"pair[{which}] + {off}", self.mask(off, "1d"), "1d", depth, store)

    def _atomic(self, depth: int) -> None:
        known = [
            f"t{n}"
            for n, e in enumerate(self.elements)
            if e in ("int32", "int64", "float32") and (n == 1 or self.in_place)
        ]
        if not known:
            self._access(depth)
            return
        base = self.pick(*known)
        whole = not self.elements[int(base[1])].startswith("float")
        off, name = self.name(), self.name()
        shape = self.pick("1d", "1d", "scalar")
        self.put(f"{off} = {self.offsets(shape, depth)}", depth)
        mask = self.mask(off, shape)
        given = "" if mask is None else f", mask={mask}"
        kind = self.pick("add", "add", "max", "cas") if whole else "add"
        if kind == "cas":
            if shape == "1d":
                self.put(f"{off} = a", depth)
            self.put(f"{name} = tl.atomic_cas({base} + {off}, 1, 2)", depth)
            self.put(f"acc += {name}.to(tl.float32)", depth)
            return
        value = "1" if whole else "1.0"
        self.put(f"tl.atomic_{kind}({base} + {off}, {value}{given})", depth)

    def _loop(self, depth: int) -> None:
        self.put(f"for j in range({self.pick('0', 'a', '0')}, {self.pick('3', 'b', '2')}):", depth)
        store = self.stores()
        base, _ = self.tensor(store)
        off = self.name()
        self.put(
            f"{off} = ({self.offsets('1d', depth)}) + j * {self.pick('B', 's', '1')}", depth + 1
        )
        self.touch(f"{base} + {off}", self.mask(off, "1d"), "1d", depth + 1, store)
        if self.random.random() < 0.4:
            self.statement(depth + 1)

    def _carried(self, depth: int) -> None:
        store = self.stores()
        base, _ = self.tensor(store)
        name = self.name()
        self.put(f"{name} = {base} + ({self.offsets('1d', depth)})", depth)
        self.put(f"for j in range({self.pick('3', 'b', '2')}):", depth)
        self.touch(name, self.pick(None, "i < n - j", "i + j < m"), "1d", depth + 1, store)
        self.put(f"{name} += {self.pick('B', 's', '1', 'a')}", depth + 1)

    def _while(self, depth: int) -> None:
        name = self.name()
        self.put(f"{name} = x", depth)
        self.put(f"while {name} < 3:", depth)
        store = self.stores()
        base, _ = self.tensor(store)
        self.touch(
            f"{base} + i + {name} * {self.pick('B', 's')}",
            self.pick(None, "i < n"),
            "1d",
            depth + 1,
            store,
        )
        self.put(f"{name} += 1", depth + 1)

    def _unrolled(self, depth: int) -> None:
        self.put("for j in tl.static_range(2):", depth)
        store = self.stores()
        base, _ = self.tensor(store)
        self.touch(f"{base} + i + j * s", self.pick(None, "i < n"), "1d", depth + 1, True)

    def _if(self, depth: int) -> None:
        self.put(f"if {self.pick('x == 0', 'lin > 0', 'a < x', 'y == x')}:", depth)
        self.statement(depth + 1)
        if self.random.random() < 0.4:
            self.put("else:", depth)
            self.statement(depth + 1)

    def _return(self, depth: int) -> None:
        self.put(f"if {self.pick('lin == 3', 'x > 1', 'x + y == 2')}:", depth)
        self.put("return", depth + 1)


@dataclass
class Launch:
    """Arguments of one launch, and the same on a model of its memory.

    Attributes:
        arena: What the tensors lie in.
        values: Arguments of the kernel by name.
        tensors: Tensors by the name that reports use.
        model: Model of all memory.
        modelled: Arguments of the kernel's text.
    """

    arena: Arena
    values: dict[str, Any]
    tensors: dict[str, Tensor]
    model: Model
    modelled: dict[str, Any]


def make_launch(program: Program, random: Any) -> Launch:
    """Return random arguments of a program."""
    arena = Arena()
    t0, t1, p0, p1 = (make_tensor(arena, program.elements[n % 2], random) for n in range(4))
    indices = _array(arena, random.integers(-1, 40, INDICES + 16).astype(np.int32))
    out = _array(arena, np.zeros(16, np.float32))
    targets = [_array(arena, np.ones(20, np.float32)) for _ in range(3)]
    first = [t.pointer + 4 * int(random.choice([0, 0, 2, -1, 18])) for t in targets]
    addresses = [int(random.choice(first)) for _ in range(16)]
    table = _array(arena, np.array(addresses, np.int64))
    numbers = {
        "a": int(random.choice([0, 0, 1, 2, -1, 3])),
        "b": int(random.choice([0, 1, 2, 3, 5])),
        "s": int(random.choice([1, 2, 4, 8, -1, -2, 3])),
        "n": int(random.choice([0, 4, 5, 8, 16, 32, 33, 60, 100, 200])),
        "m": int(random.choice([1, 4, 5, 16, 33])),
    }
    constants = {"B": program.block, "R": program.rows, "C": program.columns}
    tensors = {
        "t0": t0,
        "t1": t1,
        "pair[0]": p0,
        "pair[1]": p1,
        "idx": indices,
        "table": table,
        "out": out,
    }
    known = [*tensors.values(), *targets]
    model = Model(
        [t.start for t in known],
        [t.data.copy() for t in known],
        {name: (t.start, t.start + len(t.data)) for name, t in tensors.items()},
    )
    values = {name: t.value for name, t in tensors.items() if "[" not in name}
    values |= {"pair": (p0.value, p1.value), **numbers, **constants}
    modelled: dict[str, Any] = {
        name: Number(np.int64(t.pointer), t.element, name) for name, t in tensors.items()
    }
    modelled["pair"] = modelled.pop("pair[0]"), modelled.pop("pair[1]")
    modelled |= {name: Number(np.int32(v)) for name, v in numbers.items()}
    launch = Launch(arena, values, tensors, model, modelled | constants)
    launch.arena._held.append(targets)  # what the table points to
    launch.real = known  # type: ignore[attr-defined]
    return launch


def _array(arena: Arena, contents: np.ndarray[Any, Any]) -> Tensor:
    data = arena.take(contents.nbytes)
    whole = data.view(contents.dtype)
    whole[:] = contents
    name = {"bool": "int1"}.get(contents.dtype.name, contents.dtype.name)
    return Tensor(whole, name, int(data.ctypes.data), data, int(data.ctypes.data))
