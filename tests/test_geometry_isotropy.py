"""`lib.geometry`: pairs, hubs, rotations and projections, beside NumPy and SciPy."""

import numpy as np
import pytest
import torch
from scipy import stats

from lib.geometry import (
    hubness,
    k_occurrence,
    mean_cosine,
    most_similar,
    pca,
    random_pair_cosines,
    random_rotation,
    remove_common,
)


def random_vectors(rows=120, width=8, common=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scale = torch.linspace(3, 0.5, width)
    return torch.randn(rows, width, generator=generator) * scale + common


def all_cosines(vectors):
    units = vectors.double() / vectors.double().norm(dim=1, keepdim=True)
    return units @ units.T


# Pairs ------------------------------------------------------------------------


def test_mean_cosine_equals_the_loop_over_pairs():
    cosines = all_cosines(random_vectors())
    pairs = [cosines[i, j].item() for i in range(120) for j in range(120) if i != j]
    assert mean_cosine(random_vectors()) == pytest.approx(np.mean(pairs), abs=1e-7)


def test_mean_cosine_at_its_ends():
    assert mean_cosine(torch.ones(5, 3)) == pytest.approx(1)
    assert mean_cosine(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(-1)
    assert mean_cosine(torch.zeros(2, 3)) == 0


def test_a_sample_of_pairs_agrees_with_all_of_them(device):
    vectors = random_vectors().to(device)
    sample = random_pair_cosines(vectors, 40_000)
    error = sample.std().item() / 200
    assert abs(sample.mean().item() - mean_cosine(vectors)) < 4 * error


def test_pairs_are_of_two_rows_and_of_all_rows():
    # With ten orthogonal rows a cosine of 1 would betray a row paired with itself.
    assert random_pair_cosines(torch.eye(10), 10_000).max() == 0
    two = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    assert torch.allclose(random_pair_cosines(two, 50), torch.tensor(0.6))


def test_pairs_depend_on_the_seed_alone():
    vectors = random_vectors()
    first = random_pair_cosines(vectors, 9, seed=1)
    assert torch.equal(first, random_pair_cosines(vectors, 9, seed=1))
    assert not torch.equal(first, random_pair_cosines(vectors, 9, seed=2))


# Common directions ------------------------------------------------------------


@pytest.mark.parametrize("components", [0, 1, 3, 8])
def test_removal_equals_numpys_decomposition(components):
    vectors = random_vectors().numpy().astype(np.float64)
    centred = vectors - vectors.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred - centred @ axes[:components].T @ axes[:components]
    found = remove_common(torch.from_numpy(vectors), components)
    assert np.allclose(found.numpy(), expected, atol=1e-10)


def test_removing_the_mean_removes_anisotropy():
    vectors = random_vectors(common=3.0)
    assert mean_cosine(vectors) > 0.5
    assert abs(mean_cosine(remove_common(vectors))) < 0.02


@pytest.mark.parametrize("k", [1, 2, 8])
def test_pca_equals_numpys_decomposition(k):
    vectors = random_vectors()
    data = vectors.numpy().astype(np.float64)
    _, values, axes = np.linalg.svd(data - data.mean(0), full_matrices=False)
    expected = (data - data.mean(0)) @ axes[:k].T
    points, share = pca(vectors, k)
    signs = np.sign((points.numpy() * expected).sum(0))
    assert np.allclose(points.numpy(), expected * signs, atol=1e-5)
    assert share.tolist() == pytest.approx(values[:k] ** 2 / (values**2).sum())
    assert points.dtype == torch.float32


def test_pca_has_signs_that_do_not_flip():
    vectors = random_vectors(width=12)
    points, _ = pca(vectors, 12)
    axes = torch.linalg.lstsq(vectors - vectors.mean(0), points).solution  # [d, k]
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
    assert (largest > 0).all()
    order = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(points[order], pca(vectors[order], 12)[0], atol=1e-4)


def test_pca_of_a_line_by_hand():
    # Along (-1, 3) / √10, each point √2.5 from the middle.
    points, share = pca(torch.tensor([[0.0, 0.0], [1.0, -3.0]]), 1)
    assert points.flatten().tolist() == pytest.approx([2.5**0.5, -(2.5**0.5)])
    assert share.item() == pytest.approx(1)


# Hubs -------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10, 119])
def test_occurrence_counts_neighbour_lists(device, k):
    vectors = random_vectors()
    expected = np.zeros(120, dtype=int)
    for row in range(120):
        for neighbour, _ in most_similar(vectors, row, k, exclude=[row]):
            expected[neighbour] += 1
    found = k_occurrence(vectors.to(device), k)
    assert found.tolist() == expected.tolist()
    assert found.sum() == 120 * k


def test_occurrence_in_many_parts_is_the_same(monkeypatch):
    whole = k_occurrence(random_vectors(), 5)
    monkeypatch.setattr("lib.geometry.isotropy.CELLS_AT_ONCE", 1000)
    assert torch.equal(k_occurrence(random_vectors(), 5), whole)


def test_hubness_is_scipys_skewness():
    vectors = random_vectors(width=30)
    counts = k_occurrence(vectors, 10).numpy()
    assert hubness(vectors, 10) == pytest.approx(stats.skew(counts))


def test_a_common_direction_makes_hubs():
    vectors = random_vectors(800, 50, common=2.0)
    assert hubness(vectors) > 2
    assert abs(hubness(remove_common(vectors))) < 1


# Rotations --------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 50])
def test_a_rotation_is_orthogonal_and_no_reflection(d):
    for seed in range(6):
        rotation = random_rotation(d, seed).double()
        identity = torch.eye(d, dtype=torch.float64)
        assert torch.allclose(rotation @ rotation.T, identity, atol=1e-6)
        assert torch.linalg.det(rotation).item() == pytest.approx(1, abs=1e-5)


def test_a_double_rotation_is_orthogonal_to_fifteen_digits():
    rotation = random_rotation(50, dtype=torch.float64)
    identity = torch.eye(50, dtype=torch.float64)
    assert torch.allclose(rotation @ rotation.T, identity, rtol=0, atol=1e-14)
    assert torch.equal(rotation.float(), random_rotation(50))


def test_rotations_are_uniform():
    # In the plane the angle must be uniform on the circle.
    drawn = torch.stack([random_rotation(2, seed) for seed in range(2000)])
    angles = torch.atan2(drawn[:, 1, 0], drawn[:, 0, 0]).numpy()
    uniform = stats.uniform(-np.pi, 2 * np.pi)
    assert stats.kstest(angles, uniform.cdf).pvalue > 0.01
    # In space each column is a random point of the sphere: its height is uniform.
    drawn = torch.stack([random_rotation(3, seed) for seed in range(2000)])
    for column in range(3):
        heights = drawn[:, 0, column].numpy()
        assert stats.kstest(heights, stats.uniform(-1, 2).cdf).pvalue > 0.01


def test_a_rotation_keeps_neighbours_and_moves_axes():
    vectors = random_vectors(width=20)
    rotated = vectors @ random_rotation(20, seed=1)
    before = [row for row, _ in most_similar(vectors, 0, 10)]
    assert [row for row, _ in most_similar(rotated, 0, 10)] == before
    assert mean_cosine(rotated) == pytest.approx(mean_cosine(vectors), abs=1e-6)
    largest = vectors.abs().argmax(1)
    assert (rotated.abs().argmax(1) == largest).float().mean() < 0.5


def test_rotations_depend_on_the_seed_alone():
    assert torch.equal(random_rotation(4, 7), random_rotation(4, 7))
    assert not torch.allclose(random_rotation(4, 7), random_rotation(4, 8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_cosine(torch.ones(1, 3)), "rows.* 1"),
        (lambda: random_pair_cosines(torch.ones(1, 3), 5), "rows.* 1"),
        (lambda: random_pair_cosines(torch.ones(3, 3), 0), "num_pairs.* 0"),
        (lambda: remove_common(torch.ones(5, 3), -1), "from 0 to 3, got -1"),
        (lambda: remove_common(torch.ones(5, 3), 4), "from 0 to 3, got 4"),
        (lambda: pca(torch.ones(5, 3), 0), "from 1 to 3, got 0"),
        (lambda: pca(torch.ones(5, 3), 4), "from 1 to 3, got 4"),
        (lambda: k_occurrence(torch.ones(5, 3), 0), "from 1 to 4, got 0"),
        (lambda: k_occurrence(torch.ones(5, 3), 5), "from 1 to 4, got 5"),
        (lambda: random_rotation(0), "d .* 0"),
    ],
)
def test_numbers_out_of_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
