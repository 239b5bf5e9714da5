# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of the benchmarks: medians, MAD and bootstrap intervals, nothing else.

Called by run_ab.py, run, ab, tune and the plots. Pure functions of their arguments: the same
input gives the same output, because the resampling starts from a fixed seed. numpy is used where
it is installed and not needed.
"""

import random

try:
    import numpy
except ImportError:  # the distribution's matplotlib brings it; the tests run without
    numpy = None

RESAMPLES = 10000
SEED = 20100131
CONFIDENCE = 0.95
# Smaller effects than this are not called a difference, however narrow the interval is.
LEAST_EFFECT = 0.02


def median(values):
    """Median of a non-empty sequence."""
    v = sorted(values)
    if not v:
        raise ValueError("median of nothing")
    middle = len(v) // 2
    return v[middle] if len(v) % 2 else (v[middle - 1] + v[middle]) / 2


def mad(values):
    """Median absolute deviation from the median (not scaled)."""
    m = median(values)
    return median([abs(x - m) for x in values])


def quantile(values, p):
    """Quantile by linear interpolation between order statistics; p in 0..1."""
    v = sorted(values)
    if not v:
        raise ValueError("quantile of nothing")
    at = p * (len(v) - 1)
    low = int(at)
    high = min(low + 1, len(v) - 1)
    return v[low] + (v[high] - v[low]) * (at - low)


def bootstrap_median(values, resamples=RESAMPLES, seed=SEED, confidence=CONFIDENCE):
    """Percentile bootstrap interval of the median: (low, high).

    With fewer than three values no interval can be had: (None, None).
    """
    n = len(values)
    if n < 3:
        return None, None
    tail = (1 - confidence) / 2
    if numpy is not None:
        data = numpy.asarray(values, dtype=float)
        pick = numpy.random.default_rng(seed).integers(0, n, (resamples, n))
        medians = numpy.median(data[pick], axis=1)
        low, high = numpy.quantile(medians, [tail, 1 - tail])
        return float(low), float(high)
    rng = random.Random(seed)
    medians = [median(rng.choices(values, k=n)) for _ in range(resamples)]
    return quantile(medians, tail), quantile(medians, 1 - tail)


def paired_ratio(a, b, **options):
    """Ratio b/a of two sequences measured in pairs: (median of the ratios, low, high).

    Pairing removes what disturbed both members alike; the interval is that of the ratio itself,
    not one made from two intervals. Pairs in which one side is missing (None) are left out.
    """
    ratios = [y / x for x, y in zip(a, b) if x and y]
    if not ratios:
        return None, None, None
    low, high = bootstrap_median(ratios, **options)
    return median(ratios), low, high


def unpaired_ratio(a, b, resamples=RESAMPLES, seed=SEED, confidence=CONFIDENCE):
    """Ratio of the medians b/a of two independent samples: (ratio, low, high).

    Both samples are resampled; an interval needs three values on each side.
    """
    ratio = median(b) / median(a) if median(a) else None
    if ratio is None or min(len(a), len(b)) < 3:
        return ratio, None, None
    rng = random.Random(seed)
    ratios = []
    for _ in range(min(resamples, 2000)):
        below = median(rng.choices(a, k=len(a)))
        if below:
            ratios.append(median(rng.choices(b, k=len(b))) / below)
    tail = (1 - confidence) / 2
    return ratio, quantile(ratios, tail), quantile(ratios, 1 - tail)


def crossover(sizes, first, second):
    """The first size from which `second` beats `first` by the least effect all over an octave.

    first and second map size to time; sizes that one of them lacks are passed over. A single lucky
    cell does not count, except that the last octave may be cut short by the end of the list.
    Returns None if there is none.
    """
    both = sorted(s for s in sizes if s in first and s in second)
    for s in both:
        octave = [t for t in both if s <= t <= 2 * s]
        ahead = all(second[t] < (1 - LEAST_EFFECT) * first[t] for t in octave)
        if ahead and (len(octave) > 1 or len(both) == 1):
            return s
    return None


def verdict(ratio, low, high, less_is_better=True, least=LEAST_EFFECT):
    """'faster', 'slower' or 'same' for a ratio new/old with its interval.

    A difference is claimed only if the interval excludes 1 and the effect exceeds `least`.
    'unknown' stands for too few pairs.
    """
    if ratio is None or low is None:
        return "unknown"
    if low <= 1.0 <= high or abs(ratio - 1.0) < least:
        return "same"
    return "faster" if (ratio < 1.0) == less_is_better else "slower"
