"""Write on, token by token: the likeliest next one, or one drawn by its probability."""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.checks import check_index, check_size, may_read, number
from lib.kv_cache import KVCache
from lib.transformer.model import Transformer
from lib.transformer.places import find_places


def choose_tokens(
    logits: Tensor,
    temperature: float = 0.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose one token a row.

    Args:
        logits: `[B, V]`.
        temperature: 0 takes the largest logit; otherwise logits are divided by it and a
            token is drawn from their softmax.
        top_k: draw among the k largest alone; all if None.
        generator: a CPU generator, so that every device draws the same.

    Returns:
        int64 `[B]`.

    Raises:
        ValueError: a negative temperature, top_k outside 1 … V.
        TypeError: a top_k that is not an integer.

    Source: Fan et al. 2018, section 5.2 (top-k).

    Example:
        >>> choose_tokens(torch.tensor([[0.0, 3.0, 2.0]]))
        tensor([1])
    """
    if logits.dim() != 2:
        raise ValueError(f"logits must be [B, V], got {list(logits.shape)}")
    size = logits.shape[1]
    check_choice(size, temperature, top_k)
    if temperature == 0:
        return logits.argmax(dim=-1)
    best, ids = logits.float().topk(size if top_k is None else top_k)  # [B, k]
    warmth = max(temperature, torch.finfo(best.dtype).tiny)  # not 0 as a float32
    shares = ((best - best[:, :1]) / warmth).softmax(dim=-1)
    drawn = torch.multinomial(shares.cpu(), 1, generator=generator)  # [B, 1]
    return ids.gather(1, drawn.to(ids.device))[:, 0]


def check_choice(size: int, temperature: float, top_k: int | None) -> None:
    """Check what says how a token is chosen among `size`."""
    number("temperature", temperature, at_least=0)
    if top_k is not None:
        check_size("top_k", top_k, at_most=size)


@torch.no_grad()
def generate(
    model: Transformer,
    ids: Tensor,
    max_new_tokens: int,
    mask: Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
    eos_id: int | None = None,
    use_cache: bool = True,
    advance: Callable[[int, float], None] | None = None,
) -> Tensor:
    """Continue every row of a batch.

    Args:
        model: on the device of the ids.
        ids: integers `[B, T]`, shorter rows padded on the left.
        max_new_tokens: when to stop at the latest.
        mask: bool or integers `[B, T]`, 1 for real tokens; all are if None.
        temperature, top_k, generator: as for `choose_tokens`.
        eos_id: the token that ends a row. Its row is filled up with it; generation
            stops when every row has ended.
        use_cache: keep keys and values; without it each step reads everything anew,
            to the same tokens unless two logits differ by less than a rounding.
        advance: called after each step with its number, from 0, and with the loss of
            the tokens chosen, their mean −ln p over the rows that had not ended: the
            `advance` of `lib.interactive.progress_bar`.

    Returns:
        The ids and what follows, int64 `[B, T + new]`.

    Raises:
        ValueError: max_new_tokens below 0, a row that ends in padding, and what the
            model and `choose_tokens` refuse.
        IndexError: an eos_id outside the vocabulary.

    Example:
        >>> from lib.transformer import PRESETS, Transformer
        >>> model = Transformer(PRESETS["tiny"])
        >>> generate(model, torch.tensor([[72, 101]]), max_new_tokens=3).shape
        torch.Size([1, 5])
    """
    max_new_tokens = check_size("max_new_tokens", max_new_tokens, at_least=0)
    _check_wishes(model, ids, mask, temperature, top_k, eos_id)
    cache = KVCache(model.config.num_layers) if use_cache else None
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    new = ids
    for step in range(max_new_tokens):
        read = new if use_cache else ids
        last = model.hidden(read, cache=cache, mask=mask)[:, -1]  # [B, d_model]
        logits = model.head(last)  # [B, V]
        chosen = choose_tokens(logits, temperature, top_k, generator)
        if advance is not None:
            nats = logits.float().log_softmax(-1).gather(1, chosen[:, None])
            advance(step, -nats[~ended].mean().item())
        if eos_id is not None:
            chosen = chosen.masked_fill(ended, eos_id)
            ended |= chosen == eos_id
        new = chosen[:, None]  # [B, 1]
        ids = torch.cat([ids, new], dim=1)
        if mask is not None:
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        if eos_id is not None and ended.all():
            break
    return ids


def _check_wishes(model, ids, mask, temperature, top_k, eos_id) -> None:
    """Check what `generate` is given, also where no token is wanted."""
    size = len(model.embedding.weight)
    check_choice(size, temperature, top_k)
    if eos_id is not None:
        check_index("eos_id", eos_id, size)
    find_places(ids, 0, None, mask)  # checks dtypes and shapes
    # The next token of a row that ends in padding would follow a pad.
    if mask is not None and may_read(mask) and not mask[:, -1].all():
        row = int((mask[:, -1] == 0).nonzero()[0])
        raise ValueError(f"row {row} of the mask ends in padding: pad on the left")
