"""M-RoPE beside transformers: numbering a batch, and the tables of cos and sin.

`python -m benchmarks.bench_mrope` prints two tables and saves `results/mrope.json`.
"""

import functools
import types

import torch
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import (
    Qwen2VLModel,
    Qwen2VLRotaryEmbedding,
)
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from benchmarks.common import interleave, machine, medians, save, table
from lib.mrope import mrope_cos_sin, mrope_position_ids
from lib.rope import rope_inv_freq

BASE = 1e6
IMAGE, SMALL, VIDEO = (1, 36, 48), (1, 8, 12), (4, 24, 32)  # patches, merged 2 × 2
# name: rows, tokens of a row, the images and videos of each row
BATCHES = {
    "1 × 2,048, 1 image": (2048, [[IMAGE]], [[]]),
    "1 × 8,192, 8 images": (8192, [[IMAGE] * 8], [[]]),
    "4 × 8,192, 8 images and 2 videos in all": (
        8192,
        [[IMAGE] * 2] * 4,
        [[VIDEO], [], [VIDEO], []],
    ),
    "4 × 8,192, 8 images and 2 videos each": (
        8192,
        [[IMAGE] * 8] * 4,
        [[VIDEO] * 2] * 4,
    ),
    "16 × 4,096, 64 small images each": (4096, [[SMALL] * 64] * 16, [[]] * 16),
}


def token_types(length: int, images: list, videos: list) -> list[int]:
    """One row: the images, then the videos, with text of equal lengths around them."""
    seen = [(1, grid) for grid in images] + [(2, grid) for grid in videos]
    sizes = [t * h * w // 4 for _, (t, h, w) in seen]
    gap = (length - sum(sizes)) // (len(seen) + 1)
    row = []
    for (kind, _), size in zip(seen, sizes, strict=True):
        row += [0] * gap + [kind] * size
    return row + [0] * (length - len(row))


def batch(length: int, images: list, videos: list, padding: int) -> dict:
    """The arguments of both functions; padding takes the first tokens of odd rows."""
    rows = [token_types(length, *seen) for seen in zip(images, videos, strict=True)]
    grids = {
        "image_grid_thw": [grid for row in images for grid in row],
        "video_grid_thw": [grid for row in videos for grid in row],
    }
    arguments = {k: torch.tensor(v) if v else None for k, v in grids.items()}
    mask = torch.ones(len(rows), length, dtype=torch.int64)
    mask[1::2, :padding] = 0
    return {"token_types": torch.tensor(rows), **arguments, "mask": mask}


def reference(token_types, image_grid_thw, video_grid_thw, mask=None):
    """`get_rope_index` of transformers, which reads nothing else of its model."""
    vision = types.SimpleNamespace(spatial_merge_size=2)
    bare = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=vision))
    bare.get_vision_position_ids = functools.partial(
        Qwen2VLModel.get_vision_position_ids, bare
    )
    return Qwen2VLModel.get_rope_index(
        bare, token_types, token_types, image_grid_thw, video_grid_thw, mask
    )


def numbering(rounds: int) -> list[dict]:
    """Milliseconds of both, without a mask and with 20 padded tokens in odd rows."""
    results = []
    for name, (length, images, videos) in BATCHES.items():
        for padding in (0, 20):
            arguments = batch(length, images, videos, padding)
            if not padding:
                del arguments["mask"]
            calls = {
                "ours": functools.partial(mrope_position_ids, **arguments),
                "transformers": functools.partial(reference, **arguments),
            }
            ours, theirs = (call() for call in calls.values())
            assert all(map(torch.equal, ours, theirs)), name
            ms = {k: 1e3 * s for k, s in medians(interleave(calls, rounds, 3)).items()}
            results.append(
                {
                    "batch": name,
                    "mask": "left padding" if padding else "none",
                    **{f"{k}, ms": v for k, v in ms.items()},
                    "times faster": ms["transformers"] / ms["ours"],
                }
            )
    return results


def peers() -> dict:
    """name → the rotary module, its section, whether it interleaves."""
    heads = {"hidden_size": 512, "num_attention_heads": 4}  # of width 128
    rope = {"rope_type": "default", "rope_theta": BASE}
    two = {**rope, "mrope_section": [16, 24, 24]}
    three = {**rope, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    config2 = Qwen2VLTextConfig(**heads, rope_parameters=two)
    config3 = Qwen3VLTextConfig(**heads, head_dim=128, rope_parameters=three)
    return {
        "Qwen2-VL": (Qwen2VLRotaryEmbedding(config2), (16, 24, 24), False),
        "Qwen3-VL": (Qwen3VLTextRotaryEmbedding(config3), (24, 20, 20), True),
    }


def error(cos: torch.Tensor, positions: torch.Tensor) -> float:
    """Largest error of cos against float64 angles, where the three rows are equal."""
    inv_freq = BASE ** (-torch.arange(64, dtype=torch.float64) / 64)
    exact = (positions[0, ..., None] * inv_freq).cos()
    return (cos[..., :64] - exact).abs().max().item()


def tables(rounds: int) -> list[dict]:
    """Milliseconds and errors of cos and sin, fp32, width 128."""
    results = []
    for name, (module, section, interleaved) in peers().items():
        for rows, length in ((1, 1), (1, 2048), (4, 8192)):
            positions = torch.arange(length).expand(3, rows, length).contiguous()
            x, inv_freq = torch.zeros(1), rope_inv_freq(128, BASE)
            arguments = (positions, inv_freq, section, interleaved)
            calls = {
                "ours": functools.partial(mrope_cos_sin, *arguments),
                "transformers": functools.partial(module, x, positions),
            }
            cos = {k: call()[0] for k, call in calls.items()}
            ms = {k: 1e3 * s for k, s in medians(interleave(calls, rounds, 3)).items()}
            results.append(
                {
                    "model": name,
                    "positions": f"{rows} × {length:,}",
                    **{f"{k}, ms": v for k, v in ms.items()},
                    "times faster": ms["transformers"] / ms["ours"],
                    **{f"{k}, error": error(c, positions) for k, c in cos.items()},
                }
            )
    return results


def main() -> None:
    torch.set_num_threads(1)
    results = {"numbering": numbering(rounds=21), "tables": tables(rounds=11)}
    for rows in results.values():
        print(table(rows), end="\n\n")
    save("mrope", {"machine": machine("transformers"), **results})


if __name__ == "__main__":
    main()
