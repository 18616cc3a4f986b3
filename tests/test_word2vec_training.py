"""`lib.word2vec`: the three trainers, and the loss that is the same for all."""

import dataclasses
import math
import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F

from lib.corpus import Vocab
from lib.word2vec import (
    Settings,
    evaluation_examples,
    mean_loss,
    sgns_loss,
    skipgram_pairs,
    train_autograd,
    train_blocks,
    train_gensim,
)
from lib.word2vec import blocks as word2vec_blocks
from lib.word2vec.blocks import add_rows, band_masks, block_step, cut_blocks, group_size
from lib.word2vec.pairs import flatten

TOPICS, WORDS = 40, 5
SMALL = Settings(dim=16, window=3, epochs=4, sample=0, seed=3)


def topic_text(sentences=2_000, length=8, seed=0):
    """Sentences whose words all come from one of forty topics of five words."""
    generator = torch.Generator().manual_seed(seed)
    topic = torch.randint(TOPICS, (sentences, 1), generator=generator)
    word = torch.randint(WORDS, (sentences, length), generator=generator)
    return list(topic * WORDS + word)


TEXT = topic_text()
COUNTS = torch.bincount(torch.cat(TEXT), minlength=TOPICS * WORDS)
SPELLED = [[f"w{word:03}" for word in sentence.tolist()] for sentence in TEXT]
VOCAB = Vocab(word for sentence in SPELLED for word in sentence)


def topic_purity(vectors, topics):
    """How often the four nearest neighbours of a word share its topic."""
    unit = F.normalize(vectors.cpu(), dim=1)
    near = (unit @ unit.T).fill_diagonal_(-2).topk(WORDS - 1).indices
    return (topics[near] == topics[:, None]).float().mean().item()


