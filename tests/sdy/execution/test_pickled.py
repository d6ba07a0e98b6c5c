"""Values that stay pickled until somebody asks for them."""

from __future__ import annotations

import pickle

from emu.sdy.execution.pickled import Pickled


class Noisy:
    """Tells when it is unpickled."""

    made = 0

    def __setstate__(self, state: dict[str, int]) -> None:
        Noisy.made += 1
        vars(self).update(state)


def test_a_value_is_unpickled_when_it_is_asked_for_and_once() -> None:
    value = Noisy()
    value.number = 3
    first = Pickled(value)
    assert first.value is value
    second = pickle.loads(pickle.dumps(first))
    third = pickle.loads(pickle.dumps(second))
    assert Noisy.made == 0
    assert third.content == first.content
    assert third.value.number == 3
    assert third.value is third.value
    assert Noisy.made == 1
