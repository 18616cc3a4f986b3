"""Maps of vectors, layer by layer, turned so that what moves has moved."""

import torch
from torch import Tensor

from lib.checks import check_finite, check_floating
from lib.geometry import pca


def turn_onto(points: Tensor, target: Tensor) -> Tensor:
    """Turn or mirror points about the origin so that they fit a target best.

    Args:
        points: `[N, k]`.
        target: `[N, k]`, where each of them would best be.

    Returns:
        `[N, k]`, all distances as they were.

    Raises:
        TypeError: no floats, or two types of them.
        ValueError: shapes that differ, or a number that is not finite.

    Source: Schönemann 1966, the orthogonal Procrustes problem.

    Example:
        >>> square = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> turned = turn_onto(square @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), square)
        >>> torch.allclose(turned, square, atol=1e-6)
        True
    """
    check_floating("points", points)
    check_floating("target", target)
    if points.dtype != target.dtype:
        found = f"{points.dtype} and {target.dtype}"
        raise TypeError(f"points and target must be of one type, got {found}")
    if points.dim() != 2 or points.shape != target.shape:
        found = f"{list(points.shape)} and {list(target.shape)}"
        raise ValueError(f"points and target must be [N, k] alike, got {found}")
    x, y = check_finite("points", points), check_finite("target", target)
    x, y = x.double(), y.double()  # the product of two large numbers is larger
    u, _, vt = torch.linalg.svd(x.T @ y)
    return (x @ u @ vt).to(points.dtype)


def layer_maps(states: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a map of each layer: two directions of the most variance, turned to fit.

    A layer's map is centred, scaled so that the root mean square distance from its
    centre is 1, and turned onto the map of the layer before.

    Args:
        states: `[S, N, d]`, the same N items in S layers.

    Returns:
        Points `[S, N, 2]`, and `[S]`, the share of each layer's variance on its map, 1
        for a layer that has none.

    Raises:
        TypeError: states that are not floating point.
        ValueError: states that are not `[S, N, d]`, S and N of 1 or more and d of 2 or
            more, or a vector that is not finite.

    Example:
        >>> x = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
        >>> points, share = layer_maps(torch.stack([x, -x]))
        >>> torch.allclose(points[0], points[1], atol=1e-6), share.tolist()
        (True, [1.0, 1.0])
    """
    check_floating("states", states)
    if states.dim() != 3 or states.shape[2] < 2 or not states.numel():
        raise ValueError(f"states must be [S, N, d >= 2], got {list(states.shape)}")
    check_finite("states", states)
    maps, shares = [], []
    for layer in states:
        points, share = pca(layer, k=2)
        size = points.square().sum(1).mean().sqrt()
        points = points / size.where(size > 0, 1)
        maps.append(turn_onto(points, maps[-1]) if maps else points)
        shares.append(share.sum().nan_to_num(1.0))  # 0 / 0: nothing is hidden
    return torch.stack(maps), torch.stack(shares)