def by_id(run):
    return topic_purity(run.input, torch.arange(TOPICS * WORDS) // WORDS)


def by_spelling(run):
    topics = torch.tensor([int(word[1:]) // WORDS for word in VOCAB.words])
    return topic_purity(run.input, topics)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small gain nothing from a second thread, and lose by waiting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


TRAINERS = {
    "blocks": (lambda config, **kw: train_blocks(TEXT, COUNTS, config, **kw), by_id),
    "autograd": (
        lambda config, **kw: train_autograd(TEXT, COUNTS, config, **kw),
        by_id,
    ),
    "gensim": (
        lambda config, **kw: train_gensim(SPELLED, VOCAB, config, **kw),
        by_spelling,
    ),
}
each_trainer = pytest.mark.parametrize("name", list(TRAINERS))


@pytest.mark.slow
@each_trainer
def test_topics_are_learned_and_losses_are_plain_floats(name):
    train, purity = TRAINERS[name]
    run = train(SMALL)
    assert [type(loss) for loss in run.losses] == [float] * SMALL.epochs
    assert len(run.seconds) == len(run.cpu_seconds) == SMALL.epochs
    assert min(run.seconds + run.cpu_seconds) > 0
    assert run.losses[-1] < run.losses[0] < 6 * 0.6931
    assert run.input.shape == run.output.shape == (TOPICS * WORDS, SMALL.dim)
    assert run.input.dtype == run.output.dtype == torch.float32
    assert purity(run) > 0.95


@pytest.mark.slow
def test_trainers_agree_on_the_loss():
    longer = dataclasses.replace(SMALL, epochs=8)
    found = {name: train(longer).losses[-1] for name, (train, _) in TRAINERS.items()}
    assert found["blocks"] == pytest.approx(found["gensim"], rel=0.03)
    assert found["autograd"] == pytest.approx(found["gensim"], rel=0.03)


@pytest.mark.parametrize("name", ["autograd", "gensim"])
def test_cbow_is_trained_and_measured_as_cbow(name):
    train, purity = TRAINERS[name]
    config = Settings(dim=16, window=3, epochs=4, sample=0, lr=0.1, architecture="cbow")
    run = train(config)
    assert run.losses[-1] < run.losses[0]
    assert purity(run) > 0.95


@pytest.mark.slow
@each_trainer
def test_the_reported_loss_is_that_of_the_returned_vectors(name):
    train, _ = TRAINERS[name]
    generator = torch.Generator().manual_seed(9)
    words = torch.randint(TOPICS * WORDS, (40, 7), generator=generator)
    examples = (words[:, 0], words[:, 1], words[:, 2:])
    run = train(SMALL, evaluation=examples)
    rows_in, rows_out = run.input.cpu(), run.output.cpu()
    expected = sgns_loss(
        rows_in[words[:, 0]], rows_out[words[:, 1]], rows_out[words[:, 2:]]
    )
    assert run.losses[-1] == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.slow
@each_trainer
def test_progress_is_reported_once_an_epoch(name):
    train, _ = TRAINERS[name]
    seen = []
    run = train(SMALL, on_epoch=lambda epoch, loss: seen.append((epoch, loss)))
    assert seen == list(enumerate(run.losses))


@pytest.mark.parametrize("train", [train_blocks, train_autograd])
def test_the_rate_falls_from_the_first_step_to_the_last(train):
    seen = []

    class Watched(Settings):
        def rate(self, progress):
            seen.append(progress)
            return super().rate(progress)

    train(TEXT[:300], COUNTS, Watched(dim=4, window=3, epochs=3, sample=0))
    assert seen[0] == 0
    assert seen == sorted(set(seen))
    assert 0.9 < seen[-1] < 1
    assert Settings(lr=0.5, min_lr=0.1).rate(0.25) == pytest.approx(0.4)


@pytest.mark.slow
@each_trainer
def test_the_same_seed_gives_the_same_vectors_and_another_does_not(name):
    train, _ = TRAINERS[name]
    first = train(SMALL)
    torch.manual_seed(99)
    state = torch.get_rng_state()
    second = train(SMALL)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.input, second.input)
    assert torch.equal(first.output, second.output)
    assert first.losses == second.losses
    other = train(dataclasses.replace(SMALL, seed=2))
    assert not torch.equal(first.input, other.input)


TWO_PROCESSES = """
import dataclasses, hashlib, sys
sys.path.insert(0, "tests")
from test_word2vec_training import *
config = dataclasses.replace(SMALL, sample=1e-2, epochs=2)
torch.set_num_threads(1)
runs = [
    train_gensim(SPELLED[:200], VOCAB, config),
    train_autograd(TEXT[:200], COUNTS, config),
    train_blocks(TEXT[:200], COUNTS, config),
]
torch.set_num_threads(2)
runs.append(train_blocks(TEXT[:300], COUNTS, config))
for run in runs:
    tables = torch.stack([run.input, run.output]).cpu().numpy().tobytes()
    print(hashlib.sha256(tables).hexdigest(), run.losses)
"""


@pytest.mark.slow
def test_two_processes_give_the_same_bits(monkeypatch):
    printed = []
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        command = [sys.executable, "-c", TWO_PROCESSES]
        printed.append(subprocess.check_output(command, text=True))
    assert printed[0] == printed[1]
    assert len(set(printed[0].splitlines())) == 4


@pytest.mark.slow
@pytest.mark.parametrize("train", [train_blocks, train_autograd])
def test_without_negatives_all_words_collapse(train):
    # Each sentence takes some of its words from topic 0, which ties all together.
    text = [torch.cat([words, words % WORDS]) for words in TEXT[:800]]
    cosine = {}
    for negatives in (0, 5):
        config = dataclasses.replace(SMALL, negatives=negatives, lr=0.05)
        unit = F.normalize(train(text, COUNTS, config).input, dim=1)
        cosine[negatives] = (unit @ unit.T).mean().item()
    assert cosine[0] > 0.9
    assert cosine[5] < 0.6


# --- the loss that all trainers report ----------------------------------------


def test_evaluation_examples_are_pairs_of_the_text():
    inputs, positives, negatives = evaluation_examples(TEXT, COUNTS, SMALL, size=500)
    assert inputs.shape == positives.shape == (500,)
    assert negatives.shape == (500, SMALL.negatives)
    assert torch.equal(inputs // WORDS, positives // WORDS)  # one topic a sentence
    assert not (negatives == positives[:, None]).any()
    again = evaluation_examples(TEXT, COUNTS, SMALL, size=500)
    assert torch.equal(again[2], negatives)


def test_evaluation_examples_of_a_long_text_come_from_all_of_it():
    long = [torch.tensor([i, i + 1]) for i in range(0, 10_000, 2)]
    config = dataclasses.replace(SMALL, sample=0)
    inputs, *_ = evaluation_examples(long, torch.ones(10_000), config, size=1_000)
    assert len(inputs) == 1_000
    assert inputs.float().mean().item() == pytest.approx(5_000, abs=400)


def test_evaluation_examples_of_a_short_text():
    inputs, *_ = evaluation_examples([torch.tensor([0, 1])], COUNTS, SMALL, size=500)
    assert sorted(inputs.tolist()) == [0, 1]


def test_mean_loss_by_hand():
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    examples = (torch.tensor([0]), torch.tensor([0]), torch.tensor([[1, 2]]))
    assert mean_loss(table, table, examples) == pytest.approx(1.3196707)


def test_mean_loss_of_a_bag_of_words():
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])
    bag = (torch.tensor([[3, 0, -1, -1]]), torch.tensor([0]), torch.tensor([[1, 2]]))
    assert mean_loss(table, table, bag) == pytest.approx(1.3196707)


def test_gensims_own_running_loss_is_not_used():
    run = train_gensim(SPELLED, VOCAB, SMALL)
    assert run.model.get_latest_training_loss() == 0
    examples = evaluation_examples(VOCAB.encode_sentences(SPELLED), VOCAB.counts, SMALL)
    assert run.losses[-1] == mean_loss(run.input, run.output, examples)


# --- blocks -------------------------------------------------------------------


def test_band_masks_by_hand():
    masks = band_masks(block=2, window=2).reshape(2, 3, 3, 6)
    # Two words stand at columns 2 and 3 of six; 1 left and 2 right of the first.
    assert masks[0, 1, 2].tolist() == [0, 1, 0, 1, 1, 0]
    assert masks[1, 2, 0].tolist() == [0, 1, 1, 0, 0, 0]
    assert masks[1, 0, 0].tolist() == [0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("lengths", [[5], [1, 9, 1, 2, 17, 3], [4] * 8, [40, 1]])
@pytest.mark.parametrize("window", [1, 3, 6])
def test_blocks_hold_each_pair_once(lengths, window):
    text = torch.arange(sum(lengths)).split(lengths)
    pairs = skipgram_pairs(text, window, torch.Generator().manual_seed(4))
    words, row = cut_blocks(*flatten(text), 4, window, torch.Generator().manual_seed(4))
    block, center, column = band_masks(4, window)[row].nonzero(as_tuple=True)
    found = torch.stack([words[block, center + window], words[block, column]], dim=1)
    assert sorted(found.tolist()) == pairs.tolist()


def slow_block_gradient(tables, words, left, right, negatives, window, k):
    """One block in float64, pair by pair: the gradient of the summed loss."""
    table_in, table_out = (table.double().requires_grad_() for table in tables)
    total = torch.zeros((), dtype=torch.float64)
    block = len(words) - 2 * window
    for place in range(window, window + block):
        v = table_in[words[place]]
        for other in range(place - left[place], place + right[place] + 1):
            if other == place:
                continue
            total = total - F.logsigmoid(v @ table_out[words[other]])
            for negative in negatives:
                if negative != words[other]:
                    score = v @ table_out[negative]
                    total = total - k / len(negatives) * F.logsigmoid(-score)
    return torch.autograd.grad(total, [table_in, table_out])


def test_a_block_step_is_the_gradient_of_its_pairs(device):
    generator = torch.Generator().manual_seed(0)
    block, window, shared, k, rate = 6, 2, 5, 3, 0.01
    tables = [0.3 * torch.randn(7, 4, generator=generator) for _ in range(2)]
    words = torch.randint(7, (2, block + 2 * window), generator=generator)
    negatives = torch.randint(7, (2, shared), generator=generator)
    left, right = torch.randint(window + 1, (2, 2, words.shape[1]), generator=generator)

    expected = [table.double() for table in tables]
    for row in range(2):
        step = slow_block_gradient(
            tables,
            words[row].tolist(),
            left[row].tolist(),
            right[row].tolist(),
            negatives[row].tolist(),
            window,
            k,
        )
        expected = [a - rate * b for a, b in zip(expected, step, strict=True)]

    inner = slice(window, window + block)
    place = torch.arange(block) * (window + 1) ** 2
    row = place + left[:, inner] * (window + 1) + right[:, inner]
    mask = band_masks(block, window)[row]
    found = [table.clone().to(device) for table in tables]
    block_step(*found, words.to(device), mask.to(device), negatives.to(device), k, rate)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, atol=1e-6, rtol=1e-5)


def test_blocks_learn_at_four_times_the_usual_rate():
    run = train_blocks(TEXT, COUNTS, dataclasses.replace(SMALL, lr=0.1))
    assert run.losses[-1] < 0.45


TEN_WORDS = [words % 10 for words in TEXT], torch.bincount(torch.cat(TEXT) % 10)


@pytest.mark.parametrize("lr", [0.025, 0.1])
@pytest.mark.parametrize("group", [16, 256])
def test_the_longest_step_keeps_any_group_finite(lr, group):
    config = dataclasses.replace(SMALL, lr=lr)
    run = train_blocks(*TEN_WORDS, config, group=group)
    assert run.input.isfinite().all()


def test_without_a_longest_step_a_large_group_overflows(monkeypatch):
    monkeypatch.setattr(word2vec_blocks, "LONGEST_STEP", math.inf)
    config = dataclasses.replace(SMALL, lr=0.1)
    with pytest.raises(FloatingPointError, match=r"after epoch .* smaller lr"):
        train_blocks(*TEN_WORDS, config, group=16)


@pytest.mark.parametrize(
    ("words", "block", "rate", "blocks"),
    [(10, 16, 0.025, 1), (200, 16, 0.025, 37), (200, 16, 0.1, 9), (9_999, 16, 0.1, 64)],
)
def test_how_many_blocks_share_an_update(words, block, rate, blocks):
    # Equally frequent words: a word meets itself blocks · block / words times.
    assert group_size(torch.full((words,), 3.0), block, rate) == blocks
    assert blocks * block / words <= 0.075 / rate or blocks == 1


def test_a_row_takes_the_sum_of_its_steps_up_to_the_longest(device):
    table = torch.zeros(4, 2, device=device)
    rows = torch.tensor([[1, 3], [1, 2]], device=device)
    steps = torch.tensor([[[3.0, 0], [0, 1]], [[2, 0], [0, -1]]], device=device)
    add_rows(table, rows, steps)
    # Row 1 would go 5 far; the others are untouched by the bound.
    assert table.tolist() == [[0, 0], [4, 0], [0, -1], [0, 1]]
    add_rows(table, rows[:, :1], -steps[:, :1] / 2)
    assert table[1].tolist() == [1.5, 0]


@pytest.mark.slow
def test_blocks_are_much_faster_than_autograd():
    seconds = {}
    for train in (train_blocks, train_autograd):
        begin = time.process_time()
        train(TEXT, COUNTS, SMALL)
        seconds[train.__name__] = time.process_time() - begin
    assert seconds["train_blocks"] < seconds["train_autograd"]


@pytest.mark.slow
def test_trainers_run_where_they_are_told(device):
    for train in (train_blocks, train_autograd):
        run = train(TEXT, COUNTS, SMALL, device=device)
        assert run.input.device.type == device.type


# --- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"dim": 0}, "dim.*0"),
        ({"window": 0}, "window.*0"),
        ({"negatives": -1}, "negatives.*-1"),
        ({"epochs": 0}, "epochs.*0"),
        ({"lr": 0.0}, "lr.*0"),
        ({"lr": 0.01, "min_lr": 0.02}, "min_lr.*0.02"),
        ({"min_lr": -1.0}, "min_lr.*-1"),
        ({"sample": -1e-3}, "sample.*-0.001"),
        ({"power": -0.5}, "power.*-0.5"),
        ({"sample": math.nan}, "sample.*nan"),
        ({"architecture": "glove"}, "glove.*skipgram.*cbow"),
    ],
)
def test_settings_out_of_range(change, fact):
    with pytest.raises(ValueError, match=fact):
        Settings(**change)


