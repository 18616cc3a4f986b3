"""`lib.glove` against faults found in other libraries, named by their case ids."""

import math

import numpy as np
import pytest
import torch

from lib.glove import (
    GloVe,
    cooccurrence,
    glove_loss,
    glove_weight,
    load_glove_6b,
    pmi,
    ppmi,
    svd_vectors,
    train_glove,
)

COUNTS = cooccurrence(torch.arange(60) % 7, 7, 3)


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        pmi,
        ppmi,
        lambda x: svd_vectors(x, 2),
        lambda x: train_glove(x, 2, epochs=1),
        lambda x: GloVe(7, 2)(x),
    ],
)
def test_p8_a_count_that_is_not_finite_is_named(call, sparse, strange):
    counts = COUNTS.clone()
    counts[4, 2] = strange
    with pytest.raises(ValueError, match=rf"finite.*{strange}") as error:
        call(counts.to_sparse() if sparse else counts)
    assert "row 4" in str(error.value)


def test_p8_the_weight_of_nan_is_refused():
    with pytest.raises(ValueError, match="nan"):
        glove_weight(torch.tensor([1.0, math.nan]))
    assert glove_weight(torch.tensor([math.inf])).item() == 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_p10_small_integers_are_not_wrapped(dtype):
    size = 200 if dtype == torch.uint8 else 120  # size² does not fit in the dtype
    ids = torch.arange(size - 1, -1, -1)
    lengths = torch.tensor([100, size - 100])
    found = cooccurrence(ids.to(dtype), size, 3, lengths=lengths.to(dtype))
    assert torch.equal(found, cooccurrence(ids, size, 3, lengths=lengths))
    many = torch.zeros(300, dtype=dtype)
    hundred = torch.full((3,), 100, dtype=dtype)  # their sum does not fit
    found = cooccurrence(many, 1, 1, lengths=hundred)
    assert found.item() == 2 * 3 * 99


def test_p10_a_negative_id_is_named():
    with pytest.raises(IndexError, match="-1"):
        cooccurrence(torch.tensor([0, -1], dtype=torch.int8), 300, 1)


def test_p10_counts_of_small_integers():
    counts = torch.tensor([[0, 200], [200, 100]])
    small = counts.to(torch.uint8)
    for call in (pmi, ppmi, glove_weight):
        assert torch.equal(call(small), call(counts))
    zeros = torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2), torch.zeros(2)
    assert torch.equal(glove_loss(*zeros, small), glove_loss(*zeros, counts))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor])
def test_p26_sizes_of_numpy(kind):
    ids = torch.arange(60) % 7
    assert torch.equal(cooccurrence(ids, kind(7), kind(3)), COUNTS)
    assert torch.equal(
        svd_vectors(COUNTS, kind(2), seed=kind(1)), svd_vectors(COUNTS, 2)
    )
    assert GloVe(kind(7), kind(2)).vectors().shape == (7, 2)
    options = {"dim": kind(2), "epochs": kind(3), "tile": kind(4), "seed": kind(5)}
    found = train_glove(COUNTS, **options)
    assert found[1] == train_glove(COUNTS, dim=2, epochs=3, tile=4, seed=5)[1]
    assert load_glove_6b(kind(3))[0] == ["the", ",", "."]


def test_p26_a_vocabulary_whose_square_wraps():
    ids = torch.tensor([19, 0, 19, 18])
    found = cooccurrence(ids, np.uint8(20), np.uint8(1))
    assert torch.equal(found, cooccurrence(ids, 20, 1))


@pytest.mark.parametrize("wrong", [True, np.True_, 2.0, "2"])
@pytest.mark.parametrize(
    "call",
    [
        lambda n: cooccurrence(torch.tensor([0]), n, 1),
        lambda n: cooccurrence(torch.tensor([0]), 1, n),
        lambda n: svd_vectors(COUNTS, n),
        lambda n: svd_vectors(COUNTS, 2, seed=n),
        lambda n: GloVe(n, 2),
        lambda n: GloVe(2, n),
        *(
            lambda n, name=name: train_glove(COUNTS, **{name: n})
            for name in ("dim", "epochs", "tile", "seed")
        ),
        load_glove_6b,
    ],
)
def test_p26_what_is_no_integer_is_refused(call, wrong):
    with pytest.raises(TypeError, match="int"):
        call(wrong)


