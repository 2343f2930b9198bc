"""A numeric program as people write them: no mention of nbcache, no ``cache=True``.

Part one measures real text, the source of Python's standard library (a few hundred files, several megabytes): lengths
of lines, their quantiles, histogram, kernel density and entropy. Part two prices an option in closed form and by
Monte Carlo.
Prints one result a line with all its digits, so that two runs can be compared as text.
"""

import glob
import math
import os
import sysconfig

import numpy as np
from numba import float64, guvectorize, njit, prange, vectorize

# --- part one: the text of the standard library ---------------------------------------------------------------------


def read_text():
    """Return the bytes of the standard library's modules, in a fixed order, as one array."""
    folder = sysconfig.get_paths()["stdlib"]
    parts = []
    for path in sorted(glob.glob(os.path.join(folder, "*.py")) + glob.glob(os.path.join(folder, "*", "*.py"))):
        if "site-packages" not in path:
            with open(path, "rb") as file:
                parts.append(np.frombuffer(file.read(), dtype=np.uint8))
    return np.concatenate(parts)


@njit
def line_lengths(text):
    """Lengths of the lines [bytes], without their line ends."""
    count = 0
    for byte in text:
        if byte == 10:
            count += 1
    lengths = np.empty(count, dtype=np.int64)
    start = 0
    line = 0
    for i in range(text.size):
        if text[i] == 10:
            lengths[line] = i - start
            start = i + 1
            line += 1
    return lengths


@njit
def quantiles(values, at):
    """Quantiles by sorting and linear interpolation."""
    ordered = np.sort(values)
    out = np.empty(at.size)
    for i in range(at.size):
        position = at[i] * (ordered.size - 1)
        below = int(position)
        above = min(below + 1, ordered.size - 1)
        out[i] = ordered[below] + (ordered[above] - ordered[below]) * (position - below)
    return out


@njit
def entropy(counts):
    """Shannon entropy of a histogram [bit]."""
    total = counts.sum()
    bits = 0.0
    for count in counts:
        if count > 0:
            share = count / total
            bits -= share * math.log2(share)
    return bits


@njit
def silverman_bandwidth(values):
    """Silverman's rule of thumb for the width of the kernel."""
    spread = quantiles(values, np.array([0.25, 0.75]))
    sigma = min(np.std(values), (spread[1] - spread[0]) / 1.34)
    return 0.9 * sigma * values.size ** (-0.2)


@njit
def gauss(x):
    """Density of the standard normal distribution."""
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


@njit(parallel=True)
def kernel_density(sample, grid):
    """Gaussian kernel density estimate of `sample` at each point of `grid`."""
    bandwidth = silverman_bandwidth(sample)
    density = np.empty(grid.size)
    for i in prange(grid.size):
        total = 0.0
        for x in sample:
            total += gauss((grid[i] - x) / bandwidth)
        density[i] = total / (sample.size * bandwidth)
    return density


@guvectorize([(float64[:], float64, float64[:])], "(n),()->(n)")
def smooth(values, alpha, out):
    """Exponential smoothing of each row."""
    level = values[0]
    for i in range(values.size):
        level += alpha * (values[i] - level)
        out[i] = level


# --- part two: an option's price ------------------------------------------------------------------------------------


@vectorize([float64(float64)])
def normal_cdf(x):
    """Distribution function of the standard normal distribution."""
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


@njit
def black_scholes_call(spot, strikes, years, rate, volatility):
    """Prices of European calls in closed form."""
    spread = volatility * math.sqrt(years)
    d1 = (np.log(spot / strikes) + (rate + 0.5 * volatility**2) * years) / spread
    return spot * normal_cdf(d1) - strikes * math.exp(-rate * years) * normal_cdf(d1 - spread)


@njit
def terminal_price(spot, years, rate, volatility, shock):
    """Price at expiry of a geometric Brownian motion, given a standard normal shock."""
    return spot * math.exp((rate - 0.5 * volatility**2) * years + volatility * math.sqrt(years) * shock)


@njit
def monte_carlo_call(spot, strikes, years, rate, volatility, paths, seed):
    """The same prices by simulation with antithetic pairs."""
    np.random.seed(seed)
    totals = np.zeros(strikes.size)
    for _ in range(paths):
        shock = np.random.standard_normal()
        up = terminal_price(spot, years, rate, volatility, shock)
        down = terminal_price(spot, years, rate, volatility, -shock)
        for k in range(strikes.size):
            totals[k] += 0.5 * (max(up - strikes[k], 0.0) + max(down - strikes[k], 0.0))
    return totals * math.exp(-rate * years) / paths


@njit
def implied_volatility(price, spot, strike, years, rate):
    """The volatility at which the closed form gives `price`, by bisection."""
    low, high = 1e-4, 4.0
    strikes = np.array([strike])
    for _ in range(60):
        middle = 0.5 * (low + high)
        if black_scholes_call(spot, strikes, years, rate, middle)[0] < price:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def show(label, values):
    """Print one result with all its digits."""
    print(f"{label:28s}", *(repr(float(value)) for value in np.atleast_1d(values)))


def main():
    """Run both parts."""
    text = read_text()
    lengths = line_lengths(text).astype(np.float64)
    show("text [bytes], lines", [text.size, lengths.size])
    show("line length, quantiles", quantiles(lengths, np.array([0.1, 0.5, 0.9, 0.99])))
    show("entropy of bytes [bit]", entropy(np.bincount(text, minlength=256)))
    density = kernel_density(lengths[:: max(1, lengths.size // 4000)], np.linspace(0.0, 100.0, 101))
    show("densest at length", np.argmax(density))
    show("density, smoothed", smooth(np.stack((density, density[::-1])), 0.25)[:, -1])

    strikes = np.array([80.0, 100.0, 120.0])
    closed = black_scholes_call(100.0, strikes, 0.5, 0.02, 0.25)
    show("calls, closed form", closed)
    show("calls, Monte Carlo", monte_carlo_call(100.0, strikes, 0.5, 0.02, 0.25, 200_000, 7))
    show("implied volatility", implied_volatility(closed[1], 100.0, 100.0, 0.5, 0.02))


if __name__ == "__main__":
    main()