@pytest.mark.parametrize("train", [train_blocks, train_autograd])
def test_texts_that_cannot_be_trained_on(train):
    with pytest.raises(IndexError, match=r"200.*200 rows"):
        train([torch.tensor([0, 200])], COUNTS, SMALL)
    with pytest.raises(ValueError, match="no pair"):
        train([torch.tensor([0]), torch.tensor([1])], COUNTS, SMALL)
    with pytest.raises(ValueError, match="no pair"):
        train([], COUNTS, SMALL)


def test_gensim_without_a_pair():
    with pytest.raises(ValueError, match="no pair"):
        train_gensim([["w000"], ["w001"]], VOCAB, SMALL)


@pytest.mark.parametrize("name", ["block", "shared", "group"])
def test_block_sizes_below_one(name):
    with pytest.raises(ValueError, match=f"{name}.*0"):
        train_blocks(TEXT, COUNTS, SMALL, **{name: 0})


@pytest.mark.parametrize("change", [{"dim": 1.5}, {"seed": 0.5}, {"window": True}])
def test_settings_of_another_type(change):
    with pytest.raises(TypeError, match=next(iter(change))):
        Settings(**change)


def test_subsampling_that_leaves_nothing():
    with pytest.raises(ValueError, match=r"sample=1e-12"):
        train_blocks(TEXT, COUNTS, Settings(sample=1e-12))


