"""`lib.window_lm` against a loop over words, and what training it must do."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lib.tied_head import count_parameters, is_tied
from lib.window_lm import WindowLM, evaluate, train


@pytest.mark.parametrize("tied", [True, False])
def test_equals_a_loop_over_windows(device, tied):
    torch.manual_seed(0)
    model = WindowLM(11, 6, window=3, tied=tied).to(device)
    context = torch.randint(0, 11, (5, 3)).to(device)
    for words, logits in zip(context, model(context), strict=True):
        rows = [model.table.weight[word] for word in words]
        first, _, second = model.mix
        inner = F.gelu(first.weight @ torch.cat(rows) + first.bias)
        hidden = rows[-1] + second.weight @ inner + second.bias
        hidden = hidden / hidden.square().mean().add(1e-7).sqrt()
        expected = model.head.weight @ hidden
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_tied_and_untied_start_alike_and_differ_by_a_table():
    models = []
    for tied in (True, False):
        torch.manual_seed(0)
        models.append(WindowLM(11, 6, tied=tied))
    tied, untied = models
    context = torch.randint(0, 11, (5, 4))
    assert torch.equal(tied(context), untied(context))
    assert is_tied(tied.table, tied.head)
    assert not is_tied(untied.table, untied.head)
    assert count_parameters(untied) - count_parameters(tied) == 11 * 6


def test_evaluation_is_the_mean_surprise(device):
    model = WindowLM(11, 6, window=2).to(device)
    windows = torch.randint(0, 11, (7, 3)).to(device)
    shares = model(windows[:, :2]).softmax(1)
    surprise = [-math.log(shares[i, windows[i, 2]].item()) for i in range(7)]
    assert evaluate(model, windows) == pytest.approx(sum(surprise) / 7, rel=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_training_learns_and_repeats(device, tied):
    windows = torch.arange(60).remainder(6).unfold(0, 3, 1).to(device)

    def run():
        torch.manual_seed(0)
        model = WindowLM(6, 8, window=2, tied=tied).to(device)
        return train(model, windows, windows, 90, torch.Generator(), every=30)

    losses = run()
    assert len(losses) == 3
    assert losses[-1] < losses[0] < math.log(6)
    assert losses == pytest.approx(run(), rel=1e-3)


@pytest.mark.parametrize("window", [0, -1])
def test_window_below_one(window):
    with pytest.raises(ValueError, match=f"window must be at least 1, got {window}"):
        WindowLM(5, 3, window=window)


# Cases of others' faults, by their ids ----------------------------------------

WINDOWS = torch.arange(60).remainder(6).unfold(0, 3, 1)


@pytest.mark.parametrize(("steps", "every"), [(4, 2), (5, 2), (3, 100)])
def test_p35_absurd_rates_raise(steps, every):
    torch.manual_seed(0)
    model = WindowLM(6, 8, window=2)
    options = {"every": every, "lr": 1e20}
    with pytest.raises(FloatingPointError, match=r"after step \d.* smaller lr"):
        train(model, WINDOWS, WINDOWS, steps, torch.Generator(), **options)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_p26_sizes_of_numpy(kind):
    torch.manual_seed(0)
    model = WindowLM(kind(6), kind(100), window=kind(2))
    assert model.mix[0].weight.shape == (400, 200)
    options = {"every": kind(2), "batch": kind(3)}
    losses = train(model, WINDOWS, WINDOWS, kind(4), torch.Generator(), **options)
    assert len(losses) == 2


@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, "2"])
@pytest.mark.parametrize("name", ["steps", "every", "batch", "vocab", "dim", "window"])
def test_p26_what_is_no_integer_is_refused(wrong, name):
    sizes = {"vocab": 6, "dim": 4, "window": 2}
    options = {"steps": 2, "every": 1, "batch": 2, "generator": torch.Generator()}
    model = WindowLM(**sizes)

    def call():
        if name in sizes:
            return WindowLM(**{**sizes, name: wrong})
        return train(model, WINDOWS, WINDOWS, **{**options, name: wrong})

    with pytest.raises(TypeError, match="int"):
        call()
