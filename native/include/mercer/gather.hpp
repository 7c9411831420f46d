// Elements of kept rows, in double or in single precision: kept[slots[i]][columns[j]].
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

// out[i][j] = kept[slots[i]][columns[j]]; rows without a slot (-1) are left as they are.
template <class Kept, class Real>
void gather(const KeptRows<Kept>&, Real* out, int64_t out_stride, int n_threads);

// matrix[i][j] = matrix[stay[i]][stay[j]], in place, for indices that rise.
template <class Real>
void compact(Real* matrix, int64_t stride, const int64_t* stay, int64_t n_stay, int n_threads);

// out[i][places[j]] = kept[slots[i]][j], from the last element to the first: where slots and places rise, the kept rows
// may be the beginning of the same memory.
void scatter(const KeptRows<float>&, const int64_t* places, float* out, int64_t out_stride);

// Completes a symmetric matrix that lacks some rows, which rise: square[a][b] = matrix[missing[a]][missing[b]], and
// what is left of these rows is copied from their columns. The square may be where it belongs, in the matrix.
struct SymmetricMatrix {
    float* values;
    int64_t stride;
    int64_t size;
};
void complete(const SymmetricMatrix&, const int64_t* missing, int64_t n_missing, const float* square,
              int64_t square_stride, int n_threads);

}  // namespace mercer
