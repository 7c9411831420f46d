// Edit distances, subsequence and local alignment kernels of strings. One left string is compared with 16 right strings
// at a time. Each right string has its own vector lane, so that no value depends on the other strings.
#pragma once

#include <cstdint>

namespace mercer {

// Strings as concatenated rows of letters; letters are numbered from 0.
struct StringsView {
    const int32_t* letters;
    const int64_t* starts;  // row i is letters[starts[i]] .. letters[starts[i + 1] - 1]
    const int64_t* rows;    // indices of the rows in this view
    int64_t count;
    int64_t n_letters;

    const int32_t* row(int64_t i) const { return letters + starts[rows[i]]; }
    int64_t length(int64_t i) const { return starts[rows[i] + 1] - starts[rows[i]]; }
};

// out[i * out_stride + j] = the smallest number of insertions, deletions and substitutions that turn left_i into
// right_j [Myers 1999; Hyyrö 2003 for strings longer than a word].
using EditDistances = void (*)(const StringsView& left, const StringsView& right, double* out, int64_t out_stride);

// out[i * out_stride + j] = the sum of decay^s over all common subsequences of `length` letters. Gaps are allowed, and
// s is the sum of the spans of the subsequence in both strings [Lodhi et al. 2002, definition 2].
using Subsequences = void (*)(const StringsView& left, const StringsView& right, int64_t length, double decay,
                              double* out, int64_t out_stride);

// What a local alignment weighs: the product of the factors of its pairs of letters and of its gaps.
struct AlignmentFactors {
    const double* letters;  // a factor for each pair of letters, [n_letters][n_letters]; or two numbers, for equal
    bool are_equal_or_not;  // letters and for different ones
    double largest;         // of `letters`
    double open, extend;    // of the first letter of a gap and of each further one, at most 1
};

// out[i * out_stride + j] = the logarithm of 1 + the sum of the weights of all local alignments of left_i and right_j
// [Saigo, Vert, Ueda & Akutsu 2004].
using Alignments = void (*)(const StringsView& left, const StringsView& right, const AlignmentFactors& factors,
                            double* out, int64_t out_stride);

namespace baseline {
void alignments(const StringsView&, const StringsView&, const AlignmentFactors&, double*, int64_t);
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace baseline
namespace avx2 {
void alignments(const StringsView&, const StringsView&, const AlignmentFactors&, double*, int64_t);
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace avx2
namespace avx512 {
void alignments(const StringsView&, const StringsView&, const AlignmentFactors&, double*, int64_t);
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace avx512

}  // namespace mercer
