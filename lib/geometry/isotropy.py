"""How vectors fill their space: random pairs, common directions, hubs, rotations.

What a rotation leaves alone belongs to the vectors: lengths, cosines, neighbours. What
it changes belongs to the axes that they happen to be written in.
"""

import torch
from torch import Tensor

from lib.checks import check_integer, check_size, check_vectors
from lib.geometry.neighbours import CELLS_AT_ONCE, unit_rows


def random_pair_cosines(vectors: Tensor, num_pairs: int, seed: int = 0) -> Tensor:
    """Draw pairs of two different rows and return their cosines.

    This is the baseline that a cosine has to be read against.

    Args:
        vectors: `[V, d]`.
        num_pairs: pairs to draw, with replacement.
        seed: of the draw.

    Returns:
        `[num_pairs]`.

    Raises:
        ValueError: fewer than two rows, one that is not finite, or `num_pairs` below 1.

    Example:
        >>> random_pair_cosines(torch.eye(3), num_pairs=4)
        tensor([0., 0., 0., 0.])
    """
    size = check_size("rows", len(check_vectors("vectors", vectors)), 2)
    num_pairs = check_size("num_pairs", num_pairs)
    generator = torch.Generator().manual_seed(check_integer("seed", seed))
    first = torch.randint(size, (num_pairs,), generator=generator)
    step = torch.randint(1, size, (num_pairs,), generator=generator)
    second = (first + step) % size  # never the first
    return (unit_rows(vectors[first]) * unit_rows(vectors[second])).sum(-1)


def mean_cosine(vectors: Tensor) -> float:
    """Return the mean cosine of all pairs of different rows, a measure of anisotropy.

    It is exact at the cost of one sum: the squared length of the sum of all unit rows
    holds every pair's cosine twice. Vectors that point everywhere give about 0, but so
    do pairs of opposite vectors on one line: 0 is no proof of isotropy.

    Args:
        vectors: `[V, d]`.

    Returns:
        From -1/(V - 1) to 1.

    Raises:
        ValueError: fewer than two rows, or one that is not finite.

    Source:
        Ethayarajh 2019, section 3.3 (there from a sample of pairs).

    Example:
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [5.0, 0.0], [0.0, 2.0]]))
        0.3333333333333333
    """
    check_size("rows", len(check_vectors("vectors", vectors)), 2)
    units = unit_rows(vectors).cpu().double()
    both_ways = units.sum(0).square().sum() - units.square().sum()
    return (both_ways / (len(units) * (len(units) - 1))).item()


def remove_common(vectors: Tensor, components: int = 0) -> Tensor:
    """Subtract the mean, and what lies along the strongest directions after that.

    Args:
        vectors: `[V, d]`.
        components: number of directions to remove; 0 removes the mean alone.

    Returns:
        `[V, d]`.

    Raises:
        ValueError: `components` is below 0 or above d, or a row is not finite.

    Source:
        Mu and Viswanath 2018, "All-but-the-Top", algorithm 1.

    Example:
        >>> remove_common(torch.tensor([[5.0, 1.0], [5.0, 3.0]])).tolist()
        [[0.0, -1.0], [0.0, 1.0]]
    """
    centred, axes, _ = _principal_axes(vectors)
    components = check_size("components", components, 0, vectors.shape[1])
    top = axes[:, :components]  # [d, components]
    return (centred - centred @ top @ top.T).to(vectors)


def pca(vectors: Tensor, k: int = 2) -> tuple[Tensor, Tensor]:
    """Project vectors onto the k directions in which they vary most.

    Of each direction the sign with the larger positive entry is taken, so that a
    picture does not flip between runs.

    Args:
        vectors: `[V, d]`.
        k: number of directions, at most d.

    Returns:
        Coordinates `[V, k]` about the mean, and the share of the variance that each
        direction holds `[k]`.

    Raises:
        ValueError: `k` is below 1 or above d, or a row is not finite.

    Source:
        Pearson 1901; the eigenvectors of the covariance.

    Example:
        >>> points, share = pca(torch.tensor([[1.0, 7.0], [3.0, 7.0]]), k=1)
        >>> points.tolist(), share.tolist()
        ([[-1.0], [1.0]], [1.0])
    """
    centred, axes, variance = _principal_axes(vectors)
    k = check_size("k", k, 1, vectors.shape[1])
    share = variance[:k] / variance.sum()
    return (centred @ axes[:, :k]).to(vectors), share.to(vectors)


