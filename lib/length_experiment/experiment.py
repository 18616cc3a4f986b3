"""Train each encoding once a seed, and read rows of every length with it."""

from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lib.checks import check_integers, check_size
from lib.device import pick_device
from lib.length_experiment.encodings import Encoding, Maker
from lib.length_experiment.results import Result
from lib.length_experiment.rows import (
    cut_rows,
    far_rows,
    hide_digits,
    load_characters,
)
from lib.length_experiment.settings import Setting
from lib.transformer import Transformer

AT_ONCE = 16_384  # characters that a test reads in one call


def train(make: Maker, setting: Setting, seed: int, ids: Tensor) -> Transformer:
    """Train one model. With one seed all encodings start from the same weights, but
    for their own, and see the same rows in the same order.

    Args:
        make: builds the encoding from the model's configuration.
        setting: what all encodings share.
        seed: of the weights and of the order of the rows.
        ids: the text, integers `[n]`.

    Returns:
        The model, on the device that `pick_device` chooses.

    Raises:
        ValueError: a text shorter than one row.

    Example:
        >>> from dataclasses import replace
        >>> from lib.length_experiment import ENCODINGS, SETTINGS
        >>> few, text = replace(SETTINGS["cpu"], steps=1), torch.arange(99, 125)
        >>> model = train(ENCODINGS["RoPE"].make, few, seed=0, ids=text.repeat(3))
        >>> model.config.max_positions
        32
    """
    torch.manual_seed(seed)
    position = make(setting.config)
    torch.manual_seed(seed)
    model = Transformer(setting.config, position).to(pick_device())
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(setting.steps):
        rows = cut_rows(ids, setting.batch, setting.length + 1, generator)
        rows[::2], asked = hide_digits(rows[::2], generator)
        loss = _loss(model, rows.to(pick_device()), asked, setting.answer_weight)
        optimizer.param_groups[0]["lr"] = setting.rate * _share(step, setting.steps)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def _loss(model: Transformer, rows: Tensor, asked: Tensor, weight: float) -> Tensor:
    """The mean loss of all characters, and that of the hidden digits once more."""
    losses = F.cross_entropy(model(rows[:, :-1]).mT, rows[:, 1:], reduction="none")
    answers = losses[::2].gather(1, asked.to(losses.device)[:, None])  # [B / 2, 1]
    return losses.mean() + weight * answers.mean()


def _share(step: int, steps: int) -> float:
    """The share of the peak rate: up in a tenth of the steps, then down to nothing."""
    return min(1.0, (step + 1) / max(1, steps // 10)) * (1 - step / steps)


@torch.no_grad()
def loss_by_place(model: Transformer, ids: Tensor, length: int, tokens: int) -> Tensor:
    """Read the first characters of a text in rows of a length; average at each place.

    Args:
        model: a trained model.
        ids: the text, integers `[n]`.
        length: characters of a row, L.
        tokens: characters to score, a multiple of L: the same ones at every length.

    Returns:
        Mean loss in nats, float32 `[L]` on the CPU.

    Raises:
        ValueError: a length below 1, tokens that it does not divide, or a text that is
            too short.

    Example:
        >>> from lib.transformer import PRESETS
        >>> model = Transformer(PRESETS["tiny"])
        >>> loss_by_place(model, torch.arange(99, 120), length=5, tokens=20).shape
        torch.Size([5])
    """
    length, tokens = check_size("length", length), check_size("tokens", tokens)
    if tokens % length:
        raise ValueError(f"{tokens} tokens do not make whole rows of length {length}")
    if len(check_integers("ids", ids)) <= tokens:
        raise ValueError(f"needs {tokens} + 1 characters, the text has {len(ids)}")
    rows, following = (
        ids[:tokens].view(-1, length),
        ids[1 : tokens + 1].view(-1, length),
    )
    losses = [
        F.cross_entropy(model(some).mT, next_ones, reduction="none")
        for some, next_ones in _in_parts(rows, following)
    ]
    return torch.cat(losses).mean(0).cpu()


@torch.no_grad()
def recall(model: Transformer, rows: Tensor) -> float:
    """Measure how often the last character is the most probable one.

    Args:
        model: a trained model.
        rows: ids `[B, T + 1]`, as `far_rows` makes them.

    Returns:
        A share, from 0 to 1; a guess among ten digits comes to 0.1.

    Example:
        >>> from lib.transformer import PRESETS
        >>> recall(Transformer(PRESETS["tiny"]), torch.full((2, 9), 97))
        1.0
    """
    found = [
        model(questions)[:, -1].argmax(-1) == answers
        for questions, answers in _in_parts(rows[:, :-1], rows[:, -1])
    ]
    return torch.cat(found).float().mean().item()


def _in_parts(rows: Tensor, following: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut rows `[B, T]`, and what follows, into what fits one call."""
    device, some = pick_device(), max(1, AT_ONCE // rows.shape[1])
    for part, next_ones in zip(rows.split(some), following.split(some), strict=True):
        yield part.to(device), next_ones.to(device)


def _read(name: str, encoding: Encoding, model, setting: Setting, seed, ids) -> Result:
    """Test one encoding at every length."""
    loss, recalled = {}, {}
    for length in setting.lengths:
        reader = encoding.at_test(model, length) if encoding.at_test else model
        places = loss_by_place(reader, ids, length, setting.test_tokens)
        loss[length] = places.mean().item()
        generator = torch.Generator().manual_seed(length)  # the same for all
        rows = cut_rows(ids, setting.questions, length + 1, generator)
        rows = far_rows(rows, setting.length // 2, generator)
        recalled[length] = recall(reader, rows)
    return Result(name, seed, loss, recalled, places.tolist())


def compare(
    encodings: Mapping[str, Encoding], setting: Setting, seeds: Sequence[int] = (0,)
) -> list[Result]:
    """Train every encoding with every seed, and test it at every length.

    Args:
        encodings: name → encoding; those with the same `make` are trained once.
        setting: what they share.
        seeds: one model each.

    Returns:
        One result for each seed and encoding.

    Example:
        >>> from dataclasses import replace
        >>> from lib.length_experiment import SETTINGS, pick_encodings
        >>> few = replace(SETTINGS["cpu"], steps=1, test_tokens=256, questions=1)
        >>> [result] = compare(pick_encodings("none"), few)
        >>> result.encoding, list(result.loss), len(result.by_place)
        ('none', [32, 64, 128, 256], 256)
    """
    train_ids, test_ids = load_characters()
    results = []
    for seed in seeds:
        models: dict[Maker, Transformer] = {}
        for name, encoding in encodings.items():
            make = encoding.make
            if make not in models:
                models[make] = train(make, setting, seed, train_ids)
            model = models[make]
            results.append(_read(name, encoding, model, setting, seed, test_ids))
    return results
