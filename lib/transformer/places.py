"""Where the tokens of one call stand: numbered, or as the caller says."""

from typing import NamedTuple

import torch
from torch import Tensor

from lib.checks import check_integers, check_mask_kind
from lib.learned import positions_from_mask


class Places(NamedTuple):
    """Where the tokens of one call stand, and which of them are real.

    Args:
        queries: int64 `[1 or B, T]`, the positions of the new tokens.
        known: those that the call knows: of all tokens, or of the new ones alone.
        total: tokens in all, those in the cache and those dropped from it included.
        given: whether the caller gave them; only then may they run against the order
            of the tokens, or repeat.
        mask: bool `[B, keys]`, True for real tokens, or None.
    """

    queries: Tensor
    known: Tensor
    total: int
    given: bool
    mask: Tensor | None

    @property
    def keys(self) -> Tensor:
        """The positions of the keys, int64 `[1 or B, keys]`: of all tokens so far.

        Raises:
            ValueError: the caller gave those of the new tokens alone.
        """
        if self.known.shape[1] < self.total:
            raise ValueError(
                f"positions must be those of all {self.total} tokens here, "
                f"not of the {self.queries.shape[1]} new ones alone"
            )
        return self.known

    def last(self, keys: int) -> "Places":
        """Keep the last keys alone, which are what a cache still holds.

        Args:
            keys: how many to keep.
        """
        mask = None if self.mask is None else self.mask[:, -keys:]
        known = self.known[:, -keys:]
        return self._replace(known=known, total=min(keys, self.total), mask=mask)


def find_places(
    ids: Tensor, past: int, positions: Tensor | None, mask: Tensor | None
) -> Places:
    """Number the tokens, or take the caller's numbers; dtypes and shapes are checked.

    Args:
        ids: integers `[B, T]`.
        past: tokens before them.
        positions, mask: as for `Transformer.forward`.
    """
    check_integers("ids", ids)
    if ids.dim() != 2 or ids.shape[1] == 0:
        shape = list(ids.shape)
        raise ValueError(f"ids must be [B, T] with T at least 1, got {shape}")
    batch, tokens = ids.shape
    total = past + tokens
    if mask is not None:
        check_mask_kind(mask, (batch, total))
        mask = mask.bool()
    if positions is not None:
        known = _given(positions, batch, tokens, total)
    elif mask is not None:
        known = positions_from_mask(mask)
    else:
        known = torch.arange(total, device=ids.device)[None]
    return Places(known[:, -tokens:], known, total, positions is not None, mask)


def _given(positions: Tensor, batch: int, tokens: int, total: int) -> Tensor:
    check_integers("positions", positions)
    rows = positions[None] if positions.dim() == 1 else positions
    fits = rows.dim() == 2 and rows.shape[0] in (1, batch)
    if not fits or rows.shape[1] not in (tokens, total):
        raise ValueError(
            f"positions must be [{tokens}] or [{batch}, {tokens}], or with those in "
            f"the cache [.., {total}], got {list(positions.shape)}"
        )
    return rows.long()
