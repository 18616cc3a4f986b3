"""`lib.word2vec` on texts read in pieces: folders, stored ids, order, workers."""

import dataclasses
import math
import pathlib
import threading

import pytest
import torch

from lib.word2vec import (
    FolderText,
    Settings,
    StoredText,
    evaluation_examples,
    train_autograd,
    train_blocks,
    train_gensim,
)
from lib.word2vec import pairs as word2vec_pairs
from lib.word2vec.block_trainer import run_in_threads
from lib.word2vec.blocks import block_step, cut_blocks, shared_size
from lib.word2vec.pairs import flatten, pieces
from lib.word2vec.source import EpochSource

SMALL = Settings(dim=6, window=2, epochs=2, sample=0.01, seed=3)
LINES = ["The cat sat.", "", "A dog, a cat!", "12 — 7", "The dog's cat sat", "Oh"] * 9


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("\n".join(LINES), encoding="utf-8")
    (tmp_path / "deep" / "b.txt").write_text("Été, the cat\nsat\n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("no word of this")
    return tmp_path


@pytest.fixture
def stored(folder, tmp_path_factory):
    return StoredText(FolderText(folder), tmp_path_factory.mktemp("ids") / "ids", 2)


@pytest.fixture
def short_pieces(monkeypatch):
    monkeypatch.setattr(word2vec_pairs, "PIECE", 40)
    monkeypatch.setattr("lib.word2vec.folder.PIECE", 7)


# --- pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 5, 100])
def test_pieces_are_the_text_in_whole_sentences(monkeypatch, size):
    monkeypatch.setattr(word2vec_pairs, "PIECE", size)
    text = [[1, 2], [], [3], [4, 5, 6, 7], [8]]
    found = list(pieces(text))
    assert torch.cat([ids for ids, _ in found]).tolist() == list(range(1, 9))
    for ids, lengths in found[:-1]:
        assert len(ids) >= size
        assert lengths.sum() == len(ids) <= size + 3
    if size >= 4:
        assert torch.cat([n for _, n in found]).tolist() == [2, 0, 1, 4, 1]


def test_one_long_sentence_is_cut(monkeypatch):
    monkeypatch.setattr(word2vec_pairs, "PIECE", 4)
    for text in (torch.arange(10), list(range(10)), [torch.arange(10)]):
        assert [len(ids) for ids, _ in pieces(text)] == [4, 4, 2]


# --- a folder of files ----------------------------------------------------------------


def test_sentences_are_lines_in_the_order_of_paths(folder):
    text = FolderText(folder)
    assert [path.name for path in text.files] == ["a.txt", "b.txt"]
    first, *_, before, last = list(text)
    assert first == ["the", "cat", "sat"]
    assert (before, last) == (["été", "the", "cat"], ["sat"])
    assert list(text) == list(text)
    assert list(FolderText(folder / "deep" / "b.txt"))[1] == ["sat"]


def test_a_stored_text_holds_the_same_sentences(folder, stored, short_pieces):
    words = list(FolderText(folder))
    wanted = [[w for w in row if w in stored.vocab] for row in words]
    assert [stored.vocab.decode(ids) for ids in stored] == wanted
    assert list(stored.spelled()) == [row for row in wanted if row]
    flat = [word for row in words for word in row]
    assert "oh" in stored.vocab
    assert "été" not in stored.vocab  # it occurs once
    counts = {word: flat.count(word) for word in stored.vocab.words}
    assert stored.vocab.counts.tolist() == list(counts.values())
    assert stored.path.stat().st_size == 4 * (len(flat) + len(words))


def test_a_long_line_and_a_long_sentence_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.word2vec.folder.LONGEST_LINE", 6)
    (tmp_path / "a").write_text("to be or not")
    assert list(FolderText(tmp_path)) == [["to", "be"], ["or", "not"]]
    monkeypatch.setattr("lib.word2vec.folder.LONGEST_SENTENCE", 1)
    ids = tmp_path / ".ids"
    assert list(StoredText(FolderText(tmp_path), ids, 1).spelled())[:2] == [
        ["to"],
        ["be"],
    ]


def test_files_in_another_encoding_are_counted_and_named(folder):
    for n in range(4):
        (folder / f"l{n}.txt").write_bytes("déjà vu\n".encode("latin-1"))
    with pytest.raises(UnicodeError, match=r"4 of 6 files \(.*l0.txt.*, …\).* utf-8"):
        StoredText(FolderText(folder), folder / ".ids")
    text = FolderText(folder / "l0.txt", encoding="latin-1")
    assert list(text) == [["déjà", "vu"]]


def test_files_that_cannot_be_read_are_counted_and_named(folder, monkeypatch):
    real = FolderText.sentences

    def sentences(self, path):
        if path.name == "b.txt":
            raise PermissionError(13, "Permission denied")
        return real(self, path)

    monkeypatch.setattr(FolderText, "sentences", sentences)
    with pytest.raises(OSError, match=r"1 of 2 files \(.*b.txt \(Permission denied\)"):
        StoredText(FolderText(folder), folder / ".ids")


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_nothing_to_read(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").write_text("word")
    with pytest.raises(FileNotFoundError, match=name):
        FolderText(tmp_path / name)


def test_an_unknown_encoding(folder):
    with pytest.raises(LookupError, match="utf-9"):
        FolderText(folder, encoding="utf-9")


# --- streamed and in memory are one ---------------------------------------------------


@pytest.mark.parametrize("train", [train_blocks, train_autograd])
def test_a_stream_and_a_list_give_the_same_bits(stored, train, short_pieces):
    counts, text = stored.vocab.counts, list(stored)
    assert len(list(pieces(text))) > 2
    streamed, listed = (train(form, counts, SMALL) for form in (stored, text))
    assert torch.equal(streamed.input, listed.input)
    assert torch.equal(streamed.output, listed.output)
    assert streamed.losses == listed.losses
    examples = [evaluation_examples(form, counts, SMALL) for form in (stored, text)]
    assert all(map(torch.equal, *examples))


@pytest.mark.parametrize("train", [train_blocks, train_autograd])
def test_a_piece_that_is_thinned_out_to_nothing(monkeypatch, train):
    monkeypatch.setattr(word2vec_pairs, "PIECE", 2)
    text = [[0, 0], [1, 2], [3, 4], [0, 0], [5, 6]] * 9
    counts = torch.tensor([10**6, 2, 2, 2, 2, 2, 2])
    run = train(text, counts, dataclasses.replace(SMALL, sample=1e-7))
    assert run.output.isfinite().all()
    assert run.output[1:].any()


def test_gensim_reads_the_stream_too(stored):
    listed = [stored.vocab.decode(ids) for ids in stored]
    runs = [train_gensim(t, stored.vocab, SMALL) for t in (stored.spelled(), listed)]
    assert torch.equal(runs[0].input, runs[1].input)


def test_progress_passes_all_pieces_once(stored, short_pieces):
    seen, saved = [], []
    train_blocks(
        stored,
        stored.vocab.counts,
        SMALL,
        group=1,
        on_progress=seen.append,
        checkpoint=lambda run: saved.append((len(run.losses), run.input.clone())),
    )
    assert seen[0] == 0
    assert seen == sorted(set(seen))
    assert 0.8 < seen[-1] < 1
    assert [epochs for epochs, _ in saved] == [1, 2]
    assert not torch.equal(saved[0][1], saved[1][1])


# --- order, shares, workers -----------------------------------------------------------


def test_the_order_of_the_text():
    text = flatten([range(5), range(5, 12)])
    cut = [
        cut_blocks(*text, 4, 1, torch.Generator().manual_seed(0), shuffle=shuffle)
        for shuffle in (False, True)
    ]
    assert cut[0][0][:, 1:-1].flatten().tolist() == list(range(12))
    assert cut[0][0].tolist() != cut[1][0].tolist()
    assert sorted(cut[0][0].tolist()) == sorted(cut[1][0].tolist())
    with pytest.raises(ValueError, match=r"random.*shuffled.*text"):
        train_blocks([[0, 1]], torch.ones(2), SMALL, order="random")


@pytest.mark.parametrize(
    ("words", "shared"), [(1_000, 16), (6, 16), (5.5, 24), (2, 48), (0.25, 64)]
)
def test_how_many_negatives_a_block_shares(words, shared):
    assert shared_size(words, block=16) == shared


def test_even_draws_give_each_word_its_share():
    counts = torch.arange(1, 201)
    source = EpochSource([range(200)], counts, Settings(power=1.0), seed=0)
    expected = counts * 640 / counts.sum()
    draws = [source.shared_negatives(40, 16, even).flatten() for even in (True, False)]
    even, free = (torch.bincount(rows, minlength=200) - expected for rows in draws)
    assert even.abs().max() < 1
    assert free.abs().max() > 3
    order = draws[0].view(40, 16).float().mean(dim=1)  # shuffled over the blocks
    assert order.std() < 20


@pytest.mark.parametrize("start", [0.5, 1.0])
def test_the_start_is_as_wide_as_told(start):
    config = dataclasses.replace(SMALL, start=start, lr=1e-9, min_lr=0)
    for train in (train_blocks, train_autograd):
        run = train([range(300)] * 2, torch.ones(300), config)
        widest = run.input.abs().max().item() * SMALL.dim
        assert widest == pytest.approx(start, rel=0.01)


def test_every_step_is_made_once_by_some_worker():
    for workers in (1, 2, 3):
        made, names = [], set()

        def step(start, made=made, names=names):
            made.append(start)
            names.add(threading.current_thread().name)

        before = torch.get_num_threads()
        run_in_threads(step, range(0, 50, 5), workers)
        assert sorted(made) == list(range(0, 50, 5))
        assert torch.get_num_threads() == before
        assert (threading.main_thread().name in names) == (workers == 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_stops_all_workers(workers):
    made = []

    def step(start):
        made.append(start)
        if start == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_threads(step, range(10_000), workers)
    assert len(made) < 10_000


def test_two_workers_learn_as_one_does(stored):
    texts = list(stored) * 30
    config = dataclasses.replace(SMALL, sample=0, lr=0.1)
    losses = [
        train_blocks(texts, stored.vocab.counts, config, workers=n).losses[-1]
        for n in (1, 2)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_a_step_is_the_slow_loop_in_float64_whatever_the_table(monkeypatch):
    """Many rows share a sum of lengths: the step is the same, cut or not."""
    generator = torch.Generator().manual_seed(1)
    tables = [torch.randn(50, 4, generator=generator) for _ in range(2)]
    words = torch.randint(50, (1, 8), generator=generator)
    negatives = torch.randint(50, (1, 3), generator=generator)
    mask = torch.zeros(1, 4, 8)
    mask[0, :, 0] = mask[0, 2, 7] = 1
    expected = [table.double() for table in tables]
    for center in range(4):
        for other in mask[0, center].nonzero().flatten().tolist():
            rows = [(words[0, other], 1, 1.0)]
            rows += [(n, 0, 2 / 3) for n in negatives[0] if n != words[0, other]]
            for row, label, weight in rows:
                v, u = tables[0][words[0, 2 + center]], tables[1][row]
                slope = 0.1 * weight * (label - torch.sigmoid((v @ u).double()))
                expected[0][words[0, 2 + center]] += slope * u
                expected[1][row] += slope * v
    for sums in (2**16, 7):
        monkeypatch.setattr("lib.word2vec.blocks.MOST_SUMS", sums)
        found = [table.clone() for table in tables]
        block_step(*found, words.int(), mask, negatives.int(), k=2, rate=0.1)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a.double(), b, atol=1e-5, rtol=1e-5)


def one_pair(rate, midway):
    """Where a center and its fresh negative end, after one update of one pair."""
    tables = [torch.tensor([[0.0, 0.0], [1.0, -2.0], [0.0, 0.0]]), torch.zeros(3, 2)]
    words, mask = torch.tensor([[0, 1, 0]]), torch.tensor([[[1.0, 0.0, 0.0]]])
    block_step(*tables, words.int(), mask, torch.tensor([[2]]).int(), 1, rate, midway)
    return torch.cat([tables[0][1], tables[1][2]]).double()


def in_small_steps(rate, steps=2_000):
    """The same pair, center and negative moved by turns in many small steps."""
    v, u = torch.tensor([1.0, -2.0]).double(), torch.zeros(2).double()
    for _ in range(steps):
        u = u - rate / steps * torch.sigmoid(v @ u) * v
        v = v - rate / steps * torch.sigmoid(v @ u) * u
    return torch.cat([v, u])


@pytest.mark.parametrize(("midway", "order"), [(False, 2), (True, 3)])
def test_midway_follows_small_steps_one_order_further(midway, order):
    errors = [
        (one_pair(rate, midway) - in_small_steps(rate))[:2].norm()
        for rate in (0.02, 0.04)
    ]
    assert math.log2(errors[1] / errors[0]) == pytest.approx(order, abs=0.25)


def test_midway_is_the_slow_loop_in_float64():
    generator = torch.Generator().manual_seed(3)
    tables = [torch.randn(9, 4, generator=generator) for _ in range(2)]
    words, negatives = torch.tensor([[0, 1, 2, 0]]), [5, 6, 7]  # two centers, 1 and 2
    mask = torch.tensor([[[1.0, 0, 1, 0], [0, 1, 0, 0]]])  # three pairs
    table_in, table_out = (table.double() for table in tables)
    pairs = [(1, 0), (1, 2), (2, 1)]
    step = torch.zeros(2, 9, 4).double()
    for center, other in pairs:
        v, u = table_in[center], table_out[other]
        slope = 0.1 * (1 - torch.sigmoid(v @ u))
        step[0, center] += slope * u
        step[1, other] += slope * v
        for n in negatives:
            step[1, n] -= 0.1 * 2 / 3 * torch.sigmoid(v @ table_out[n]) * v
    for center, _ in pairs:
        for n in negatives:
            u = table_out[n] + step[1, n] / 2
            slope = 0.1 * 2 / 3 * torch.sigmoid(table_in[center] @ u)
            step[0, center] -= slope * u
    found = [table.clone() for table in tables]
    block_step(*found, words.int(), mask, torch.tensor([negatives]).int(), 2, 0.1, True)
    for a, old, change in zip(found, tables, step, strict=True):
        torch.testing.assert_close(a.double(), old + change, atol=1e-5, rtol=1e-5)


def test_few_visits_for_each_word_are_made_midway(monkeypatch):
    calls = []
    steps = lambda *_, midway: calls.append(midway)  # noqa: E731
    monkeypatch.setattr("lib.word2vec.block_trainer.block_step", steps)
    for epochs in (1, 1_000):
        config = dataclasses.replace(SMALL, epochs=epochs, sample=0)
        calls.clear()
        train_blocks([range(300)], torch.ones(300), config, group=1_000)
        assert set(calls) == {epochs == 1}


def test_a_path_may_be_text(folder):
    assert list(FolderText(str(folder)))
    assert isinstance(FolderText(str(folder)).files[0], pathlib.Path)
