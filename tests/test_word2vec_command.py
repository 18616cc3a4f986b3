"""`python -m lib.word2vec`: what it writes, what it says, and how it ends."""

import errno
import io
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from gensim.models import KeyedVectors

from lib.word2vec import save_vectors
from lib.word2vec import saving as word2vec_saving
from lib.word2vec.command import main, parser
from lib.word2vec.progress import Progress
from lib.word2vec.settings import Settings

SENTENCE = "the cat sat on the mat and the dog sat by the cat\n"
QUICK = ["--dim", "6", "--epochs", "2", "--min-count", "2", "--sample", "0"]


@pytest.fixture
def folder(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in "ab":
        (texts / f"{name}.txt").write_text(SENTENCE * 20)
    return texts


def run(folder, out, *options):
    return main([str(folder), "--out", str(out), *QUICK, *options])


def complaint(capsys):
    """The one line that stderr ends with."""
    printed = capsys.readouterr()
    assert printed.out == ""
    last = [x for x in printed.err.splitlines() if x.startswith("python -m lib.word2")]
    assert len(last) == 1
    assert printed.err.endswith(f"{last[0]}\n")
    return last[0]


# --- what it writes -------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
def test_gensim_opens_what_is_written(folder, tmp_path, capsys, architecture):
    out = tmp_path / "v.kv"
    assert run(folder, out, "--architecture", architecture) == 0
    found = KeyedVectors.load(str(out))
    assert found.index_to_key[0] == "the"
    assert found.vectors.shape == (8, 6)
    assert found.get_vecattr("the", "count") == 160
    assert found.most_similar("cat", topn=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts", "v.kv"]
    said = capsys.readouterr().err
    assert "reading 2 files" in said
    assert "epoch 2 of 2, loss " in said


def test_the_same_seed_writes_the_same_vectors(folder, tmp_path):
    for name in ("one.txt", "two.txt"):
        assert run(folder, tmp_path / name) == 0
    assert run(folder, tmp_path / "three.txt", "--seed", "2") == 0
    one, two, three = (tmp_path / f"{n}.txt" for n in ("one", "two", "three"))
    assert one.read_bytes() == two.read_bytes() != three.read_bytes()


@pytest.mark.parametrize("suffix", [".kv", ".txt", ".bin"])
def test_formats_come_back_through_gensim(tmp_path, suffix):
    words, path = ["naïve", "cat", "dog's"], tmp_path / f"v{suffix}"
    vectors = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    save_vectors(path, words, vectors, torch.tensor([9, 5, 1]))
    if suffix == ".kv":
        found = KeyedVectors.load(str(path))
        assert found.get_vecattr("cat", "count") == 5
    else:
        found = KeyedVectors.load_word2vec_format(path, binary=suffix == ".bin")
    assert found.index_to_key == words
    assert torch.equal(torch.from_numpy(found.vectors.copy()), vectors)


def test_a_large_table_is_one_file(tmp_path):
    vectors = torch.zeros(30_000, 100)  # 12 MB, above gensim's limit
    save_vectors(tmp_path / "v.kv", [f"w{n}" for n in range(30_000)], vectors)
    assert [path.name for path in tmp_path.iterdir()] == ["v.kv"]
    assert KeyedVectors.load(str(tmp_path / "v.kv")).vectors.shape == (30_000, 100)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "v.txt"
    save_vectors(path, ["cat"], torch.ones(1, 2))
    before = path.read_bytes()

    def broken(part, *_, **__):
        part.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(word2vec_saving, "_write", broken)
    with pytest.raises(KeyboardInterrupt):
        save_vectors(path, ["dog"], torch.ones(1, 2))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["v.txt"]


def test_words_without_their_vectors(tmp_path):
    with pytest.raises(ValueError, match=r"2 words .*\[3, 4\]"):
        save_vectors(tmp_path / "v.txt", ["a", "b"], torch.zeros(3, 4))


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (["--dim", "0"], "dim must be at least 1, got 0"),
        (["--dim", "ten"], "--dim.*'ten'"),
        (["--epochs", "-1"], "epochs.*-1"),
        (["--sample", "-0.1"], "sample.*-0.1"),
        (["--lr", "nan"], "lr.*nan"),
        (["--workers", "0"], "workers.*0"),
        (["--min-count", "0"], "min_count.*0"),
        (["--min-count", "9999"], "min_count=9999 leaves no word.*'the'"),
        (["--min-count", "150"], "too few words: 'the' is the only one"),
        (["--architecture", "glove"], "glove.*skipgram.*cbow"),
        (["--encoding", "utf-9"], "utf-9"),
        (["--bogus"], "--bogus"),
        (["--sample", "1e-12"], "sample=1e-12"),
    ],
)
def test_bad_options_end_with_status_2_and_one_line(
    folder, tmp_path, capsys, options, fact
):
    assert status(folder, tmp_path / "v.kv", *options) == 2
    assert re.search(fact, complaint(capsys))
    assert not (tmp_path / "v.kv").exists()


@pytest.mark.parametrize(
    ("out", "fact"),
    [("v.csv", r"\.kv, \.txt, \.bin"), ("none/v.kv", "no such folder.*none")],
)
def test_bad_places_are_refused_before_the_training(
    folder, tmp_path, capsys, out, fact
):
    assert run(folder, tmp_path / out) == 2
    assert re.search(fact, complaint(capsys))


