"""Settings chosen by measuring or computed from arguments."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime.errors import AutotunerError, OutOfResources


def fill(y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(y_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


def blocks(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def configs(*sizes):
    return [triton.Config({"BLOCK": size}) for size in sizes]


class Bench:
    """Runs what is measured once and gives the times that the test wants."""

    def __init__(self, *times):
        self.times = list(times)
        self.runs = 0

    def __call__(self, launch, quantiles):
        launch()
        time = self.times[self.runs % len(self.times)]
        self.runs += 1
        return [time, time, time]


def tuned(settings, bench, **options):
    return triton.autotune(settings, ["n"], do_bench=bench, **options)(triton.jit(fill))


def test_the_fastest_is_chosen_and_kept_for_its_key():
    bench = Bench(3.0, 1.0, 2.0)
    kernel = tuned(configs(16, 32, 64), bench)
    y = np.zeros(100, np.float32)
    compiled = kernel[blocks](y, 100)
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    assert compiled.src.constants["BLOCK"] == 32
    assert y.tolist() == [4.0] * 100
    kernel[blocks](y, 100)
    assert bench.runs == 3
    kernel[blocks](y, 50)
    assert bench.runs == 6
    kernel[blocks](y.astype(np.float64), 50)
    assert bench.runs == 9
    assert sorted(t[0] for t in kernel.configs_timings.values()) == [1.0, 2.0, 3.0]


def test_one_configuration_is_not_measured():
    bench = Bench(1.0)
    kernel = tuned(configs(16), bench)
    kernel[blocks](np.zeros(10, np.float32), 10)
    assert bench.runs == 0


def test_memory_is_reset_before_and_restored_after_each_measurement():
    y = np.full(10, 5, np.float32)
    tuned(configs(16, 32), Bench(1.0, 2.0), restore_value=["y_ptr"])[blocks](y, 10)
    assert y.tolist() == [6.0] * 10
    tuned(configs(16, 32), Bench(1.0, 2.0), reset_to_zero=["y_ptr"])[blocks](y, 10)
    assert y.tolist() == [1.0] * 10


def test_memory_of_tensors_is_reset_and_restored():
    torch = pytest.importorskip("torch")
    y = torch.full((10,), 5.0)
    tuned(configs(16, 32), Bench(1.0, 2.0), restore_value=["y_ptr"])[blocks](y, 10)
    assert y.tolist() == [6.0] * 10
    tuned(configs(16, 32), Bench(1.0, 2.0), reset_to_zero=["y_ptr"])[blocks](y, 10)
    assert y.tolist() == [1.0] * 10


def test_hooks_see_the_arguments():
    seen = []
    settings = [
        triton.Config({"BLOCK": 16}, pre_hook=lambda a: seen.append(("config", a["BLOCK"]))),
        triton.Config({"BLOCK": 32}),
    ]
    kernel = tuned(
        settings,
        Bench(1.0, 2.0),
        pre_hook=lambda a, reset_only=False: seen.append(("pre", a["BLOCK"], reset_only)),
        post_hook=lambda a, exception=None: seen.append(("post", a["n"], exception)),
    )
    kernel[blocks](np.zeros(4, np.float32), 4)
    assert seen == [
        ("config", 16), ("pre", 16, False), ("post", 4, None),
        ("pre", 32, False), ("post", 4, None),
        ("pre", 16, True), ("config", 16),
    ]  # fmt: skip


def test_configurations_are_pruned():
    bench = Bench(1.0)
    early = tuned(
        configs(16, 32, 64),
        bench,
        prune_configs_by={"early_config_prune": lambda found, args, **_: found[2:]},
    )
    early[blocks](np.zeros(4, np.float32), 4)
    assert early.best_config.kwargs["BLOCK"] == 64
    model = tuned(
        configs(16, 32, 64),
        bench,
        prune_configs_by={"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 2},
    )
    model[blocks](np.zeros(4, np.float32), 4)
    assert {c.kwargs["BLOCK"] for c in model.configs_timings} == {32, 64}
    none = tuned(
        configs(16, 32), bench, prune_configs_by={"early_config_prune": lambda *_, **__: []}
    )
    with pytest.raises(AutotunerError, match="at least one"):
        none[blocks](np.zeros(4, np.float32), 4)


def test_a_configuration_that_does_not_fit_is_not_chosen():
    def bench(launch, quantiles):
        if kernel.fn.tried == 0:
            kernel.fn.tried += 1
            raise OutOfResources(2, 1, "memory")
        launch()
        return [1.0, 1.0, 1.0]

    kernel = tuned(configs(16, 32), bench)
    kernel.fn.tried = 0
    kernel[blocks](np.zeros(4, np.float32), 4)
    assert kernel.best_config.kwargs["BLOCK"] == 32
    assert kernel.configs_timings[kernel.configs[0]] == [float("inf")] * 3


def test_an_error_in_the_kernel_is_not_hidden():
    def bench(launch, quantiles):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        tuned(configs(16, 32), bench)[blocks](np.zeros(4, np.float32), 4)


def test_what_the_configurations_give_must_not_be_given():
    kernel = tuned(configs(16, 32), Bench(1.0))
    with pytest.raises(ValueError, match=r"arguments must not be given .* BLOCK"):
        kernel[blocks](np.zeros(4, np.float32), 4, BLOCK=16)


def test_names_are_checked_when_the_kernel_is_decorated():
    with pytest.raises(ValueError, match="restore_value must be names"):
        triton.autotune(configs(16), ["n"], restore_value=["z"])(triton.jit(fill))


def test_a_key_that_is_no_parameter_has_no_effect_and_is_told():
    with pytest.warns(
        UserWarning, match=r"names 'm', but fill has no such parameter .*n, BLOCK"
    ) as told:
        kernel = triton.autotune(configs(16), ["m", "n"])(triton.jit(fill))
    assert told[0].filename == __file__
    assert kernel.keys == ["m", "n"]
    x = np.zeros(4, np.float32)
    kernel[blocks](x, 4)
    assert x.all()


def test_settings_without_effect_are_measured_once():
    measured = []
    settings = [triton.Config({"BLOCK": b}, num_warps=w) for b in (16, 32) for w in (2, 4)]
    kernel = triton.autotune(settings, ["n"])(triton.jit(fill))
    kernel.do_bench = lambda launch, quantiles: measured.append(1) or [len(measured)] * 3
    kernel[blocks](np.zeros(4, np.float32), 4)
    assert len(measured) == 2
    assert [t[0] for t in kernel.configs_timings.values()] == [1, 1, 2, 2]


@triton.jit
def asks(y_ptr, n, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.extra.cuda.num_warps())


def test_settings_of_a_kernel_that_asks_for_its_warps_are_all_measured():
    measured = []
    settings = [
        triton.Config({"BLOCK": 16}, num_warps=w, num_stages=s) for w in (2, 8) for s in (1, 2)
    ]
    kernel = triton.autotune(settings, ["n"])(asks)
    kernel.do_bench = lambda launch, quantiles: measured.append(1) or [-len(measured)] * 3
    y = np.zeros(4, np.float32)
    kernel[blocks](y, 4)
    assert len(measured) == 2
    assert y[0] == kernel.best_config.num_warps == 8


def test_times_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    bench = Bench(2.0, 1.0)
    for runs in (2, 2):
        kernel = tuned(configs(16, 32), bench, cache_results=True)
        kernel[blocks](np.zeros(4, np.float32), 4)
        assert kernel.best_config.kwargs["BLOCK"] == 32
        assert bench.runs == runs
    (path,) = tmp_path.rglob("*.autotune")
    path.write_text("{")
    tuned(configs(16, 32), bench, cache_results=True)[blocks](np.zeros(4, np.float32), 4)
    assert bench.runs == 4


def test_all_configurations_can_be_compiled_beforehand():
    kernel = tuned(configs(16, 32), Bench(1.0))
    made = kernel.warmup(np.zeros(4, np.float32), 4, grid=(1,))
    assert [k.src.constants["BLOCK"] for k in made] == [16, 32]


def test_outdated_parameters_warn():
    with pytest.warns(DeprecationWarning, match="pass do_bench"):
        kernel = triton.autotune(configs(16, 32), ["n"], warmup=1, rep=1)(triton.jit(fill))
    kernel[blocks](np.zeros(4, np.float32), 4)
    assert len(kernel.configs_timings) == 2


def test_the_choice_is_printed_on_request(capsys):
    with triton.knobs.autotuning.scope():
        triton.knobs.autotuning.print = True
        tuned(configs(16, 32), Bench(2.0, 1.0))[blocks](np.zeros(4, np.float32), 4)
    printed = capsys.readouterr().out
    assert "Autotuning kernel fill with config BLOCK: 16" in printed
    assert "best config selected: BLOCK: 32, num_warps: 4" in printed


def test_arguments_are_computed():
    seen = []

    def block(args):
        seen.append(args["y_ptr"])
        return triton.next_power_of_2(args["n"])

    kernel = triton.heuristics({"BLOCK": block})(triton.jit(fill))
    y = np.zeros(50, np.float32)
    compiled = kernel[blocks](y, n=50)
    assert compiled.src.constants["BLOCK"] == 64
    assert y.tolist() == [1.0] * 50
    assert len(seen) == 1
    assert seen[0] is y


def test_heuristics_and_autotuning_go_together():
    inner = triton.heuristics({"BLOCK": lambda a: 16})(triton.jit(fill))
    kernel = triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], ["n"])(inner)
    y = np.zeros(20, np.float32)
    assert kernel[blocks](y, 20).metadata.num_warps in (2, 4)
    assert (y > 0).all()


def test_configurations_compare_and_print():
    one = triton.Config({"BLOCK": 16}, num_warps=8)
    assert one == triton.Config({"BLOCK": 16}, num_warps=8)
    assert one != triton.Config({"BLOCK": 16})
    assert len({one, triton.Config({"BLOCK": 16}, num_warps=8)}) == 1
    assert one.all_kwargs() == {"BLOCK": 16, "num_warps": 8, "num_ctas": 1, "num_stages": 3}
    assert str(one) == "BLOCK: 16, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: None"


@pytest.mark.parametrize(("x", "y", "quotient"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2)])
def test_division_rounds_up(x, y, quotient):
    assert triton.cdiv(x, y) == quotient


def test_what_a_configuration_gives_must_not_be_given_once_it_is_chosen():
    @triton.autotune([triton.Config({"BLOCK": 8}, num_warps=2)], key=["n"])
    @triton.jit
    def fills(x_ptr, n, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), n)

    x = np.zeros(8, np.float32)
    fills[(1,)](x, 3)
    for twice in ("BLOCK", "num_warps"):
        with pytest.raises(ValueError, match=f"must not be given .* but got {twice}"):
            fills[(1,)](x, 3, **{twice: 8})


def test_an_autotuner_takes_objects_of_other_tuners() -> None:
    """Only what launches is asked for: a ``run`` of their own, and parameters that the caller names."""

    class Other:
        fn = staticmethod(lambda x: x)

        def run(self, *args: object, **kwargs: object) -> object:
            return args, kwargs["BLOCK"]

    tuner = triton.runtime.Autotuner(
        Other(), ["x"], [triton.Config({"BLOCK": 4})], [], None, None, None, None
    )
    assert tuner.run(7, grid=(1,), warmup=False) == ((7,), 4)
    with pytest.raises(TypeError, match=r"fn must be decorated with @triton\.jit"):
        triton.autotune([triton.Config({"BLOCK": 4})], [])(Other())


@pytest.fixture
def mode(monkeypatch):
    def set_to(text):
        monkeypatch.setenv("EMU_AUTOTUNE", text)

    return set_to


def test_first_takes_the_first_configuration_and_measures_nothing(mode):
    mode("first")
    bench = Bench(3.0, 1.0)
    kernel = tuned(configs(16, 32), bench)
    y = np.zeros(100, np.float32)
    for _ in range(2):
        kernel[blocks](y, 100)
    assert y.tolist() == [2.0] * 100
    assert kernel.best_config.kwargs == {"BLOCK": 16}
    assert bench.runs == 0
    assert kernel.configs_timings == {}


def test_first_leaves_out_what_does_not_compile(mode):
    mode("first")

    @triton.autotune(configs(16, 32, 64), ["n"], do_bench=Bench(1.0))
    @triton.jit
    def kernel(y_ptr, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK >= 32)
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + offsets, 1.0, mask=offsets < n)

    y = np.zeros(100, np.float32)
    kernel[blocks](y, 100)
    assert kernel.best_config.kwargs == {"BLOCK": 32}
    assert y.tolist() == [1.0] * 100


def test_first_tells_why_no_configuration_compiles(mode):
    mode("first")

    @triton.autotune(configs(16, 32), ["n"])
    @triton.jit
    def kernel(y_ptr, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK >= 64, "blocks are too small")
        tl.store(y_ptr + tl.arange(0, BLOCK), 1.0)

    with pytest.raises(triton.CompilationError, match="blocks are too small"):
        kernel[blocks](np.zeros(100, np.float32), 100)


def test_first_prepares_the_arguments_as_measuring_does(mode):
    mode("first")
    y = np.full(10, 5, np.float32)
    tuned(configs(16, 32), Bench(1.0), reset_to_zero=["y_ptr"])[blocks](y, 10)
    assert y.tolist() == [1.0] * 10
    found = []
    settings = [
        triton.Config({"BLOCK": 16}, pre_hook=lambda a: found.append(a["BLOCK"])),
        triton.Config({"BLOCK": 32}),
    ]
    tuned(settings, Bench(1.0))[blocks](y, 10)
    assert set(found) == {
        16
    }  # before the code is compiled, which may depend on it, and before the launch


def test_cached_keeps_the_times_on_disk(mode, tmp_path, monkeypatch):
    monkeypatch.setenv("EMU_CACHE_DIR", str(tmp_path))
    mode("cached")
    first, second = Bench(2.0, 1.0), Bench(1.0, 2.0)
    for bench in (first, second):
        kernel = tuned(configs(16, 32), bench)
        kernel[blocks](np.zeros(10, np.float32), 10)
        assert kernel.best_config.kwargs == {"BLOCK": 32}
    assert (first.runs, second.runs) == (2, 0)


def test_the_mode_is_checked(mode):
    mode("quick")
    with pytest.raises(RuntimeError, match="EMU_AUTOTUNE must be one of 'full', 'cached', 'first'"):
        tuned(configs(16, 32), Bench(1.0))[blocks](np.zeros(10, np.float32), 10)
    with pytest.raises(ValueError, match=r"knobs: mode must be one of .*, but got 'quick'"):
        triton.knobs.autotuning.mode = "quick"
