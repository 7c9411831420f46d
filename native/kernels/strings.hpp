// Edit distances and subsequence kernels of strings: one string on the left against 16 on the right at a time, each in
// a lane of its own, so that no value depends on its neighbours.
#pragma once

#include <cstdint>

namespace mercer {

// Rows of letters, numbered from 0, one row after the other.
struct StringsView {
    const int32_t* letters;
    const int64_t* starts;  // row i is letters[starts[i]] .. letters[starts[i + 1] - 1]
    const int64_t* rows;    // which rows these are
    int64_t count;
    int64_t n_letters;

    const int32_t* row(int64_t i) const { return letters + starts[rows[i]]; }
    int64_t length(int64_t i) const { return starts[rows[i] + 1] - starts[rows[i]]; }
};

// out[i * out_stride + j] = fewest insertions, deletions and substitutions that turn left_i into right_j
// [Myers 1999; Hyyrö 2003 for several words].
using EditDistances = void (*)(const StringsView& left, const StringsView& right, double* out, int64_t out_stride);

// out[i * out_stride + j] = sum over all common subsequences of `length` letters, gaps allowed, of decay to the power
// of the letters that they span on either side [Lodhi et al. 2002, definition 2].
using Subsequences = void (*)(const StringsView& left, const StringsView& right, int64_t length, double decay,
                              double* out, int64_t out_stride);

namespace baseline {
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace baseline
namespace avx2 {
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace avx2
namespace avx512 {
void edit_distances(const StringsView&, const StringsView&, double*, int64_t);
void subsequences(const StringsView&, const StringsView&, int64_t, double, double*, int64_t);
}  // namespace avx512

}  // namespace mercer
