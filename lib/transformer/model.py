"""A decoder-only transformer to read in one sitting, with five kinds of word order.

The parts are those of Llama: RMSNorm before each half of a block, grouped-query
attention, SwiGLU, no biases. What a token knows of its place is an option, and where
tokens stand is an argument of every call.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lib.alibi import alibi_attention, alibi_bias, alibi_slopes
from lib.attention import causal_attention
from lib.checks import INTEGER_DTYPES
from lib.kv_cache import KVCache
from lib.learned import LearnedPositionalEmbedding, positions_from_mask
from lib.rope import RotaryEmbedding, apply_rope
from lib.sinusoidal import SinusoidalPositionalEncoding
from lib.tied_head import TiedLMHead
from lib.token_embedding import TokenEmbedding
from lib.transformer.config import TransformerConfig


class Call(NamedTuple):
    """What all layers share in one call.

    Args:
        tables: RoPE's cos and sin: of the new tokens or, if `late`, of all.
        late: whether keys are cached as they are and rotated when they are used.
        bias: ALiBi's `[1 or B, H, T, all]`, where the caller gave the positions.
        places: ALiBi's `[B, all]`, where a mask gave them; the order of tokens if None.
        mask: `[B, all]`, 1 for real tokens.
        cache: keys and values of earlier calls.
    """

    tables: tuple[Tensor, Tensor] | None
    late: bool
    bias: Tensor | None
    places: Tensor | None
    mask: Tensor | None
    cache: KVCache | None


class Attention(nn.Module):
    """Attend to the tokens so far; queries may share heads of keys and values.

    Source: Ainslie et al. 2023 (grouped queries); no biases, as in Llama.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width, kv_width = config.d_model, config.num_kv_heads * config.head_dim
        self.config = config
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_width, bias=False)
        self.v = nn.Linear(width, kv_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, layer: int, call: Call) -> Tensor:
        """Mix the tokens of x `[B, T, d_model]`; returns the same shape."""
        q, k, v = (self._split(project(x)) for project in (self.q, self.k, self.v))
        if call.tables is not None and not call.late:
            q, k = self._rotate(q, call.tables), self._rotate(k, call.tables)
        if call.cache is not None:
            k, v = call.cache.update(layer, k, v)  # [B, Hk, Tk, D]
        if call.late:
            q, k = self._rotate(q, call.tables), self._rotate(k, call.tables)
        mixed = self._attend(q, k, v, call)  # [B, H, T, D]
        return self.out(mixed.transpose(1, 2).flatten(2))  # [B, T, d_model]

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)

    def _rotate(self, x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (table[..., -x.shape[2] :, :] for table in tables)
        return apply_rope(x, cos, sin, self.config.rope_layout)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        keys = k.shape[2]  # fewer than all, once the cache has dropped some
        mask = None if call.mask is None else call.mask[:, -keys:]
        if call.bias is not None:
            return causal_attention(q, k, v, mask, call.bias[..., -keys:])
        if self.config.position != "alibi":
            return causal_attention(q, k, v, mask)
        slopes = alibi_slopes(self.config.num_heads).to(q.device)
        if call.places is None:
            return alibi_attention(q, k, v, slopes)
        places = call.places[:, -keys:]
        return alibi_attention(q, k, v, slopes, places[:, -q.shape[2] :], places, mask)


class SwiGLU(nn.Module):
    """Let one projection, through SiLU, gate another. Source: Shazeer 2020."""

    def __init__(self, d_model: int, d_hidden: int):
        super().__init__()
        self.gate = nn.Linear(d_model, d_hidden, bias=False)
        self.up = nn.Linear(d_model, d_hidden, bias=False)
        self.down = nn.Linear(d_hidden, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Work on each token of x `[B, T, d_model]` by itself; same shape."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Add to each token what attention finds, then what SwiGLU makes of it."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.attention = Attention(config)
        self.mlp_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mlp = SwiGLU(config.d_model, config.d_hidden)

    def forward(self, x: Tensor, layer: int, call: Call) -> Tensor:
        """Update x `[B, T, d_model]`; same shape."""
        x = x + self.attention(self.attention_norm(x), layer, call)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Predict each next token from the tokens so far.

    Who sees whom goes by the order of the tokens, whatever positions are given: a
    reversed numbering does not let a token see its future. `config.position` says what
    the numbers do: nothing ("none"), add a row to each token ("sinusoidal", "learned"),
    rotate q and k ("rope"), set the price of distance, before or after ("alibi").

    With "dynamic" and "longrope" scaling the frequencies depend on the length. Keys are
    then cached without their rotation; still, a later token meets earlier ones as they
    were when the sequence was shorter, as with any cache.

    Args:
        config: sizes and options.

    Raises:
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

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        width, scale, std = config.d_model, config.embedding_scale, config.std
        self.embedding = TokenEmbedding(config.vocab_size, width, scale=scale, std=std)
        self.position = _position_module(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(width, config.norm_eps)
        if config.tied:
            self.head = TiedLMHead(self.embedding)
        else:
            self.head = nn.Linear(width, config.vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, N(0, std); rebuild tables, set norms to one.

        The two projections of each block that write into the residual path are smaller
        by √(2 · layers), as in GPT-2, so that the sum does not grow with depth.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=self.config.std)
            elif module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()
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
                those of all tokens so far, `[all]` or `[B, all]`; ALiBi, and RoPE with
                a scaling that depends on the length, need that.
            cache: keys and values of the tokens before; it takes up those of the new.
            mask: bool or integers `[B, all]`, 1 for real tokens, those in the cache and
                those dropped from it included. Padding may stand anywhere; it changes
                nothing for the others.

        Returns:
            `[B, T, V]`.

        Raises:
            TypeError: ids or positions that are not integers, a mask of floats.
            IndexError: an id outside the vocabulary, or a position outside a learned
                table.
            ValueError: shapes that do not fit, a mask of other numbers than 0 and 1.
        """
        return self.head(self.hidden(ids, positions, cache, mask))

    def hidden(self, ids: Tensor, positions=None, cache=None, mask=None) -> Tensor:
        """Compute what the head reads, `[B, T, d_model]`; takes what `forward` does."""
        for x in self._states(ids, positions, cache, mask):
            last = x
        return last

    def hidden_states(
        self, ids: Tensor, positions=None, cache=None, mask=None
    ) -> list[Tensor]:
        """Compute the hidden states of every layer; takes what `forward` does.

        Returns:
            L + 2 tensors `[B, T, d_model]`: 0 is what enters the first block (token
            rows, with position rows added if there are such), 1 … L come out of the
            blocks, and L + 1 is L after the last norm, which the head reads.
        """
        return list(self._states(ids, positions, cache, mask))

    def with_options(self, **changes) -> "Transformer":
        """Make a second model over the very same weights, with other options.

        Args:
            changes: fields of the configuration, such as `position="none"`.

        Returns:
            The new model. Both see it when a weight is changed in place.

        Raises:
            RuntimeError: the changed model has other weights.
        """
        with torch.device("meta"):
            other = Transformer(replace(self.config, **changes))
        other.load_state_dict(self.state_dict(), assign=True)
        for theirs, ours in zip(other.parameters(), self.parameters(), strict=True):
            theirs.requires_grad_(ours.requires_grad)
        if other.position is not None and not list(other.position.parameters()):
            other.position.to_empty(device=self.embedding.weight.device)
        return other.train(self.training)

    def _states(self, ids, positions, cache, mask) -> Iterator[Tensor]:
        call, own = self._prepare(ids, positions, cache, mask)
        x = self.embedding(ids)  # [B, T, d_model]
        if self.config.position == "sinusoidal":
            x = self.position(x, own)
        elif self.config.position == "learned":
            x = x + self.position(own)
        yield x
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, call)
            yield x
        yield self.norm(x)

    def _prepare(self, ids, positions, cache, mask) -> tuple[Call, Tensor]:
        """Work out what the layers share, and the positions of the new tokens."""
        past = 0 if cache is None else cache.seq_len
        everywhere = _places(ids, past, positions, mask)  # [1 or B, T or past + T]
        own = everywhere[:, -ids.shape[1] :]  # [1 or B, T]
        kind = self.config.position
        late = kind == "rope" and self.position.by_length
        given = kind == "alibi" and positions is not None
        if (late or given) and everywhere.shape[1] != past + ids.shape[1]:
            raise ValueError(
                f"positions must be those of all {past + ids.shape[1]} tokens here, "
                f"not of the {ids.shape[1]} new ones alone"
            )
        tables = bias = places = None
        if kind == "rope":
            tables = self.position.cos_sin(everywhere if late else own)
        if given:
            slopes = alibi_slopes(self.config.num_heads)
            bias = alibi_bias(slopes, own, everywhere, causal=False)
        elif kind == "alibi" and mask is not None:
            places = everywhere
        return Call(tables, late, bias, places, mask, cache), own


def _position_module(config: TransformerConfig) -> nn.Module | None:
    rows, width = config.max_positions, config.d_model
    if config.position == "sinusoidal":
        return SinusoidalPositionalEncoding(width, rows)
    if config.position == "learned":
        return LearnedPositionalEmbedding(rows, width, std=config.std)
    if config.position == "rope":
        return RotaryEmbedding(
            config.head_dim,
            config.rope_base,
            rope_parameters=config.rope_parameters,
            max_position_embeddings=rows,
            layout=config.rope_layout,
        )
    return None


def _places(
    ids: Tensor, past: int, positions: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Check the shapes; returns positions `[1 or B, T or past + T]`."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"ids must be an integer tensor, got {type(ids).__name__}")
    if ids.dim() != 2 or ids.shape[1] == 0:
        shape = list(ids.shape)
        raise ValueError(f"ids must be [B, T] with T at least 1, got {shape}")
    batch, tokens = ids.shape
    every = past + tokens
    if mask is not None and mask.shape != (batch, every):
        raise ValueError(f"mask must be [{batch}, {every}], got {list(mask.shape)}")
    if positions is None and mask is not None:
        return positions_from_mask(mask)
    if positions is None:
        return torch.arange(every, device=ids.device)[None]
    kind = getattr(positions, "dtype", type(positions).__name__)
    if kind not in INTEGER_DTYPES:
        raise TypeError(f"positions must be an integer tensor, got {kind}")
    rows = positions[None] if positions.dim() == 1 else positions
    fits = rows.dim() == 2 and rows.shape[0] in (1, batch)
    if not fits or rows.shape[1] not in (tokens, every):
        raise ValueError(
            f"positions must be [{tokens}] or [{batch}, {tokens}], or with those in "
            f"the cache [.., {every}], got {list(positions.shape)}"
        )
    return rows
