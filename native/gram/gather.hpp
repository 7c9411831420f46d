// Reads elements of cached rows, in double or single precision, and builds symmetric matrices of them.
#pragma once

#include <cstdint>

namespace mercer {

template <class Cached>
struct CachedRows {
    const Cached* values;
    int64_t stride;
    const int64_t* slots;
    int64_t n_slots;
    const int64_t* columns;  // null: 0, 1, 2, ...
    int64_t n_columns;
};

// out[i][j] = kept[slots[i]][columns[j]].
template <class Cached, class Real>
void gather(const CachedRows<Cached>&, Real* out, int64_t out_stride, int n_threads);

// matrix[i][j] = matrix[stay[i]][stay[j]], in place. `stay` is in ascending order.
template <class Real>
void compact_square(Real* matrix, int64_t stride, const int64_t* stay, int64_t n_stay, int n_threads);

// out[i][places[j]] = kept[slots[i]][j], written from the last element to the first. If slots and places are in
// ascending order, `out` may begin at the same address as the cached rows.
void scatter(const CachedRows<float>&, const int64_t* places, float* out, int64_t out_stride);

// Builds the symmetric matrix of some variables. If variable i has a cached row (slots[i] >= 0), out[i][j] =
// kept[slots[i]][columns[j]]. If only j has a cached row, out[i][j] = out[j][i]. If neither has one, the value comes
// from `square`, which holds the variables without a row in order.
void gather_square(const CachedRows<float>&, const float* square, int64_t square_stride, float* out, int64_t out_stride,
                   int n_threads);

// matrix[i][j] = matrix[j][i] for rows i >= n_known and columns j < n_known.
void mirror_rows(float* matrix, int64_t stride, int64_t size, int64_t n_known, int n_threads);

}  // namespace mercer