def k_occurrence(vectors: Tensor, k: int = 10) -> Tensor:
    """Count, for each row, among the k nearest neighbours of how many others it is.

    The counts sum to V · k. It costs V² · d operations: take a few thousand rows.

    Args:
        vectors: `[V, d]`.
        k: number of neighbours, at most V - 1.

    Returns:
        int64 `[V]`.

    Raises:
        ValueError: `k` is below 1 or above V - 1, or a row is not finite.

    Source:
        Radovanović, Nanopoulos and Ivanović 2010, section 2 (N_k).

    Example:
        >>> k_occurrence(torch.tensor([[9.0, 1], [1, 0], [9, -1]]), k=1)
        tensor([1, 2, 0])
    """
    size = len(check_vectors("vectors", vectors))
    k = check_size("k", k, 1, size - 1)
    units = unit_rows(vectors)
    rows = torch.arange(size, device=units.device)
    counts = torch.zeros_like(rows)
    for part in rows.split(max(1, CELLS_AT_ONCE // size)):
        scores = units[part] @ units.T  # [part, V]
        scores.scatter_(1, part[:, None], -torch.inf)  # a row is no neighbour of itself
        nearest = scores.topk(k).indices.flatten()
        counts += nearest.bincount(minlength=size)
    return counts


def hubness(vectors: Tensor, k: int = 10) -> float:
    """Return the skewness of `k_occurrence`: 0 without hubs, large if a few rows are
    neighbours of nearly all.

    Args:
        vectors: `[V, d]`.
        k: number of neighbours, at most V - 1.

    Returns:
        The third standardised moment; 0 if all rows occur equally often.

    Raises:
        ValueError: as for `k_occurrence`.

    Source:
        Radovanović, Nanopoulos and Ivanović 2010, equation 1.

    Example:
        >>> hubness(torch.eye(4), k=3)
        0.0
    """
    counts = k_occurrence(vectors, k).cpu().double()
    deviation = counts - counts.mean()
    spread = deviation.square().mean().sqrt()
    return (deviation.pow(3).mean() / spread**3).item() if spread > 0 else 0.0


def random_rotation(
    d: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Draw a rotation of d-dimensional space, each equally likely.

    QR of a Gaussian matrix is uniform once the signs of R's diagonal are moved into Q;
    one column changes sign if that left a reflection.

    Args:
        d: the width.
        seed: of the draw.
        dtype: of the matrix. In fp32 two neighbours whose cosines agree to seven
            digits may change places; float64 keeps them apart.

    Returns:
        `[d, d]`, orthogonal, with determinant 1. `vectors @ R` rotates rows.

    Raises:
        ValueError: `d` is below 1.

    Source:
        Mezzadri 2007, "How to generate random matrices from the classical compact
        groups", section 5.

    Example:
        >>> rotation = random_rotation(3)
        >>> torch.allclose(rotation @ rotation.T, torch.eye(3), atol=1e-6)
        True
    """
    d = check_size("d", d)
    generator = torch.Generator().manual_seed(check_integer("seed", seed))
    gaussian = torch.randn(d, d, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal().sign()
    q[:, 0] *= torch.linalg.det(q).sign()
    return q.to(dtype)


def _principal_axes(vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return centred rows, directions as columns and variances, strongest first.

    All are float64 on the CPU.
    """
    x = check_vectors("vectors", vectors).cpu().double()
    centred = x - x.mean(0)
    variance, axes = torch.linalg.eigh(centred.T @ centred / len(x))
    variance, axes = variance.flip(0).clamp(min=0), axes.flip(1)
    peak = axes.gather(0, axes.abs().argmax(0, keepdim=True))  # [1, d]
    return centred, axes * peak.sign(), variance
