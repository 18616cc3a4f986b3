"""The third trainer: gensim's Word2Vec, measured as our own are."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lib.corpus import Vocab
from lib.word2vec.settings import WORD2VEC, Settings
from lib.word2vec.source import check_rereadable
from lib.word2vec.training import (
    EpochLog,
    Examples,
    OnEpoch,
    OnRun,
    TrainingRun,
    evaluation_examples,
)

if TYPE_CHECKING:
    from gensim.models import Word2Vec

GENSIM_SENTENCE = 10_000  # gensim reads no further into a sentence
GENSIM_NAMES = {  # of our settings
    "dim": "vector_size",
    "window": "window",
    "negatives": "negative",
    "epochs": "epochs",
    "lr": "alpha",
    "min_lr": "min_alpha",
    "sample": "sample",
    "power": "ns_exponent",
    "seed": "seed",
}


def train_gensim(
    sentences: Iterable[Sequence[str]],
    vocab: Vocab,
    settings: Settings = WORD2VEC,
    *,
    evaluation: Examples | None = None,
    on_epoch: OnEpoch | None = None,
    checkpoint: OnRun | None = None,
    **options: object,
) -> TrainingRun:
    """Train gensim's Word2Vec; return its vectors in the order of the vocabulary.

    One worker and one seed: gensim then returns the same vectors every time. A second
    worker makes it faster, and no two runs alike.

    Args:
        sentences: lists of words, in a list or anything that can be read again and
            again; words that the vocabulary lacks are dropped.
        vocab: the words and their counts.
        settings: as for the other trainers.
        evaluation, on_epoch, checkpoint: as for `train_autograd`.
        options: gensim's own arguments, such as `workers=2`, `epochs=1` or
            `callbacks=[…]`; they win, also over the settings of the same meaning.

    Returns:
        Vectors, and the loss and the seconds of each epoch; `model` is gensim's own.

    Raises:
        ModuleNotFoundError: gensim is missing; the message gives the command.
        TypeError: a string in place of a list of tokens, a generator, which gensim
            could not read again, or an option that gensim does not have, such as
            `size` and `iter` of gensim 3.
        ValueError: a text without a pair of words, a sentence of more than 10,000
            words, of which gensim would read no more, no negatives (as with `hs=1,
            negative=0`), or options that cut words from the vocabulary.

    Source: gensim 4.4.0, `Word2Vec` and `word2vec_inner.pyx`.
    """
    settings = _with_options(settings, options)
    ids = EncodedText(sentences, vocab)
    number = ids.check()
    examples = evaluation or evaluation_examples(ids, vocab.counts, settings)
    callbacks = options.pop("callbacks", ())
    model = _gensim_model(vocab, number, settings, options)
    rows = [model.wv.key_to_index[word] for word in vocab.words]
    start = torch.from_numpy(model.wv.vectors[rows])
    run = TrainingRun(start, torch.zeros_like(start), model=model)
    log = _gensim_log(EpochLog(run, examples, on_epoch, checkpoint), rows)
    options = {"epochs": settings.epochs, "compute_loss": model.compute_loss}
    callbacks = [log, *callbacks]
    model.train(sentences, total_examples=number, callbacks=callbacks, **options)
    return run


def _with_options(settings: Settings, options: dict[str, object]) -> Settings:
    """Let gensim's options win over the settings of the same meaning."""
    if "corpus_file" in options:
        raise TypeError("sentences are the first argument, corpus_file is not taken")
    names = {ours: name for ours, name in GENSIM_NAMES.items() if name in options}
    same = {ours: options[name] for ours, name in names.items()}
    if "sg" in options:
        same["architecture"] = "skipgram" if options["sg"] else "cbow"
    settings = dataclasses.replace(settings, **same)
    if settings.negatives < 1:
        raise ValueError(
            "train_gensim measures the loss of negative sampling: it needs at least 1 "
            "negative, got negative=0, with hs=1 as well as without"
        )
    return settings


class EncodedText:
    """Sentences of words as ids, encoded anew each time they are read."""

    def __init__(self, sentences: Iterable[Sequence[str]], vocab: Vocab):
        check_rereadable(sentences)
        self.sentences, self.vocab = sentences, vocab

    def __iter__(self) -> Iterator[Tensor]:
        if isinstance(self.sentences, str | bytes):
            self.vocab.encode_sentences(self.sentences)  # which refuses it
        for sentence in self.sentences:
            yield from self.vocab.encode_sentences([sentence])

    def check(self) -> int:
        """Count the sentences, and refuse what gensim would not read."""
        number = longest = 0
        for ids in self:
            number, longest = number + 1, max(longest, len(ids))
        if longest > GENSIM_SENTENCE:
            raise ValueError(
                f"a sentence has {longest} words, gensim reads {GENSIM_SENTENCE} "
                "of them"
            )
        return number


def _gensim_model(
    vocab: Vocab, sentences: int, settings: Settings, options: dict[str, object]
) -> "Word2Vec":
    try:
        from gensim.models import Word2Vec
    except ModuleNotFoundError as error:
        message = "train_gensim needs gensim: pip install gensim==4.4.0"
        raise ModuleNotFoundError(message, name="gensim") from error
    chosen = {name: getattr(settings, ours) for ours, name in GENSIM_NAMES.items()}
    chosen |= {"sg": int(settings.architecture == "skipgram")}
    model = Word2Vec(**{**chosen, "min_count": 1, "workers": 1, **options})
    counts = dict(zip(vocab.words, vocab.counts.tolist(), strict=True))
    rule = options.get("trim_rule")
    model.build_vocab_from_freq(counts, corpus_count=sentences, trim_rule=rule)
    cut = [word for word in vocab.words if word not in model.wv]
    if cut:
        raise ValueError(
            f"gensim's options cut {len(cut)} of {len(vocab)} words, such as "
            f"{cut[0]!r}; a Vocab(…, min_count=…) leaves rare words out instead of "
            "min_count, max_final_vocab or trim_rule"
        )
    return model


def _gensim_log(log: EpochLog, rows: list[int]):
    """Wrap a log as gensim's callback, which copies the vectors after each epoch."""
    from gensim.models.callbacks import CallbackAny2Vec

    class Callback(CallbackAny2Vec):
        def on_epoch_begin(self, model):
            log.begin()

        def on_epoch_end(self, model):
            log.stop()
            log.run.input = torch.from_numpy(model.wv.vectors[rows])
            log.run.output = torch.from_numpy(model.syn1neg[rows])
            log.measure()

    return Callback()
