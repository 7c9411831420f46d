// Elements of kept rows, in double or in single precision, and symmetric matrices that are made of them.
#pragma once

#include <cstdint>

namespace mercer {

template <class Kept>
struct KeptRows {
    const Kept* values;
    int64_t stride;
    const int64_t* slots;
    int64_t n_slots;
    const int64_t* columns;  // null: 0, 1, 2, ...
    int64_t n_columns;
};

// out[i][j] = kept[slots[i]][columns[j]].
template <class Kept, class Real>
void gather(const KeptRows<Kept>&, Real* out, int64_t out_stride, int n_threads);

// matrix[i][j] = matrix[stay[i]][stay[j]], in place, for indices that rise.
template <class Real>
void compact_square(Real* matrix, int64_t stride, const int64_t* stay, int64_t n_stay, int n_threads);

// out[i][places[j]] = kept[slots[i]][j], from the last element to the first: where slots and places rise, the kept rows
// may be the beginning of the same memory.
void scatter(const KeptRows<float>&, const int64_t* places, float* out, int64_t out_stride);

// A symmetric matrix of variables that have slots and columns: out[i][j] = kept[slots[i]][columns[j]] where i has a row
// (slots from 0 on), its mirror where only j has one, and where neither has one, what `square` has of these, in order.
void gather_square(const KeptRows<float>&, const float* square, int64_t square_stride, float* out, int64_t out_stride,
                   int n_threads);

// matrix[i][j] = matrix[j][i] for rows i from n_known on and columns j before.
void mirror_rows(float* matrix, int64_t stride, int64_t size, int64_t n_known, int n_threads);

}  // namespace mercer
