"""Read texts past the trained length with SmolLM2 under every scaling of RoPE.

`python -m benchmarks rope_scaling` reads three stretches of the King James text, 10,240
tokens each, and saves `results/rope_scaling.json`. Up to the trained length, 8,192, the
model is untouched, and its cache holds keys without their rotation; from there on the
same text is read once under every scaling, which rotates all keys anew, the old ones
too. So a scaling pays nothing in short texts, and a reading of it costs a third. What
each would cost in a short text is measured too, by reading the first 1,024 tokens under
it from the start. One reading gives three things:

- the loss of each token, averaged over every 512 places;
- whether the model can still say a number that was planted 512 to 9,728 tokens back:
  it can if each of the five digits is the likeliest next token;
- the entropy of attention, with the scaling's own factor and with that divided out.

The planted sentences are part of the text, but their own loss is not counted.
"""

import argparse
import copy
import random
import time

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.common import keep_freed_memory, machine, save, table
from lib import rope_scaling as scaling
from lib.corpus import load_kjv
from lib.kv_cache import KVCache
from lib.smollm import load_smollm2
from lib.tied_head import tied_cross_entropy

WIDTH, BASE, TRAINED, TOKENS, FACTOR = 64, 1e5, 8192, 10_240, 2.0
PIECE, APART, SHORT = 512, 1024, 1024  # tokens at once, between needles, short texts
STARTS = {"Ruth": 7128, "Isaiah": 17_655, "Luke": 24_894}  # the first verse of each
NAMES = ["alice", "kevin", "laura", "oscar", "nina", "diego", "sven", "yuki", "tara"]
NAMES += ["hugo"]
LAST = 16  # queries at the end of a piece whose attention is measured
UNCOUNTED = -100

# The list for long texts of Phi-3-mini-128k: 48 pairs, base 1e4, 4,096 to 131,072.
PHI3 = [1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.3, 1.45, 1.6, 1.65, 1.9, 2.86, 3.69, 5.42]
PHI3 += [5.49, 5.49, 9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01]
PHI3 += [32.35, 32.59, 35.56, 39.95, 53.84, 56.2, 57.95, 59.29, 59.77, 59.92, 61.19]
PHI3 += [61.96, 62.5, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.8]
PHI3 += [64.81, 64.81]


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
    divisors["YaRN, no factor"] = divisors["YaRN"][0], 1.0
    divisors["slow pairs frozen"] = frozen, 1.0
    return divisors


def under(model, divisors: list[float], factor: float):
    """Divide the speeds of the pairs at every length; keys are cached unrotated."""
    lists = {"short_factor": divisors, "long_factor": divisors}
    parameters = {"rope_type": "longrope", "attention_factor": factor, **lists}
    parameters |= {"original_max_position_embeddings": TRAINED}
    return model.with_options(rope_parameters=parameters)


def plant(tokenizer, verse: int, seed: int) -> tuple[Tensor, Tensor, list]:
    """Make a text of 10,240 tokens with a sentence to remember in every 1,024.

    Returns:
        ids `[1, T]`, targets `[T]` of which planted ones do not count, and for each
        sentence its place, name and number, and the ids of both its halves.
    """
    draw = random.Random(seed)
    words = (word for line in load_kjv()[verse:] for word in line)
    source = tokenizer.encode(" ".join(next(words) for _ in range(TOKENS))).ids
    ids, planted, needles = [], [], []
    for name in NAMES:
        place = len(needles) * APART + APART // 2
        digits = "".join(str(draw.randrange(10)) for _ in range(5))
        asked = tokenizer.encode(f" the secret number of {name} is ").ids
        answer = tokenizer.encode(digits).ids
        read = len(ids) - len(planted)
        ids += source[read : read + place - len(ids)] + asked + answer
        planted += range(place, len(ids))
        needles.append((place, name, digits, asked, answer))
    ids = torch.tensor((ids + source[len(ids) - len(planted) :])[:TOKENS])
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


def ask(model, cache: KVCache, question: list[int], answer: list[int]) -> dict:
    """Ask for one number, with the cache left as it was."""
    ids = torch.tensor([question + answer[:-1]])
    logits = model(ids, cache=copy.deepcopy(cache))[0, -len(answer) :]  # [5, V]
    said = logits.argmax(-1).tolist()
    nats = cross_entropy(logits, torch.tensor(answer)).item()
    return {"right": said == answer, "said": said, "nats a digit": nats}


@torch.inference_mode()
def read(model, text: tuple, cache: KVCache, stop: int) -> dict:
    """Read on to a place, in pieces, then ask for the numbers told so far."""
    (ids, targets, needles), log, losses, start = text, [], [], cache.seq_len
    watch(model, log)
    for begin in range(start, stop, PIECE):
        piece = slice(begin, begin + PIECE)
        hidden = model.hidden(ids[:, piece], cache=cache)[0]
        given = hidden, model.embedding.weight, targets[piece]
        losses.append(tied_cross_entropy(*given).item())
    answers = [
        {"place": place, "name": name, "number": number} | ask(model, cache, *halves)
        for place, name, number, *halves in needles
        if place < stop
    ]
    entropies = torch.tensor(log).view(len(losses), -1, 2).mean(1)  # [pieces, 2]
    found = {"from": start, "to": stop, "loss": losses, "numbers": answers}
    with_factor, without = entropies.T.tolist()
    return found | {"entropy": with_factor, "entropy, no factor": without}


def readings_of(text: tuple, model):
    """Read one text to the trained length, then on under every way, and yield each."""
    cache = KVCache(model.config.num_layers)
    plain = [1.0] * (WIDTH // 2), 1.0
    yield "untouched", read(under(model, *plain), text, cache, TRAINED)
    for way, given in ways().items():
        yield way, read(under(model, *given), text, copy.deepcopy(cache), TOKENS)
    for way, given in ways().items():
        fresh = KVCache(model.config.num_layers)
        yield way, read(under(model, *given), text, fresh, SHORT)


def main() -> None:
    """Read, print and save after each text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=len(STARTS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory(True)
    model, tokenizer = load_smollm2("cpu", torch.float32)
    setting = {"trained": TRAINED, "tokens": TOKENS, "piece": PIECE, "factor": FACTOR}
    setting |= {"divisors": {way: given[0] for way, given in ways().items()}}
    readings, begin = [], time.perf_counter()
    for seed, (name, verse) in list(enumerate(STARTS.items()))[: arguments.texts]:
        for way, found in readings_of(plant(tokenizer, verse, seed), model):
            for told in found["numbers"]:
                told["said"] = tokenizer.decode(told["said"])
            readings.append({"text": name, "way": way} | found)
            mean, right = np.mean(found["loss"]), [t["right"] for t in found["numbers"]]
            row = {"text": name, "way": way, "from": found["from"], "to": found["to"]}
            row |= {"mean loss": float(mean), "numbers": f"{sum(right)}/{len(right)}"}
            row |= {"minutes so far": (time.perf_counter() - begin) / 60}
            print(table([row]).splitlines()[-1], flush=True)
        save("rope_scaling", {"machine": machine(), **setting, "readings": readings})


if __name__ == "__main__":
    main()
