"""Push a word's vector in one layer, and see which words the model then expects."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lib.byte_pairs import text_bytes
from lib.checks import check_finite, check_floating, check_ids, check_size
from lib.contextual.reading import pad_right
from lib.transformer import Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@torch.no_grad()
def log_odds(
    model: Transformer,
    tokenizer: "Tokenizer",
    texts: Sequence[str],
    cue: str,
    sides: tuple[Sequence[str], Sequence[str]],
    layer: int = 1,
    push: Tensor | None = None,
) -> Tensor:
    """Ask how much more the model expects one list of words than another.

    The cue is read after each text. What it is asked for is the next token.

    Args:
        model: as `load_smollm2` gives it.
        tokenizer: the model's.
        texts: N texts; the last token of each is the one to push.
        cue: what follows all of them, such as " and the".
        sides: two lists of words, each of them one token that begins with a space.
        layer: from 1 to the number of layers, the layer behind which is pushed.
        push: `[N, d]`, what is added to the last token of each text; None adds nothing.

    Returns:
        fp32 `[N]` on the CPU, in nats, the mean log-probability of the first list minus
        that of the second.

    Raises:
        ValueError: no text, an empty cue or side, a word that is not one token, a layer
            that is not there, or a push of another shape or not finite.
    """
    encoded = [tokenizer.encode(_checked("text", text)).ids for text in texts]
    tail = tokenizer.encode(_checked("cue", cue)).ids
    if not texts or not all(sides):
        raise ValueError("no texts" if not texts else "a side is empty")
    first, second = ([_only_token(tokenizer, w) for w in side] for side in sides)
    device = model.embedding.weight.device
    ids = pad_right([own + tail for own in encoded])[0].to(device)
    places = torch.tensor([len(own) - 1 for own in encoded], device=device)
    with pushed(model, layer, places, push):
        states = model.hidden(ids)  # [N, T, d]
    last = states[torch.arange(len(places), device=device), places + len(tail)]
    logs = model.head(last).float().log_softmax(-1).cpu()  # [N, V]
    return logs[:, first].mean(1) - logs[:, second].mean(1)


@contextmanager
def pushed(
    model: Transformer, layer: int, places: Tensor, push: Tensor | None
) -> Iterator[None]:
    """Add a vector to one token of each text as long as the block of `with` runs.

    Args:
        model: any.
        layer: from 1 to the number of layers; what leaves it is changed.
        places: int64 `[N]`, the token of each text, on the model's device.
        push: `[N, d]`, or None to change nothing.

    Raises:
        ValueError: a layer that is not there, a push of another shape or not finite, or
            (in the block) another number of texts.
        IndexError: (in the block) a place that a text does not have.
    """
    layer = check_size("layer", layer, 1, len(model.blocks))
    if push is None:
        yield
        return
    wanted = (len(places), model.config.d_model)
    if check_finite("push", check_floating("push", push)).shape != wanted:
        raise ValueError(f"push must be {list(wanted)}, got {list(push.shape)}")
    rows = torch.arange(len(places), device=places.device)

    def add(block, inputs, out: Tensor) -> Tensor:
        if len(out) != len(places):
            raise ValueError(f"{len(places)} places for {len(out)} texts")
        check_ids(places, out.shape[1], "place")
        out[rows, places] += push.to(out)
        return out

    hook = model.blocks[layer - 1].register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()


def _checked(name: str, text: str) -> str:
    if not text_bytes(text):
        raise ValueError(f"a {name} is empty")
    return text


def _only_token(tokenizer: "Tokenizer", word: str) -> int:
    ids = tokenizer.encode(" " + _checked("word", word)).ids
    if len(ids) != 1:
        raise ValueError(f"{word!r} is {len(ids)} tokens, one is needed")
    return ids[0]
