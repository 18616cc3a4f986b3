"""Checks by kind, of stretched rotation, masks, tables and ranks."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lib.faults.loops import NEAR, X, close, slow
from lib.faults.tables import pair


def decoded(f: Callable, trained: int) -> bool:
    """Compare the last scores of eight tokens with one pass, number by number."""
    base = 10_000 * max(8 / trained, 1) ** (8 / 6)
    turned = slow(X, NEAR, base)
    return close(f(X, X, trained), turned @ turned[-1])


DECODE = {
    "the newest key": lambda f: close(f(X, X, 4)[-1], X[-1] @ X[-1]),
    "up to the trained length": lambda f: decoded(f, 8),
    "twice the trained length": lambda f: decoded(f, 4),
}
MAGNITUDE = {
    "none given": lambda f: math.isclose(f({"factor": 64.0}), 1.4158883, abs_tol=1e-6),
    "the computed one given": lambda f: math.isclose(
        f({"factor": 8.0, "attention_factor": 1.2079442}), 1.2079442, abs_tol=1e-6
    ),
    "1 given": lambda f: f({"factor": 64.0, "attention_factor": 1.0}) == 1,
}
IMAGE = {
    "an image first": lambda f: f(0, 2, 4)[0].tolist() == [0] * 4,
    "after text, an id a second": lambda f: f(3, 2, 1)[0].tolist() == [3] * 4,
    "after text, 4 ids a second": lambda f: f(3, 2, 4)[0].tolist() == [3] * 4,
    "height and width": lambda f: (
        f(3, 2, 4)[1:].tolist() == [[3, 3, 4, 4], [3, 4, 3, 4]]
    ),
}


def seen_only(f: Callable, tokens: list[int]) -> bool:
    """Compare with a softmax, by Python's floats, over what each query sees."""
    given, scores = f(X[:5, :5], torch.tensor(tokens)).tolist(), X.tolist()
    for q in range(5):
        seen = [k for k in range(q + 1) if tokens[k]]
        total = sum(math.exp(scores[q][k]) for k in seen)
        true = [math.exp(scores[q][k]) / total if k in seen else 0 for k in range(5)]
        if not close(torch.tensor(given[q]), torch.tensor(true)):
            return False
    return True


LEFT = torch.tensor([0, 0, 1, 1, 1])
WEIGHTS = {
    "no padding": lambda f: seen_only(f, [1, 1, 1, 1, 1]),
    "padding on the right": lambda f: seen_only(f, [1, 1, 1, 0, 0]),
    "padding on the left: finite": lambda f: bool(f(X[:5, :5], LEFT).isfinite().all()),
    "padding on the left: hidden keys at 0": lambda f: seen_only(f, LEFT.tolist()),
}


def gradient(f: Callable) -> Tensor:
    """Give each place's share of a gradient, `[8]`."""
    table = f(8, 4)
    table(NEAR).sum().backward()
    return table.weight.grad.abs().sum(dim=-1)


TABLE = {
    "shape": lambda f: f(8, 4)(NEAR).shape == (8, 4),
    "places 1 to 7 learn": lambda f: bool((gradient(f)[1:] > 0).all()),
    "place 0 learns": lambda f: bool(gradient(f)[0] > 0),
}


def loaded(f: Callable, learning_rate: float) -> bool:
    """Load other weights, take a step, and compare table and head."""
    model, other = pair(8, 8), pair(8, 8)
    state = {name: value.detach().clone() for name, value in other.state_dict().items()}
    f(model, state)
    step = torch.optim.SGD(model.parameters(), lr=learning_rate)
    model["head"](X).logsumexp(dim=-1).sum().backward()
    step.step()
    at_start = close(model["table"].weight, state["table.weight"])
    return close(model["table"].weight, model["head"].weight) and (
        at_start or learning_rate > 0
    )


LOAD = {
    "the weights after loading": lambda f: loaded(f, 0.0),
    "table = head after a step": lambda f: loaded(f, 0.1),
}


def refuses(f: Callable, scores: Tensor) -> bool:
    """Ask for no perfect rank: an error, or a rank that is not 1."""
    try:
        return f(scores, 2) != 1
    except ValueError:
        return True


RANK = {
    "five scores": lambda f: [f(X[0, :5], i) for i in range(5)] == by_sorting(X[0, :5]),
    "scores of NaN": lambda f: refuses(f, torch.full((5,), torch.nan)),
}


def by_sorting(scores: Tensor) -> list[int]:
    """Give each score's rank, by sorting."""
    order = sorted(scores.tolist(), reverse=True)
    return [1 + order.index(score) for score in scores.tolist()]


TRIALS = {
    "decode": DECODE,
    "magnitude": MAGNITUDE,
    "image": IMAGE,
    "weights": WEIGHTS,
    "table": TABLE,
    "load": LOAD,
    "rank": RANK,
}