def test_p27_the_default_dtype_has_no_say():
    large = COUNTS.repeat(40, 40)  # 280, for which the random method is taken

    def found():
        return [
            cooccurrence(torch.arange(60) % 7, 7, 3),
            pmi(COUNTS.long()),
            ppmi(COUNTS, 2),
            glove_weight(torch.tensor([1, 50, 300])),
            svd_vectors(large, 3),
        ]

    expected = found()
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            assert all(map(torch.equal, found(), expected))
        finally:
            torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("lr", [1e10, 1e30])
@pytest.mark.parametrize("epochs", [1, 3, 25])
def test_p35_absurd_rates_raise(lr, epochs):
    with pytest.raises(FloatingPointError, match=r"the loss is .* smaller lr"):
        train_glove(COUNTS, dim=4, epochs=epochs, lr=lr, tile=2)
    _, losses = train_glove(COUNTS, dim=4, epochs=epochs, tile=2)
    assert all(map(math.isfinite, losses))


@pytest.mark.parametrize("lr", [1e3, 1e6, 1e10, 1e20, 1e30, 1e38])
@pytest.mark.parametrize("epochs", [1, 2, 25])
@pytest.mark.parametrize("tile", [3, 256])
def test_p35_no_vector_is_nan_in_silence(lr, epochs, tile):
    try:
        model, losses = train_glove(COUNTS, dim=4, epochs=epochs, lr=lr, tile=tile)
    except FloatingPointError:
        return
    assert all(map(math.isfinite, losses))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("lr", [1e3, 1e6, 1e10, 1e20, 1e30, 1e38])
@pytest.mark.parametrize("epochs", [1, 2, 25])
def test_p35_one_tile_returns_no_huge_vectors(lr, epochs):
    # One step an epoch: the loss, measured before it, is sane after the first.
    with pytest.raises(
        FloatingPointError, match=r"loss is .* smaller lr than"
    ) as error:
        train_glove(COUNTS, dim=4, epochs=epochs, lr=lr)
    assert str(lr) in str(error.value)


def test_p35_a_fit_of_ones_is_no_alarm():
    # The logs are 0: parameters of 0 would be perfect, and the start is worse.
    for lr in (1e-9, 0.1, 0.5):
        model, _ = train_glove(torch.ones(9, 9), dim=3, epochs=3, lr=lr)
        assert model.w.abs().max() < 1


@pytest.mark.parametrize("seed", range(20))
def test_p35_a_start_worse_than_zeros_is_no_alarm(seed):
    # One pair in one direction: the start may miss by 1.25 more than zeros do.
    counts = torch.tensor([[5.0]])
    _, losses = train_glove(counts, dim=1, epochs=1, lr=1e-3, seed=seed)
    _, more = train_glove(counts, dim=1, epochs=200, lr=0.5, seed=seed)
    assert more[-1] < losses[0] / 100


@pytest.mark.parametrize("sparse", [False, True])
def test_counts_beyond_fp32_are_named_and_not_the_rate(sparse):
    counts = torch.tensor([[0.0, 1e300], [2.0, 1e-300]], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"finite.*got inf in row 0, column 1"):
        train_glove(counts.to_sparse() if sparse else counts, dim=2)
    counts[0, 1] = 0
    counts[1, 0] = 0
    with pytest.raises(ValueError, match="no pair"):
        train_glove(counts.to_sparse() if sparse else counts, dim=2)


@pytest.mark.parametrize("filled", [False, True])
def test_a_dense_and_a_sparse_table_are_one(filled):
    counts = COUNTS + filled
    one, losses = train_glove(counts, dim=4, epochs=3, tile=3)
    two, again = train_glove(counts.to_sparse(), dim=4, epochs=3, tile=3)
    assert losses == pytest.approx(again, rel=1e-5)
    assert torch.allclose(one.vectors(), two.vectors(), atol=1e-6)


def test_vectors_are_seen_after_each_epoch():
    kept = {}
    options = {"dim": 4, "tile": 3, "after_epoch": kept.__setitem__}
    model, _ = train_glove(COUNTS, epochs=3, **options)
    assert sorted(kept) == [1, 2, 3]
    assert torch.equal(kept[3], model.vectors())
    shorter, _ = train_glove(COUNTS, dim=4, tile=3, epochs=2)
    assert torch.equal(kept[2], shorter.vectors())
    assert not torch.equal(kept[1], kept[2])
