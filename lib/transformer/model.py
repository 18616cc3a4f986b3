"""A decoder-only transformer to read in one sitting, with any encoding of the place.

The parts are those of Llama: RMSNorm before each half of a block, grouped-query
attention, SwiGLU, no biases. What a token knows of its place is a `Position`, and where
tokens stand is an argument of every call.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from lib.checks import (
    check_floating,
    check_ranges,
    ids_range,
    mask_range,
    unchecked,
)
from lib.kv_cache import KVCache
from lib.learned import LearnedPositionalEmbedding
from lib.tied_head import TiedLMHead, is_tied
from lib.token_embedding import TokenEmbedding
from lib.transformer.blocks import Block, Call
from lib.transformer.config import OWN, TransformerConfig
from lib.transformer.places import find_places
from lib.transformer.positions import Position, make_position


class Transformer(nn.Module):
    """Predict each next token from the tokens so far.

    Who sees whom goes by the order of the tokens, whatever positions are given: a
    reversed numbering does not let a token see its future. `config.position` says what
    the numbers do: nothing ("none"), add a row to each token ("sinusoidal", "learned"),
    rotate q and k ("rope"), set the price of distance ("alibi" before or after, "t5"
    before alone). An encoding of your own is a `Position`.

    With "dynamic" and "longrope" scaling the frequencies depend on the length. Keys are
    then cached without their rotation; still, a later token meets earlier ones as they
    were when the sequence was shorter, as with any cache.

    Args:
        config: sizes and options.
        position: an encoding in place of the one that `config.position` names; the
            model's own configuration then says "own". Its weights stay as they are.

    Raises:
        TypeError: a position that is no `Position`.
        ValueError, KeyError: what `RotaryEmbedding` refuses.

    Source: Touvron et al. 2023 (Llama); transformers 5.24.0, `LlamaForCausalLM`.

    Example:
        >>> from lib.transformer import PRESETS
        >>> model = Transformer(PRESETS["tiny"])
        >>> ids = torch.tensor([[72, 101, 108, 108, 111]])
        >>> cache = KVCache(num_layers=2)
        >>> parts = [model(ids[:, :4], cache=cache), model(ids[:, 4:], cache=cache)]
        >>> torch.allclose(torch.cat(parts, dim=1), model(ids), atol=1e-5)
        True
    """

    def __init__(self, config: TransformerConfig, position: Position | None = None):
        super().__init__()
        if position is not None and not isinstance(position, Position):
            raise TypeError(f"position must be a Position, got {position!r}")
        self.config = config if position is None else replace(config, position=OWN)
        width, scale, std = config.d_model, config.embedding_scale, config.std
        self.embedding = TokenEmbedding(config.vocab_size, width, scale=scale, std=std)
        self.position = make_position(config) if position is None else Position()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(width, config.norm_eps)
        if config.tied:
            self.head = TiedLMHead(self.embedding)
        else:
            self.head = nn.Linear(width, config.vocab_size, bias=False)
        self.reset_parameters()
        if position is not None:
            self.position = position  # only now, so that it is not drawn anew

    def reset_parameters(self) -> None:
        """Draw all weights anew, N(0, std); rebuild tables, set norms to one.

        The two projections of each block that write into the residual path are smaller
        by √(2 · layers), as in GPT-2, so that the sum does not grow with depth.
        """
        encoding = list(self.position.modules())
        for module in self.modules():
            if module is self.position:  # whose parts draw themselves, the whole last
                for part in reversed(encoding):
                    _draw(part)
            elif isinstance(module, nn.Linear) and module not in encoding:
                nn.init.normal_(module.weight, std=self.config.std)
            elif module is not self and module not in encoding:
                _draw(module)
        shrunk = self.config.std / (2 * self.config.num_layers) ** 0.5
        for block in self.blocks:
            nn.init.normal_(block.attention.out.weight, std=shrunk)
            nn.init.normal_(block.mlp.down.weight, std=shrunk)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        cache: KVCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Compute the logits of what follows each token.

        Args:
            ids: integers `[B, T]`.
            positions: integers `[T]` or `[B, T]`. If None, tokens are numbered from 0,
                those in the cache first and padding left out. With a cache they may be
                those of all tokens so far, `[all]` or `[B, all]`; a price on the scores
                (ALiBi, T5), and RoPE with a scaling that depends on the length, need
                that.
            cache: keys and values of the tokens before; it takes up those of the new.
            mask: bool or integers `[B, all]`, 1 for real tokens, those in the cache and
                those dropped from it included. Padding may stand anywhere; it changes
                nothing for the others, as long as its own row is finite.

        Returns:
            `[B, T, V]`.

        Raises:
            TypeError: ids or positions that are not integers, a mask of floats.
            IndexError: an id outside the vocabulary, or a position outside a learned
                table.
            ValueError: shapes that do not fit, a mask of other numbers than 0 and 1, a
                price of another width than all tokens.
        """
        return self.head(self.hidden(ids, positions, cache, mask))

    def hidden(self, ids: Tensor, positions=None, cache=None, mask=None) -> Tensor:
        """Compute what the head reads, `[B, T, d_model]`; takes what `forward` does.

        Args:
            ids, positions, cache, mask: as for `forward`.
        """
        for x in self._states(ids, positions, cache, mask):
            last = x
        return last

    def hidden_states(
        self, ids: Tensor, positions=None, cache=None, mask=None
    ) -> list[Tensor]:
        """Compute the hidden states of every layer; takes what `forward` does.

        Args:
            ids, positions, cache, mask: as for `forward`.

        Returns:
            L + 2 tensors `[B, T, d_model]`. State 0 is what enters the first block
            (token rows, with position rows added if there are such), 1 … L come out of
            the blocks, and L + 1 is L after the last norm, which the head reads.
        """
        return list(self._states(ids, positions, cache, mask))

    def with_options(self, position=None, **changes) -> "Transformer":
        """Make a second model over the very same weights, with other options.

        Args:
            position: a kind such as "none", or a `Position` on the model's device. If
                None it stays; one that was handed in is copied, over the same weights,
                buffers and all else of its own apart.
            changes: other fields of the configuration, such as `norm_eps=1e-6`.

        Returns:
            The new model. Both see it when a weight is changed in place.

        Raises:
            RuntimeError: the changed model has other weights.
        """
        own = isinstance(position, Position) or (
            position is None and self.config.position == OWN
        )
        config = replace(self.config, **self._as_it_is() | changes)
        if own or position is not None:
            config = replace(config, position="none" if own else position)
        with torch.device("meta"):
            other = Transformer(config)
        self._share_weights(other)
        if own:
            if position is None:
                position = self._copy_position(other, changes.get("rope_layout"))
            other.position, other.config = position, replace(config, position=OWN)
        elif not list(other.position.parameters()):  # tables at most: build them
            other.position = make_position(config).to(self.embedding.weight.device)
        return other.train(self.training)

    def _as_it_is(self) -> dict:
        """What the tables say, which may have changed since the model was built."""
        tied = is_tied(self.embedding, self.head)
        sizes = {"vocab_size": len(self.embedding.weight), "tied": tied}
        if isinstance(self.position, LearnedPositionalEmbedding):
            sizes["max_positions"] = len(self.position.weight) - self.position.offset
        return sizes

    def _copy_position(self, other: "Transformer", layout: str | None) -> Position:
        """Copy an encoding that was handed in, all but the memory of its weights.

        What it shares with this model, the copy shares with the other one.
        """
        weights = self.position.parameters()
        same = {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in weights}
        theirs = dict(other.named_modules(remove_duplicate=False))
        for name, module in self.named_modules():
            if name in theirs and name.split(".")[0] != "position":
                same[id(module)] = theirs[name]
                own = theirs[name].named_parameters(recurse=False)
                same |= {id(getattr(module, key)): p for key, p in own}
        position = copy.deepcopy(self.position, same)
        if layout is not None and position.layout is not None:
            position.layout = layout
        return position

    def _share_weights(self, other: "Transformer") -> None:
        wanted, state = other.state_dict(), self.state_dict()
        for name in [name for name in state if name.startswith("position.")]:
            if name not in wanted:
                del state[name]
        other.load_state_dict(state, assign=True)
        ours = dict(self.named_parameters())
        for name, weight in other.named_parameters():
            weight.requires_grad_(ours[name].requires_grad)

    def _states(self, ids, positions, cache, mask) -> Iterator[Tensor]:
        call = self._prepare(ids, positions, cache, mask)
        with unchecked():  # for they were checked
            x = self.embedding(ids)
        x = self.position.add(x, call.places.queries)
        yield x  # [B, T, d_model]
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, call)
            yield x
        yield self.norm(x)

    def _prepare(self, ids, positions, cache, mask) -> Call:
        """Check the arguments with one read, and work out what the layers share."""
        past = 0 if cache is None else cache.seq_len
        places, position = find_places(ids, past, positions, mask), self.position
        ranges = [ids_range(ids, len(self.embedding.weight))]
        ranges += position.ranges(places.queries)
        if mask is not None and mask.dtype != torch.bool:
            ranges.append(mask_range(mask))
        check_ranges(*ranges)
        tables = position.tables(places.keys if position.late else places.queries)
        price = _check_price(position.price(places), places.total)
        return Call(position, places, tables, price, cache)


def _draw(module: nn.Module) -> None:
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()


def _check_price(price: Tensor | None, total: int) -> Tensor | None:
    """Check the width of a price, of which layers take the keys that are left."""
    if price is not None:
        check_floating("price", price)
        if price.dim() != 4 or price.shape[3] != total:
            raise ValueError(
                f"price must be [1 or B, H, 1 or T, {total}], one number for each "
                f"token so far, got {list(price.shape)}"
            )
    return price