def test_bad_folders_end_with_status_2_and_one_line(tmp_path, capsys):
    assert run(tmp_path / "none", tmp_path / "v.kv") == 2
    assert "no such folder" in complaint(capsys)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(empty, tmp_path / "v.kv") == 2
    assert "no file to read in" in complaint(capsys)
    (empty / "numbers.txt").write_text("1 2 3\n")
    assert run(empty, tmp_path / "v.kv") == 2
    assert "0 tokens" in complaint(capsys)


def test_files_in_another_encoding_are_named(folder, tmp_path, capsys):
    (folder / "c.txt").write_bytes("déjà vu\n".encode("latin-1"))
    assert run(folder, tmp_path / "v.kv") == 2
    assert re.search(r"1 of 3 files \(.*c\.txt\) not in utf-8", complaint(capsys))
    assert run(folder, tmp_path / "v.kv", "--encoding", "latin-1") == 0


def test_a_file_that_cannot_be_read_is_named(folder, tmp_path, capsys, monkeypatch):
    (folder / "c.txt").write_text("word")
    opened = open

    def refuse(path, *rest, **options):  # root may read whatever its mode says
        if Path(path).name == "c.txt":
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *rest, **options)

    monkeypatch.setattr("builtins.open", refuse)
    assert run(folder, tmp_path / "v.kv") == 2
    assert "c.txt (Permission denied)" in complaint(capsys)


def status(folder, out, *options):
    """The exit status, whether argparse leaves or the command returns."""
    try:
        return run(folder, out, *options)
    except SystemExit as left:
        return left.code


# --- Ctrl-C ---------------------------------------------------------------------------


def interrupt(monkeypatch, after):
    """Have Ctrl-C come in the first step after some whole epochs."""
    show = Progress.show

    def shown(self, done):
        if self.saved == after:
            raise KeyboardInterrupt
        show(self, done)

    monkeypatch.setattr(Progress, "show", shown)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_leaves_the_last_whole_epoch(
    folder, tmp_path, capsys, monkeypatch, workers
):
    options = ["--workers", workers, "--epochs", "3"]
    interrupt(monkeypatch, after=1)
    assert run(folder, tmp_path / "v.kv", *options) == 130
    assert "stopped, " in (line := complaint(capsys))
    assert line.endswith("v.kv has epoch 1")
    assert KeyedVectors.load(str(tmp_path / "v.kv")).vectors.shape == (8, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"texts", "v.kv"}


def test_ctrl_c_before_an_epoch_leaves_the_old_file(
    folder, tmp_path, capsys, monkeypatch
):
    (tmp_path / "v.kv").write_text("old")
    interrupt(monkeypatch, after=0)
    assert run(folder, tmp_path / "v.kv") == 130
    assert complaint(capsys).endswith("stopped, nothing was saved")
    assert (tmp_path / "v.kv").read_text() == "old"


@pytest.mark.slow
def test_ctrl_c_from_outside(folder, tmp_path):
    out = tmp_path / "v.txt"
    command = [sys.executable, "-m", "lib.word2vec", folder, "--out", out, *QUICK]
    # A run in the background ignores Ctrl-C, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        [*command, "--epochs", "1000000"], stderr=subprocess.PIPE, text=True
    )
    signal.signal(signal.SIGINT, before)
    while not out.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert re.search(r"stopped, .*v\.txt has epoch \d+\n$", printed)
    assert KeyedVectors.load_word2vec_format(out).vectors.shape == (8, 6)
    assert {path.name for path in tmp_path.iterdir()} == {"texts", "v.txt"}


# --- what it says ---------------------------------------------------------------------


def test_progress_on_a_terminal_and_in_a_file(monkeypatch):
    now = iter([5.0, 15.0, 15.1, 45.0])
    monkeypatch.setattr("lib.word2vec.progress.time.monotonic", lambda: next(now))
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = Progress(stream)
    progress.begin(words=1_000, epochs=2)
    progress.show(0)  # the clock starts
    progress.show(0.25)
    progress.show(0.26)  # too soon
    progress.show(0.5)
    progress.epoch(2.5, seconds=20)
    first, second, third, rest = stream.getvalue().split("\x1b[K")
    assert first == "\r25.0%, 50 words/s, 0:30 left"
    assert second == "\r50.0%, 25 words/s, 0:40 left"
    assert (third, rest) == ("\r", "epoch 1 of 2, loss 2.500, 50 words/s, 0:20 left\n")


def test_help_names_every_setting(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    printed = capsys.readouterr().out
    for name in ("--out", "--workers", "--encoding", "--min-count", "--sample"):
        assert name in printed
    defaults = parser().parse_args(["texts", "--out", "v.kv"])
    named = {name: getattr(defaults, name) for name in vars(Settings())}
    assert Settings(**named) == Settings()


def test_a_page_is_written(folder, tmp_path):
    page = tmp_path / "words.html"
    assert run(folder, tmp_path / "v.kv", "--page", str(page)) == 0
    written = page.read_text(encoding="utf-8")
    words = KeyedVectors.load(str(tmp_path / "v.kv")).index_to_key
    assert f"<title>Words of {folder.name}</title>" in written
    assert f"{len(words)} words as vectors of width" in written
