"""Generators of random numbers for emulated devices."""

from __future__ import annotations

import copy
import io
import warnings

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def generators():
    generator = torch.Generator(device="cuda:1").manual_seed(3)
    assert generator.device == torch.device("cuda", 1)
    drawn = torch.randn(2, device="cuda", generator=generator)
    assert drawn.is_cuda
    again = torch.Generator("cuda:1").manual_seed(3)
    assert torch.equal(drawn, torch.empty(2, device="cuda").normal_(generator=again))
    assert generator.get_offset() == again.get_offset() == 4
    before = again.clone_state()
    assert torch.poisson(drawn.abs(), generator=again).is_cuda
    assert (again.get_offset(), before.get_offset()) == (8, 4)
    assert copy.deepcopy(again).get_state().tolist() == again.get_state().tolist()
    again.graphsafe_set_state(before)
    assert again.get_offset() == before.graphsafe_get_state().get_offset() == 4
    host = torch.Generator().manual_seed(3)
    assert host.device == torch.device("cpu")
    assert host.get_state().numel() > 16
    refused(lambda: drawn.uniform_(generator=host), RuntimeError, "Expected a 'cuda' device type")
    refused(lambda: torch.rand(2, generator=again), RuntimeError, "Expected a 'cpu' device type")
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert not isinstance(torch, torch.Generator)


def default_generators():
    assert len(torch.cuda.default_generators) == torch.cuda.device_count() == 2
    generator = torch.cuda.default_generators[0]
    assert isinstance(generator, torch.Generator)
    assert generator is torch.cuda.default_generators[-2]
    assert torch.cuda.default_generators[1].device == torch.device("cuda", 1)
    assert len(torch.npu.default_generators[:]) == 2
    torch.manual_seed(7)
    assert (generator.initial_seed(), generator.get_offset()) == (7, 0)
    expected = torch.randn(3, device="cuda")
    generator.manual_seed(7)
    assert torch.equal(torch.randn(3, device="cuda"), expected)
    assert not torch.equal(torch.randn(3, device="cuda"), expected)
    torch.manual_seed(7)
    assert torch.equal(torch.randn(3, device="cuda", generator=generator), expected)
    generator.set_state(torch.tensor([7, 0]).view(torch.uint8))
    assert torch.equal(torch.randn(3, device="cuda"), expected)
    generator.set_state(torch.tensor([-9, 4]).view(torch.uint8))
    assert (generator.initial_seed(), generator.get_offset()) == (2**64 - 9, 4)
    assert generator.get_state().view(torch.int64).tolist() == [-9, 4]
    wrong_size = torch.zeros(17, dtype=torch.uint8)
    refused(lambda: generator.set_state(wrong_size), RuntimeError, "state is wrong size")
    refused(lambda: generator.set_state(torch.zeros(2)), TypeError, "must be a torch.ByteTensor")
    generator.set_offset(12)
    assert generator.get_offset() == 12
    assert generator.seed() == generator.initial_seed()
    assert generator.get_offset() == 0
    for wrong in (-4, 3, "4", 4.0):
        refused(
            lambda w=wrong: generator.set_offset(w), ValueError, "offset must be a multiple of 4"
        )
    refused(lambda: torch.cuda.default_generators[2], IndexError, "out of range")


def each_device_draws_its_own():
    torch.manual_seed(1)
    host = torch.get_rng_state()
    first = torch.rand(8, device="cuda:0")
    torch.nn.functional.dropout(first)
    torch.nn.init.normal_(torch.empty(3, device="cuda:0", requires_grad=True))
    torch.nn.LSTM(2, 2, 2, dropout=0.5, device="cuda:0")(torch.ones(1, 2, device="cuda:0"))
    assert torch.equal(torch.get_rng_state(), host)
    assert torch.equal(torch.rand(8, device="cuda:1").cpu(), first.cpu())  # as seeded, not later
    assert torch.rand(8).tolist() != first.tolist()
    state = torch.cuda.get_rng_state("cuda:1")
    torch.rand(3), torch.rand(3, device="cuda:0"), torch.rand(3, device="npu:1")
    assert torch.equal(torch.cuda.get_rng_state(torch.device("cuda", 1)), state)
    assert torch.cuda.get_rng_state(1).view(torch.int64).tolist() == [1, 4]
    with torch.cuda.device(1):
        assert torch.equal(torch.cuda.get_rng_state(), state)
        torch.cuda.manual_seed(5)
        assert torch.cuda.initial_seed() == 5
    assert torch.cuda.initial_seed() == torch.initial_seed() == 1
    file = io.BytesIO()
    torch.save(torch.cuda.get_rng_state_all(), file)
    expected = [torch.rand(3, device=f"cuda:{i}") for i in range(2)]
    torch.cuda.seed_all()
    assert torch.cuda.initial_seed() not in (1, 5)
    file.seek(0)
    torch.cuda.set_rng_state_all(torch.load(file))
    for i, drawn in enumerate(expected):
        assert torch.equal(torch.rand(3, device=f"cuda:{i}"), drawn)
    torch.cuda.seed()
    assert torch.cuda.initial_seed() != torch.cuda.default_generators[1].initial_seed() == 5
    with warnings.catch_warnings(), torch.random.fork_rng(devices=range(2)):
        before = torch.cuda.get_rng_state_all()
        torch.manual_seed(11)
    assert [s.tolist() for s in torch.cuda.get_rng_state_all()] == [s.tolist() for s in before]


