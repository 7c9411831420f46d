// Kernels of words: sums over pairs of words of a weight h(d) of the number d of places with different letters.
#pragma once

#include <cstdint>

namespace mercer {

// The letters of all rows; a letter is a number below 255, and a word with the letter 255 does not count.
struct WordsView {
    const uint8_t* letters;
    const double* place_weights;  // of the word that begins at a letter, or null if all words count once
    const int64_t* starts;        // row i is letters[starts[i]] .. letters[starts[i + 1] - 1]
    const int64_t* rows;          // indices of the rows in this view
    int64_t count;

    int64_t length(int64_t i) const { return starts[rows[i] + 1] - starts[rows[i]]; }
};

// The words of a kernel: h(d) = weights[d] for d < n_weights, else 0. Words have at most 127 letters.
struct WordWeights {
    int64_t length;
    const double* weights;
    int64_t n_weights;
};

// out[i * out_stride + j] = the sum of h(d) over all pairs of a word of left_i and a word of right_j.
using WordPairs = void (*)(const WordsView& left, const WordsView& right, const WordWeights& words, double* out,
                           int64_t out_stride);

// table[u] = the sum over all words v of h(d(u, v)) table[v], for a table of all n_letters^length words. `planes` has
// room for n_weights - 1 tables.
using WordTransform = void (*)(const WordWeights& words, int64_t n_letters, double* table, double* planes);

namespace baseline {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordWeights&, int64_t, double*, double*);
}  // namespace baseline
namespace avx2 {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordWeights&, int64_t, double*, double*);
}  // namespace avx2
namespace avx512 {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordWeights&, int64_t, double*, double*);
}  // namespace avx512

}  // namespace mercer
