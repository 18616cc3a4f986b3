"""Read past the trained length with SmolLM2, under every scaling of RoPE.

`python -m benchmarks rope_scaling` saves `results/rope_scaling.json`. Three stretches
of the King James text are read under every scaling. First 1,024 tokens, in which eight
numbers are planted; then, with a gap in the positions, the 512 tokens that follow. The
gap puts the first part as far back as one likes, at the price of a short text: every
distance between the parts is new to the model, and the number of keys is not. For each
gap there are

- the loss of the 512 tokens, beside that of reading them alone;
- whether the model can still say the numbers: it can if each of the five digits is the
  likeliest next token.

And one text, Ruth, is read on without a gap, to 12,288 tokens, untouched and with YaRN:
the loss of every 1,024 tokens, and the numbers planted in them. A planted sentence is
part of the text, but its own loss is not counted. Everything runs on one thread.
"""

import copy
import random
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.common import keep_freed_memory, machine, save, table
from lib import rope_scaling as scaling
from lib.corpus import load_kjv
from lib.kv_cache import KVCache
from lib.model_facts import PHI3_LONGROPE
from lib.smollm import load_smollm2
from lib.tied_head import tied_cross_entropy

WIDTH, BASE, TRAINED, FACTOR = 64, 1e5, 8192, 2.0
FIRST, PIECE, LONG = 1024, 512, 12_288  # tokens before the gap, at once, of a long text
GAPS = (0, 4096, 7168, 10_240, 14_336, 30_720)
STARTS = {"Ruth": 7128, "Isaiah": 17_655, "Luke": 24_894}  # the first verse of each
NAMES = ["alice", "kevin", "laura", "oscar", "nina", "diego", "sven", "yuki", "tara"]
NAMES += ["hugo", "wendy", "igor"]
LAST = 16  # queries at the end of a piece whose attention is measured
IN_FULL = ("untouched", "YaRN")  # how the long text is read
UNCOUNTED = -100
PHI3 = PHI3_LONGROPE["long_factor"]  # from 4,096 tokens to 131,072


def like_phi3() -> list[float]:
    """Carry Phi-3's list over: the same power of the factor at the same turns."""
    theirs = 4096 / scaling.wavelengths(scaling.rope_inv_freq(96, 1e4)).numpy()
    ours = TRAINED / scaling.wavelengths(scaling.rope_inv_freq(WIDTH, BASE)).numpy()
    power = np.log(PHI3) / np.log(32)  # 0 keeps a pair, 1 divides it by the factor
    at = np.interp(np.log(ours), np.log(theirs[::-1]), power[::-1])
    return (FACTOR**at).tolist()


def ways() -> dict[str, tuple[list[float], float]]:
    """Name each way to read: what it divides the pairs by, and its factor."""
    plain = scaling.rope_inv_freq(WIDTH, BASE)
    given = WIDTH, BASE, FACTOR
    found = {
        "untouched": (plain, 1.0),
        "YaRN": scaling.yarn_inv_freq(*given, TRAINED),
        "PI": scaling.linear_inv_freq(*given),
        "NTK": scaling.ntk_inv_freq(*given),
        "Llama 3": scaling.llama3_inv_freq(*given, 1.0, 4.0, TRAINED),
    }
    divisors = {name: ((plain / w).tolist(), f) for name, (w, f) in found.items()}
    stretch = (1 + np.log(FACTOR) / np.log(TRAINED)) ** 0.5
    frozen = [1.0] * 20 + [1e9] * 12  # the 12 pairs that never finish a turn
    divisors["LongRoPE-like"] = like_phi3(), float(stretch)
    divisors["slow pairs frozen"] = frozen, 1.0
    return divisors


def under(model, divisors: list[float], factor: float):
    """Make a model over the same weights whose pairs are slowed."""
    other = model.with_options()
    position = other.position
    position.inv_freq = position.inv_freq / torch.tensor(divisors, dtype=torch.float64)
    position.attention_factor = factor
    return other


