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

// A table of numbers of all n_letters^length words; the last letter of a word varies fastest. On words with j places of
// differences, H has the eigenvalue eigenvalues[j], j = 0, ..., length.
struct WordTable {
    int64_t length, n_letters;
    const double* eigenvalues;
    double* table;
};

// The stages of table <- H table. Each consists of independent units: the first places to differences, the last places
// to differences, times the eigenvalues, and back, and the first places back.
constexpr int kToDifferences = 0, kLastPlaces = 1, kFromDifferences = 2;

// Does units first .. last - 1 of a stage.
using WordTransform = void (*)(const WordTable&, int stage, int64_t first, int64_t last, int n_threads);

// Returns the number of units of a stage.
using TransformUnits = int64_t (*)(const WordTable&, int stage);

namespace baseline {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordTable&, int, int64_t, int64_t, int);
int64_t transform_units(const WordTable&, int);
}  // namespace baseline
namespace avx2 {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordTable&, int, int64_t, int64_t, int);
int64_t transform_units(const WordTable&, int);
}  // namespace avx2
namespace avx512 {
void word_pairs(const WordsView&, const WordsView&, const WordWeights&, double*, int64_t);
void word_transform(const WordTable&, int, int64_t, int64_t, int);
int64_t transform_units(const WordTable&, int);
}  // namespace avx512

}  // namespace mercer