def every_random_operator_knows_its_device():
    from emu.accelerator.draws import NAMES

    def has_kernel(name):
        try:
            return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
        except RuntimeError:  # functions of TorchScript alone
            return False

    found = set()
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        draws = any("Generator" in str(argument.type) for argument in schema.arguments)
        if draws and schema.name.startswith("aten::") and has_kernel(name):
            found.add(name.removeprefix("aten::"))
    assert found == set(NAMES)


def operators_draw_on_their_device():
    p = torch.full((4, 4), 0.5, device="cuda")
    rrelu = torch.nn.functional.rrelu
    calls = {
        "bernoulli": lambda: torch.bernoulli(p),
        "bernoulli_out": lambda: torch.bernoulli(p, out=torch.empty_like(p)),
        "bernoulli_": lambda: p.clone().bernoulli_(p),
        "binomial": lambda: torch.binomial(10 * p, p),
        "cauchy_": lambda: p.clone().cauchy_(),
        "dropout": lambda: torch.nn.functional.alpha_dropout(p, training=True),
        "exponential_": lambda: p.clone().exponential_(),
        "gamma": lambda: torch._standard_gamma(p),
        "dirichlet": lambda: torch.distributions.Dirichlet(p).sample(),
        "geometric_": lambda: p.clone().geometric_(0.1),
        "gumbel": lambda: torch.nn.functional.gumbel_softmax(p),
        "log_normal_": lambda: p.clone().log_normal_(),
        "multinomial": lambda: torch.multinomial(p, 2),
        "normal": lambda: torch.normal(p, p),
        "pool": lambda: torch.nn.functional.fractional_max_pool2d(p[None], 2, 2),
        "poisson": lambda: torch.poisson(100 * p),
        "rand_like": lambda: torch.rand_like(p),
        "randint": lambda: torch.randint(0, 99, (4,), device="cuda"),
        "randperm": lambda: torch.randperm(9, device="cuda"),
        "rrelu": lambda: rrelu(-p, training=True),
        "vmap": lambda: torch.vmap(lambda x: x + torch.rand_like(x), randomness="different")(p),
    }
    host = torch.get_rng_state()
    for name, call in calls.items():
        torch.cuda.manual_seed(3)
        first = call()
        assert torch.cuda.default_generators[0].get_offset() > 0, name
        assert first.is_cuda, name
        torch.cuda.manual_seed(3)
        assert torch.equal(call(), first), name
    assert torch.equal(torch.get_rng_state(), host)


def checkpoints_repeat_both_generators():
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return x * torch.rand(4, device="cuda") * torch.rand(4).cuda() * torch.rand_like(x)

    for use_reentrant in (False, True):
        torch.manual_seed(2)
        x = torch.ones(4, device="cuda", requires_grad=True)
        result = checkpoint(block, x, use_reentrant=use_reentrant)
        torch.rand(3), torch.rand(3, device="cuda")
        states = [torch.get_rng_state(), torch.cuda.get_rng_state()]
        result.sum().backward()
        assert torch.allclose(x.grad, result.detach())
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.equal(torch.cuda.get_rng_state(), states[1])


def draws_have_the_distribution():
    torch.manual_seed(0)
    one_at_a_time = torch.stack([torch.rand((), device="cuda") for _ in range(4000)]).cpu()
    at_once = torch.rand(4000, device="cuda").cpu()
    for drawn in (one_at_a_time, at_once):
        places = torch.arange(1, 4001) / 4000
        assert (drawn.sort().values - places).abs().max() < 0.035  # Kolmogorov and Smirnov, 1e-4
    seeds = [torch.Generator("cuda").manual_seed(seed) for seed in range(2000)]
    firsts = torch.stack([torch.rand((), device="cuda", generator=g) for g in seeds])
    assert abs(float(firsts.mean()) - 0.5) < 0.03
    assert len(set(firsts.tolist())) > 1990


def test_a_device_has_a_default_generator() -> None:
    check_on_devices(default_generators)


def test_a_generator_has_a_device_and_repeats_by_its_seed() -> None:
    check_on_devices(generators)


def test_draws_on_a_device_change_its_own_generator_alone() -> None:
    check_on_devices(each_device_draws_its_own)


def test_all_operators_of_torch_that_draw_are_known() -> None:
    check_on_devices(every_random_operator_knows_its_device)


def test_operators_draw_from_the_generator_of_their_device() -> None:
    check_on_devices(operators_draw_on_their_device)


def test_checkpoints_draw_the_same_numbers_again() -> None:
    check_on_devices(checkpoints_repeat_both_generators)


def test_draws_are_uniform_and_independent() -> None:
    check_on_devices(draws_have_the_distribution)