def plant(tokenizer, verse: int, seed: int, tokens: int, apart: int):
    """Make a text with a sentence to remember in the middle of every `apart` tokens.

    Returns:
        ids `[1, tokens + 512]`, targets `[tokens + 512]` of which planted ones do not
        count, and for each sentence its place, number, and the ids of both halves.
    """
    draw, total = random.Random(seed), tokens + PIECE
    words = (word for line in load_kjv()[verse:] for word in line)
    source = tokenizer.encode(" ".join(next(words) for _ in range(total))).ids
    ids, planted, needles = [], [], []
    for name in NAMES[: tokens // apart]:
        place = len(needles) * apart + apart // 2
        digits = "".join(str(draw.randrange(10)) for _ in range(5))
        asked = tokenizer.encode(f" the secret number of {name} is ").ids
        answer = tokenizer.encode(digits).ids
        read = len(ids) - len(planted)
        ids += source[read : read + place - len(ids)] + asked + answer
        planted += range(place, len(ids))
        needles.append((place, digits, asked, answer))
    ids = torch.tensor((ids + source[len(ids) - len(planted) :])[:total])
    targets = ids.clone()
    targets[planted] = UNCOUNTED
    targets = targets.roll(-1)
    targets[-1] = UNCOUNTED
    return ids[None], targets, needles


def watch(model, log: list[list[float]]) -> None:
    """Have a model write down its attention's entropy, as it is and with no factor.

    Args:
        model: with a position of its own, which is changed.
        log: takes two numbers a layer and piece, in nats, means over heads and queries.
    """
    position, hide = model.position, torch.full((LAST, LAST), -torch.inf).triu(1)

    def attend(q, k, v, places, price):
        if q.shape[2] == PIECE:
            k_all = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
            scores = q[:, :, -LAST:] @ k_all.mT / q.shape[-1] ** 0.5  # [1, H, 16, keys]
            scores[..., -LAST:] += hide
            both = torch.stack([scores, scores / position.attention_factor**2])
            entropy = torch.special.entr(both.softmax(-1)).sum(-1)  # [2, 1, H, 16]
            log.append(entropy.mean((1, 2, 3)).tolist())
        return type(position).attend(position, q, k, v, places, price)

    position.attend = attend


def loss_of(model, text: tuple, part: slice, gap: int = 0, cache=None) -> float:
    """Read a part of a text, its positions moved on by a gap; the mean loss."""
    ids, targets, _ = text
    positions = torch.arange(part.start, part.stop) + gap
    hidden = model.hidden(ids[:, part], positions, cache)[0]
    return tied_cross_entropy(hidden, model.embedding.weight, targets[part]).item()


def ask(model, needles: list, cache: KVCache, gap: int = 0) -> list[dict]:
    """Ask for every number after what was read, with the cache left as it was."""
    answers = []
    for place, number, question, answer in needles:
        ids = torch.tensor([question + answer[:-1]])
        positions = torch.arange(ids.shape[1]) + cache.seq_len + gap
        logits = model(ids, positions, copy.deepcopy(cache))[0, -len(answer) :]
        said, nats = logits.argmax(-1), cross_entropy(logits, torch.tensor(answer))
        told = {"place": place, "number": number, "right": said.tolist() == answer}
        answers.append(told | {"nats a digit": nats.item()})
    return answers


@torch.inference_mode()
def read_apart(model, text: tuple) -> dict:
    """Read the first part, then the second at every gap, and by itself."""
    cache, log, last = KVCache(model.config.num_layers), [], slice(FIRST, FIRST + PIECE)
    watch(model, log)
    pieces = [slice(begin, begin + PIECE) for begin in range(0, FIRST, PIECE)]
    first = [loss_of(model, text, piece, cache=cache) for piece in pieces]
    entropies = torch.tensor(log).view(len(pieces), -1, 2).mean(1)  # [pieces, 2]
    at = [
        {
            "gap": gap,
            "loss": loss_of(model, text, last, gap, copy.deepcopy(cache)),
            "numbers": ask(model, text[2], cache, gap),
        }
        for gap in GAPS
    ]
    found = {"first": first, "alone": loss_of(model, text, last), "at": at}
    return found | dict(
        zip(("entropy", "no factor"), entropies.T.tolist(), strict=True)
    )


@torch.inference_mode()
def read_on(model, text: tuple) -> dict:
    """Read a long text in pieces, then ask for its numbers."""
    cache, log = KVCache(model.config.num_layers), []
    watch(model, log)
    pieces = [slice(begin, begin + PIECE) for begin in range(0, LONG, PIECE)]
    means = torch.tensor([loss_of(model, text, piece, cache=cache) for piece in pieces])
    counts = (text[1][:LONG] != UNCOUNTED).view(-1, PIECE).sum(1)  # of each piece
    sums, counts = (x.view(-1, 2).sum(1) for x in (means * counts, counts))
    found = {"loss": (sums / counts).tolist(), "numbers": ask(model, text[2], cache)}
    entropies = torch.tensor(log).view(len(pieces), -1, 2).mean(1)  # [pieces, 2]
    return found | dict(
        zip(("entropy", "no factor"), entropies.T.tolist(), strict=True)
    )


def main() -> None:
    """Read, print and save."""
    torch.set_num_threads(1)
    keep_freed_memory(True)
    model, tokenizer = load_smollm2("cpu", torch.float32)
    setting = {"trained": TRAINED, "factor": FACTOR, "gaps": GAPS, "first": FIRST}
    setting |= {"divisors": {way: given[0] for way, given in ways().items()}}
    apart, begin = [], time.perf_counter()
    for seed, (name, verse) in enumerate(STARTS.items()):
        text = plant(tokenizer, verse, seed, FIRST, FIRST // 8)
        for way, given in ways().items():
            found = read_apart(under(model, *given), text)
            apart.append({"text": name, "way": way} | found)
            row = {"text": name, "way": way, "alone": found["alone"]}
            row |= {f"gap {at['gap']}": at["loss"] for at in found["at"]}
            row |= {"minutes": (time.perf_counter() - begin) / 60}
            print(table([row]), flush=True)
    text, whole = plant(tokenizer, STARTS["Ruth"], 0, LONG, 1024), {}
    for way in IN_FULL:
        whole[way] = read_on(under(model, *ways()[way]), text)
        print(way, [round(loss, 2) for loss in whole[way]["loss"]], flush=True)
    results = {**setting, "apart": apart, "whole": whole}
    save("rope_scaling", {"machine": machine(), **results})


if __name__ == "__main__":
    main()
