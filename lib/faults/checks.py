"""Checks by kind: each takes a function and says whether it passes."""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.faults.fault import Fault
from lib.faults.loops import FAR, NEAR, X, by_loop, close, slow
from lib.faults.trials import TRIALS


def by_distance(f: Callable, start: int) -> bool:
    """Compare the scores of two vectors two apart, at two places."""
    pairs = [f(X[[0, 1]], torch.tensor([p + 2, p])) for p in (1, start)]
    return close(*[(pair[0] * pair[1]).sum() for pair in pairs])


def one_by_one(f: Callable) -> bool:
    """Compare a text in one call with the same text token by token."""
    alone = [f(X[t : t + 1], NEAR[t : t + 1]) for t in range(8)]
    return close(f(X, NEAR), torch.cat(alone))


ROTARY = {
    "norm kept": lambda f: close(f(X, NEAR).norm(dim=-1), X.norm(dim=-1)),
    "position 0 changes nothing": lambda f: close(f(X, NEAR)[0], X[0]),
    "distance only, near": lambda f: by_distance(f, 5),
    "distance only, far": lambda f: by_distance(f, 32_765),
    "loop at 0-7, to 0.1": lambda f: close(f(X, NEAR), slow(X, NEAR), 0.1),
    "loop at 0-7, to 0.0001": lambda f: close(f(X, NEAR), slow(X, NEAR)),
    "loop at 32,761-32,768": lambda f: close(f(X, FAR), slow(X, FAR)),
    "token by token = at once": one_by_one,
}
SLOPES = torch.tensor([0.5, 0.25])


def rows(f: Callable, size: int) -> Tensor:
    """Give the bias of a whole text, what a causal mask hides set to 0."""
    return f(SLOPES, torch.arange(size), torch.arange(size)).tril()


def expected(size: int) -> Tensor:
    """Give the bias of a whole text by a loop."""
    table = [[[-m * max(q - k, 0) for k in range(size)] for q in range(size)]
             for m in SLOPES.tolist()]  # fmt: skip
    return torch.tensor(table, dtype=torch.float64)


def last_row(f: Callable) -> Tensor:
    """Give the bias of query 7 alone, `[H, 1, 8]`."""
    return f(SLOPES, torch.tensor([7]), torch.arange(8))


BIAS = {
    "diagonal 0": lambda f: close(rows(f, 8).diagonal(dim1=1, dim2=2), torch.zeros(1)),
    "loop over 8 tokens": lambda f: close(rows(f, 8), expected(8)),
    "one query = its row": lambda f: close(last_row(f), expected(8)[:, 7:]),
    "1,024 distances differ": lambda f: (
        len(f(SLOPES, torch.arange(1024), torch.arange(1024))[0, -1].unique()) == 1024
    ),
}
TWELVE = [2.0**-i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)]
SLOPE = {
    "one a head, all positive": lambda f: len(f(12)) == 12 and bool((f(12) > 0).all()),
    "8 heads": lambda f: close(f(8), torch.tensor(TWELVE[:8])),
    "12 heads": lambda f: close(f(12), torch.tensor(TWELVE)),
}


def counted(f: Callable, mask: list[int]) -> bool:
    """Compare the positions of the tokens, pads aside."""
    given = torch.tensor([mask])
    return f(given)[given == 1].tolist() == list(range(sum(mask)))


PLACES = {
    "no padding": lambda f: counted(f, [1, 1, 1]),
    "padding on the right": lambda f: counted(f, [1, 1, 1, 0, 0]),
    "padding on the left": lambda f: counted(f, [0, 0, 1, 1, 1]),
}
SECONDS = {
    "the first grid is at 0": lambda f: f(4, 0.5, 2)[0] == 0,
    "a second a grid": lambda f: f(4, 1.0, 2).tolist() == [0, 2, 4, 6],
    "half a second a grid": lambda f: f(4, 0.5, 2).tolist() == [0, 1, 2, 3],
}
V, MORE = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
LOSS = {
    "positive and finite": lambda f: 0 < f(V, V, MORE) < 100,
    "one negative": lambda f: close(f(V, V, MORE[1:]), torch.tensor(0.6265234)),
    "two negatives": lambda f: close(f(V, V, MORE), torch.tensor(1.3196707)),
}


LOGITS = {
    "the same best token": lambda f: torch.equal(
        f(X, X).argmax(1), (X @ X.T).argmax(1)
    ),
    "the numbers by a loop": lambda f: close(f(X, X), by_loop(X, X)),
}
CHECKS = {
    "rotary": ROTARY,
    "bias": BIAS,
    "slopes": SLOPE,
    "places": PLACES,
    "seconds": SECONDS,
    "loss": LOSS,
    "logits": LOGITS,
    **TRIALS,
}


def checks_that_catch(fault: Fault) -> list[str]:
    """List the checks of its kind that a fault fails, each tried on a fresh function.

    Args:
        fault: one of `FAULTS`.

    Returns:
        Names, in the order of `CHECKS`.

    Example:
        >>> from lib.faults import FAULTS
        >>> checks_that_catch(FAULTS["columns"])
        ['padding on the left']
    """
    checks = CHECKS[fault.kind]
    return [name for name, passes in checks.items() if not passes(fault.make())]
