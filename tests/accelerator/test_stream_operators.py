"""What operators use, on which stream: random programs, and what no schema tells."""

from __future__ import annotations

import threading

import pytest
from campaigns import shares
from emulated_devices import check_on_devices, refused
from stream_random_programs import compare, make, racy_steps

import emu

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "share", [n if n == 0 else pytest.param(n, marks=pytest.mark.slow) for n in shares(3)]
)
def test_random_programs_are_judged_as_by_all_paths_between_their_steps(share) -> None:
    seeds = range(40 * share, 40 * share + 40)
    (wrong,) = emu.launch(compare, 1, args=(seeds, 40), preload=["torch"])
    assert not wrong


def test_random_programs_have_both_kinds_of_steps() -> None:
    import random

    programs = [make(random.Random(seed), 40) for seed in range(40)]
    racy = sum(len(racy_steps(steps)) for steps in programs)
    assert 0.2 < racy / sum(map(len, programs)) < 0.8


def operators():
    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    stream_check.start()
    stream_check.start()  # a second call does nothing
    side = torch.cuda.Stream()

    def found(call, *, prepare=lambda: torch.ones(16, device="cuda")):
        """Return the operator that is reported when a call uses what another stream has written; None if none is."""
        with torch.cuda.stream(side):
            tensor = prepare()
        stream_check.forget_reports()
        try:
            call(tensor)
        except StreamOrderError as error:
            (race,) = error.races
            return race.second.what, race.second.verb
        finally:
            torch.cuda.synchronize()
        return None

    for unseen in (
        lambda t: t.view(4, 4).t().unsqueeze(0).expand(2, 4, 4)[..., 1:],
        lambda t: (t.shape, t.stride(), t.numel(), t.device, t.is_contiguous(), t.data_ptr()),
        torch.empty_like,
        lambda t: t.new_zeros(3),
        torch.rand_like,
        lambda t: t.detach().requires_grad_(),
        lambda t: list(t.split(4)),
        lambda t: t.chunk(2)[1].squeeze(),
    ):
        assert found(unseen) is None
    for what, call in {
        "clone": torch.clone,
        "mul_": lambda t: t.mul_(2),
        "cat": lambda t: torch.cat([torch.ones(2, device="cuda"), t]),
        "_foreach_add_": lambda t: torch._foreach_add_([torch.ones(16, device="cuda"), t], 1),
        "add": lambda t: torch.add(torch.ones(16, device="cuda"), 1, out=t),
        "_to_copy": lambda t: torch.ones(16, device="cuda")[t.long()],
        "nonzero": torch.nonzero,
        "_local_scalar_dense": lambda t: bool(t[0]),
    }.items():
        assert found(call)[0] == what
    assert found(lambda t: t.mul_(2)) == ("mul_", "writes")
    assert found(lambda t: t + 1) == ("add", "reads")
    assert found(lambda t: t.cpu()) == ("copy from cuda:0 to the host", "reads")
    # Memory that is not written, and memory of other elements.
    assert found(lambda t: t + 1, prepare=lambda: torch.empty(16, device="cuda")) is None
    whole = torch.ones(32, device="cuda")
    torch.cuda.synchronize()
    assert found(lambda t: t + 1, prepare=lambda: _half(whole)) is None
    stream_check.stop()
    assert not stream_check.is_on()
    assert found(lambda t: t + 1) is None


def _half(whole):
    whole[:16].mul_(2)
    return whole[16:]


def beginnings():
    from torch.utils.flop_counter import FlopCounterMode

    from emu.accelerator import stream_check

    stream_check.stop()  # of a run with EMU_CHECK=streams
    before = threading.Thread.run, torch.cuda.Stream.wait_stream, torch.cuda.set_stream
    with FlopCounterMode(display=False):
        refused(
            stream_check.start,
            RuntimeError,
            "must begin outside of dispatch modes, but got <.*Flop",
        )
    stream_check.start()
    assert torch.cuda.Stream.wait_stream is not before[1]
    counter = FlopCounterMode(display=False)
    with counter:
        torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
        refused(stream_check.stop, RuntimeError, "must be left first")
    assert counter.get_total_flops() == 128
    stream_check.stop()
    stream_check.stop()
    assert before == (threading.Thread.run, torch.cuda.Stream.wait_stream, torch.cuda.set_stream)


def test_the_check_begins_and_ends_outside_of_other_modes() -> None:
    check_on_devices(beginnings)


def test_operators_are_seen_that_touch_elements() -> None:
    check_on_devices(operators)


def reports():
    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    stream_check.start()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x, y = torch.ones(4, 4, device="cuda"), torch.ones(4, 4, device="cuda")
    with pytest.raises(StreamOrderError) as caught:
        torch.add(x[1:], y[1:], alpha=2)
    (race,) = caught.value.races  # both were written on one line
    assert (race.first.what, race.first.verb) == ("ones", "writes")
    assert race.first.file == race.second.file == __file__
    assert race.second.lineno == race.first.lineno + 2
    assert (race.dtype, race.shape, race.low, race.high, race.nbytes) == (
        *("torch.float32", (3, 4)),
        *(16, 64, 64),
    )
    number = side.stream_id
    text = str(caught.value)
    assert f"ones writes on stream {number} of cuda:0\n    x, y = torch.ones(4, 4" in text
    assert "add reads on the default stream of cuda:0, and may run first" in text
    assert f"torch.cuda.default_stream().wait_stream(s{number})" in text
    with pytest.raises(StreamOrderError):  # another line of the program is another report
        torch.add(x[1:], y[1:])
    stream_check.stop()


def test_a_report_names_both_sides_and_what_would_have_ordered_them() -> None:
    check_on_devices(reports)
