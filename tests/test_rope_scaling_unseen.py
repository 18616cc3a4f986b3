"""`unseen_angles`: which angles of which pairs a longer text is the first to show."""

import math

import pytest
import torch

from lib.rope_scaling import (
    linear_inv_freq,
    llama3_inv_freq,
    ntk_inv_freq,
    rope_inv_freq,
    unseen_angles,
    wavelengths,
    yarn_inv_freq,
)

LLAMA_2, LLAMA_3 = rope_inv_freq(128, 1e4), rope_inv_freq(128, 5e5)


def slowly(after, before, length, trained, marks=4000):
    """The same share for one pair, by marking the circle."""
    turns = [w * n / (2 * math.pi) for w, n in ((after, length), (before, trained))]
    arc, known = (
        {mark for mark in range(marks) if (mark + 0.5) / marks < t} for t in turns
    )
    return len(arc - known) / max(1, len(arc))


@pytest.mark.parametrize("length", [100, 4096, 5000, 16_384, 131_072])
def test_it_is_the_share_of_the_arc_that_training_did_not_reach(length):
    found = unseen_angles(LLAMA_2, LLAMA_2, length, 4096)
    for pair in (0, 30, 45, 46, 47, 55, 63):
        w = LLAMA_2[pair].item()
        assert found[pair] == pytest.approx(slowly(w, w, length, 4096), abs=0.02)


def test_nothing_is_new_up_to_the_trained_length():
    assert unseen_angles(LLAMA_2, LLAMA_2, 4096, 4096).tolist() == [0.0] * 64


def test_unfinished_pairs_and_no_others_meet_new_angles_past_it():
    new = unseen_angles(LLAMA_2, LLAMA_2, 4097, 4096) > 0
    assert torch.equal(new, wavelengths(LLAMA_2) > 4096)


@pytest.mark.parametrize(
    ("after", "pairs", "most"),
    [
        (LLAMA_2, 18, 0.75),
        (linear_inv_freq(128, 1e4, 4.0)[0], 0, 0.0),
        (ntk_inv_freq(128, 1e4, 4.0)[0], 17, 0.28),
        (yarn_inv_freq(128, 1e4, 4.0, 4096)[0], 0, 0.0),
        (llama3_inv_freq(128, 1e4, 4.0, 1.0, 4.0, 4096)[0], 0, 0.0),
    ],
)
def test_four_times_the_length_of_llama_2(after, pairs, most):
    new = unseen_angles(after, LLAMA_2, 16_384, 4096)
    assert int((new > 1e-9).sum()) == pairs
    assert new.max().item() == pytest.approx(most, abs=0.005)


def test_llama_3_1_leaves_half_of_the_slow_pairs_circles_to_training():
    after = llama3_inv_freq(128, 5e5, 8.0, 1.0, 4.0, 8192)[0]
    new = unseen_angles(after, LLAMA_3, 131_072, 8192)
    assert int((new > 1e-9).sum()) == 29
    assert new.max().item() == pytest.approx(0.5)


def test_a_pair_that_stands_still_meets_nothing_new():
    still, turning = torch.tensor([0.0]), torch.tensor([1e-4])
    assert unseen_angles(still, turning, 10**6, 10).item() == 0
    assert unseen_angles(still, still, 10**6, 10).item() == 0
    assert unseen_angles(turning, still, 10, 10).item() == 1


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"length .*0"):
        unseen_angles(LLAMA_2, LLAMA_2, 0, 4096)
    with pytest.raises(ValueError, match=r"trained_length .*-1"):
        unseen_angles(LLAMA_2, LLAMA_2, 4096, -1)
    with pytest.raises(ValueError, match=r"\[64\].*\[32\]"):
        unseen_angles(LLAMA_2, rope_inv_freq(64), 4096, 4096)
    with pytest.raises(TypeError):
        unseen_angles(LLAMA_2, LLAMA_2, 4096.5, 4096)
