# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The pipelines: few in which each two values of two axes that can be together are together once."""

import itertools
import random

from axes import AXES, EXCLUDED, FOUND

SEED = 34
CANDIDATES = 200


def why_not(pipeline):
    """Why this combination cannot be; None: it can."""
    return next((reason for reason, has in EXCLUDED if has(pipeline)), None)


def text(pipeline):
    return " ".join(pipeline[axis] for axis in AXES)


def parse(words):
    """The pipeline of a text, whole."""
    values = words.split()
    if len(values) != len(AXES) or any(value not in AXES[axis] for axis, value in zip(AXES, values)):
        raise ValueError(f"\"{words}\" is no pipeline: give one of each: "
                         + "; ".join(f"{axis}: {', '.join(known)}" for axis, known in AXES.items()))
    pipeline = dict(zip(AXES, values))
    if why_not(pipeline):
        raise ValueError(f"\"{words}\" cannot be: {why_not(pipeline)}")
    return pipeline


def pairs_in(pipeline):
    return set(itertools.combinations(pipeline.items(), 2))


def generate():
    """Those that failed once, and then what covers the pairs that are left: the best of some random candidates, again
    and again."""
    possible = [dict(zip(AXES, values)) for values in itertools.product(*AXES.values())]
    possible = [pipeline for pipeline in possible if not why_not(pipeline)]
    chosen = [parse(words) for words in FOUND]
    missing = set().union(*map(pairs_in, possible)).difference(*map(pairs_in, chosen))
    by_pair = {}
    for pipeline in possible:
        for pair in pairs_in(pipeline) & missing:
            by_pair.setdefault(pair, []).append(pipeline)
    choice = random.Random(SEED)
    while missing:
        rarest = min(missing, key=lambda pair: (len(by_pair[pair]), pair))
        candidates = [by_pair[rarest][choice.randrange(len(by_pair[rarest]))] for _ in range(CANDIDATES)]
        best = max(candidates, key=lambda pipeline: len(pairs_in(pipeline) & missing))
        chosen.append(best)
        missing -= pairs_in(best)
    return chosen


def impossible():
    """The pairs that no pipeline has, each with the reason of the last one that was tried."""
    possible, reasons = set(), {}
    for values in itertools.product(*AXES.values()):
        pipeline = dict(zip(AXES, values))
        reason = why_not(pipeline)
        for pair in pairs_in(pipeline):
            if reason:
                reasons.setdefault(pair, set()).add(reason)
            else:
                possible.add(pair)
    return {pair: reasons[pair] for pair in sorted(reasons) if pair not in possible}
