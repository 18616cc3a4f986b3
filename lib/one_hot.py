"""One-hot vectors: the embedding lookup written as a matrix product."""

import torch
from torch import Tensor

from lib.checks import check_ids, check_size


def one_hot(
    ids: Tensor, num_classes: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Turn ids `[...]` into vectors `[..., num_classes]` with a single 1 each.

    Args:
        ids: integer tensor of any shape.
        num_classes: length of a vector, V. It is never guessed from the ids.
        dtype: dtype of the result.

    Returns:
        Zeros with a 1 at each id, on the device of the ids.

    Raises:
        TypeError: ids that are not integers, or `num_classes` that is not an int.
        IndexError: an id that is negative, or `num_classes` or more.
        ValueError: `num_classes` below 1.

    Example:
        >>> one_hot(torch.tensor([2, 0]), 3)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    num_classes = check_size("num_classes", num_classes)
    ids = check_ids(ids, num_classes)
    zeros = ids.new_zeros(*ids.shape, num_classes, dtype=dtype)
    return zeros.scatter_(-1, ids.unsqueeze(-1), 1)  # [..., V]


def sparse_one_hot(
    ids: Tensor, num_classes: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Turn ids `[N]` into the same N × V matrix, stored as its N ones.

    Args:
        ids: integer tensor `[N]`.
        num_classes: length of a row, V.
        dtype: dtype of the ones.

    Returns:
        A coalesced sparse COO tensor `[N, V]` of N pairs of row and column, and N ones.

    Raises:
        TypeError: ids that are not integers, or `num_classes` that is not an int.
        IndexError: an id that is negative, or `num_classes` or more.
        ValueError: `num_classes` below 1, or ids that are not `[N]`.

    Example:
        >>> sparse_one_hot(torch.tensor([2, 0]), 3).to_dense()
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    num_classes = check_size("num_classes", num_classes)
    ids = check_ids(ids, num_classes)
    if ids.dim() != 1:
        raise ValueError(f"ids must have 1 dimension, got {ids.dim()}")
    places = torch.stack([torch.arange(len(ids), device=ids.device), ids])  # [2, N]
    ones = torch.ones(len(ids), dtype=dtype, device=ids.device)
    shape = (len(ids), num_classes)
    # The ids were checked above, so torch need not check them again.
    return torch.sparse_coo_tensor(
        places, ones, shape, is_coalesced=True, check_invariants=False
    )


def one_hot_lookup(ids: Tensor, weight: Tensor) -> Tensor:
    """Look rows up by the product of one-hot vectors with the table.

    Equal to `weight[ids]`, at V times the work: each result is one row times 1 plus
    V − 1 rows times 0. A −0.0 of the table comes out as 0.0. Where the table holds an
    infinity or a NaN the two part ways, since 0 · ∞ is NaN.

    Args:
        ids: integer tensor `[...]`.
        weight: table `[V, dim]`.

    Returns:
        Rows `[..., dim]` in the table's dtype.

    Raises:
        TypeError: ids that are not integers.
        IndexError: an id outside the table.
        ValueError: a table that is not `[V, dim]`.

    Example:
        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> one_hot_lookup(torch.tensor([1]), table)
        tensor([[3., 4.]])
    """
    if weight.dim() != 2:
        raise ValueError(f"weight must be [V, dim], got {weight.dim()} dimensions")
    return one_hot(ids, len(weight), weight.dtype) @ weight  # [..., V] @ [V, dim]
