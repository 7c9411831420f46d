"""Sums over pairs of words of a weight of their Hamming distance, by definition."""

from itertools import product

import numpy as np


def word_pairs(letters, starts, place_weights, left_rows, right_rows, length, weights):
    """Return the sum of weights[d] over pairs of words without the letter 255, d their number of different letters."""

    def words(row):
        places = range(starts[row], starts[row + 1] - length + 1)
        places = [at for at in places if not (letters[at : at + length] == 255).any()]
        some = np.array([letters[at : at + length] for at in places]).reshape(-1, length)
        return some, np.ones(len(places)) if place_weights is None else place_weights[places]

    h = np.zeros(length + 1)
    h[: len(weights)] = weights
    out = np.zeros((len(left_rows), len(right_rows)))
    for (i, left), (j, right) in product(enumerate(left_rows), enumerate(right_rows)):
        (s, v), (t, w) = words(left), words(right)
        out[i, j] = v @ h[(s[:, None] != t[None]).sum(axis=2)] @ w
    return out


def word_transform(length, weights, n_letters, table):
    """Return H @ table for the matrix of weights[d] between all words."""
    return distance_matrix(length, n_letters, weights) @ table


def distance_matrix(length, n_letters, weights):
    """Return weights[d] between all words, 0 where there is no weight."""
    words = np.array(list(product(range(n_letters), repeat=length)))
    h = np.zeros(length + 1)
    h[: len(weights)] = weights
    return h[(words[:, None] != words[None]).sum(axis=2)]


def estimates(length, informative, n_letters):
    """Return the weights of the projection on what counts of words with gaps determine, by distance."""
    gapped = [comb_or_0(length - d, informative) for d in range(length + 1)]
    values, vectors = np.linalg.eigh(distance_matrix(length, n_letters, gapped))
    some = vectors[:, values > 1e-9]
    return _by_distance(some @ some.T, length, n_letters)


def truncated_estimates(length, informative, n_letters):
    """Return the weights of products of the estimates without distances from the first negative weight on."""
    h = estimates(length, informative, n_letters)
    first = next((d for d, weight in enumerate(h) if weight < -1e-12), len(h))
    matrix = distance_matrix(length, n_letters, h[:first])
    return _by_distance(matrix @ matrix, length, n_letters)


def _by_distance(matrix, length, n_letters):
    words = list(product(range(n_letters), repeat=length))
    return [matrix[0, words.index((0,) * (length - d) + (1,) * d)] for d in range(length + 1)]


def comb_or_0(n, k):
    """Return the number of sets of k of n places."""
    return 0 if k > n else int(np.prod([(n - i) / (i + 1) for i in range(k)]) + 0.5)


def add_to_words(letters, starts, place_weights, length, n_letters, first, last, coefficients, table):
    """Add the coefficient of each row to the numbers of its words, times the weight of their places."""
    for row in range(first, last):
        for number, weight in _words_of(letters, starts, place_weights, length, n_letters, row):
            table[number] += weight * coefficients[row]


def sum_over_words(letters, starts, place_weights, length, n_letters, first, last, table, sums):
    """Store the sum of the numbers of the words of each row, times the weights of their places."""
    for row in range(first, last):
        words = _words_of(letters, starts, place_weights, length, n_letters, row)
        sums[row] = sum(weight * table[number] for number, weight in words)


def _words_of(letters, starts, place_weights, length, n_letters, row):
    """Return the number and the weight of each word of a row whose letters are all in the alphabet."""
    powers = n_letters ** np.arange(length)[::-1]
    words = []
    for at in range(starts[row], starts[row + 1] - length + 1):
        word = letters[at : at + length]
        if ((word >= 0) & (word < n_letters)).all():
            words.append((int(word @ powers), 1.0 if place_weights is None else place_weights[at]))
    return words
