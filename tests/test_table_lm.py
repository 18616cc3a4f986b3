"""`lib.table_lm` against a loop in float64, and what training it must do."""

import math

import pytest
import torch
import torch.nn.functional as F

from lib.table_lm import TableLM, loss_of, random_pieces, train


def normed(x):
    return x / x.square().mean(-1, keepdim=True).add(torch.finfo(x.dtype).eps).sqrt()


def test_equals_a_loop_over_places_and_heads():
    torch.manual_seed(0)
    model = TableLM(vocab=7, rows=6, dim=8).double()
    ids, where = torch.randint(7, (5,)), torch.tensor([3, 1, 4, 1, 5])
    rows = model.letters.weight[ids] + model.places.weight[where]
    parts = model.attend
    q, k, v = (getattr(parts, n).weight @ normed(rows).T for n in ("q", "k", "v"))
    out = torch.zeros(8, 5, dtype=torch.float64)
    for head in range(4):
        own = slice(2 * head, 2 * head + 2)
        for t in range(5):
            scores = k[own, : t + 1].T @ q[own, t] / math.sqrt(2)
            weights = scores.exp() / scores.exp().sum()
            out[own, t] = v[own, : t + 1] @ weights
    x = rows + (parts.out.weight @ out).T
    expected = model.head(normed(x + model.think(normed(x))))
    found = model(ids[None], where)[0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_pieces_are_runs_of_the_text_and_reach_both_ends():
    text = torch.arange(20)
    pieces = random_pieces(text, 500, 4, torch.Generator().manual_seed(0))
    assert (pieces.diff(dim=1) == 1).all()
    assert pieces.min() == 0
    assert pieces.max() == 19
    with pytest.raises(ValueError, match="text of 4 characters has no piece of 4"):
        random_pieces(text[:4], 1, 4, torch.Generator())


def test_the_loss_is_that_of_each_next_character():
    model = TableLM(vocab=5, rows=8)
    pieces = torch.randint(5, (3, 9))
    logits = model(pieces[:, :-1], torch.arange(8))
    for row in range(3):
        for place in range(8):
            one = F.cross_entropy(logits[row, place], pieces[row, place + 1])
            found = loss_of(model, pieces, torch.arange(8))[row, place]
            torch.testing.assert_close(found, one)


def test_a_frozen_table_stays_and_a_learned_one_moves():
    text = torch.randint(5, (300,))
    for learned in (True, False):
        torch.manual_seed(0)
        model = TableLM(5, rows=8)
        model.places.requires_grad_(learned)
        before = model.places.weight.detach().clone()
        train(model, text, 3, torch.Generator().manual_seed(0), batch=4)
        assert torch.equal(before, model.places.weight) != learned


def test_rows_that_no_piece_reaches_stay():
    model = TableLM(5, rows=8)
    before = model.places.weight.detach().clone()
    train(model, torch.randint(5, (99,)), 3, torch.Generator(), length=4, batch=4)
    changed = (model.places.weight != before).any(1)
    assert changed.tolist() == [True] * 4 + [False] * 4
    with pytest.raises(IndexError, match="position 8 needs 9 rows"):
        train(model, torch.randint(5, (99,)), 1, torch.Generator(), length=9)
    for bad, error in (
        ({"steps": -1}, ValueError),
        ({"steps": 1, "lr": 0}, ValueError),
    ):
        with pytest.raises(error):
            train(model, torch.randint(5, (99,)), generator=torch.Generator(), **bad)