def test_a_sentence_too_long_for_gensim():
    with pytest.raises(ValueError, match=r"12000.*10000"):
        train_gensim([["w001", "w002"] * 6_000], VOCAB, SMALL)


def test_gensim_without_negatives():
    with pytest.raises(ValueError, match="at least 1 negative"):
        train_gensim(SPELLED, VOCAB, dataclasses.replace(SMALL, negatives=0))


def test_blocks_are_for_skipgram():
    with pytest.raises(ValueError, match="cbow"):
        train_blocks(TEXT, COUNTS, Settings(architecture="cbow"))


def test_a_string_in_place_of_sentences():
    with pytest.raises(TypeError, match="list of tokens"):
        train_gensim("w000 w001", VOCAB, SMALL)


def test_gensims_old_names_are_refused():
    for old in ("size", "iter"):
        with pytest.raises(TypeError, match=old):
            train_gensim(SPELLED, VOCAB, SMALL, **{old: 5})


def test_gensims_names_of_version_4():
    config = Settings(8, 2, 3, 1, lr=0.03, min_lr=1e-3, sample=0.01, power=0.5, seed=9)
    model = train_gensim(SPELLED[:99], VOCAB, config).model
    assert (model.vector_size, model.window, model.negative) == (8, 2, 3)
    assert (model.epochs, model.alpha, model.min_alpha) == (1, 0.03, 1e-3)
    assert (model.sample, model.ns_exponent, model.seed) == (0.01, 0.5, 9)
    assert (model.sg, model.hs, model.workers) == (1, 0, 1)


def test_gensims_vectors_are_in_the_order_of_the_vocabulary():
    run = train_gensim(SPELLED[:99], VOCAB, SMALL)
    for word in ("w007", VOCAB.words[0], VOCAB.words[-1]):
        ours, theirs = run.input[VOCAB.index[word]], run.model.wv[word].copy()
        assert torch.equal(ours, torch.from_numpy(theirs))


def test_missing_gensim_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ModuleNotFoundError, match="pip install gensim"):
        train_gensim(SPELLED, VOCAB, SMALL)
