"""The blocks of the transformer: grouped-query attention, then SwiGLU."""

from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from lib.kv_cache import KVCache
from lib.transformer.config import TransformerConfig
from lib.transformer.places import Places
from lib.transformer.positions import Position


class Call(NamedTuple):
    """What all layers share in one call.

    Args:
        position: the encoding.
        places: where the tokens stand, and the mask.
        tables: what the encoding needs to turn q and k.
        price: its bias `[1 or B, H, T, all]`, or None.
        cache: keys and values of earlier calls.
    """

    position: Position
    places: Places
    tables: Any
    price: Tensor | None
    cache: KVCache | None


class Attention(nn.Module):
    """Attend to the tokens so far; queries may share heads of keys and values.

    Source: Ainslie et al. 2023 (grouped queries); no biases, as in Llama.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        width, kv_width = config.d_model, config.num_kv_heads * config.head_dim
        self.head_dim = config.head_dim
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_width, bias=False)
        self.v = nn.Linear(width, kv_width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, layer: int, call: Call) -> Tensor:
        """Mix the tokens of x `[B, T, d_model]`; returns the same shape."""
        position, places, tables, price, cache = call
        q, k, v = (self._split(project(x)) for project in (self.q, self.k, self.v))
        if not position.late:
            q, k = position.turn(q, k, tables)
        if cache is not None:
            k, v = cache.update(layer, k, v)  # [B, Hk, keys, D]
        if position.late:
            q, k = position.turn(q, k, tables)
        keys = k.shape[2]  # fewer than all, once the cache has dropped some
        price = None if price is None else price[..., -keys:]
        mixed = position.attend(q, k, v, places.last(keys), price)  # [B, H, T, D]
        return self.out(mixed.transpose(1, 2).flatten(2))  # [B, T, d_model]

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


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
    """Add to each token what attention finds, then what SwiGLU makes of it.

    Args:
        config: widths, heads and the rest of the model's shape.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.attention = Attention(config)
        self.mlp_norm = nn.RMSNorm(config.d_model, config.norm_eps)
        self.mlp = SwiGLU(config.d_model, config.d_hidden)

    def forward(self, x: Tensor, layer: int, call: Call) -> Tensor:
        """Update x `[B, T, d_model]`; same shape.

        Args:
            x: `[B, T, d_model]`.
            layer: the block's number, by which a cache files its keys.
            call: what all blocks share in one call.
        """
        x = x + self.attention(self.attention_norm(x), layer, call)
        return x + self.mlp(self.mlp_norm(x))
