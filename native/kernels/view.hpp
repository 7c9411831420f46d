// Non-owning views of the user's data, read as it is: any strides, float32 or float64, dense or CSR.
#pragma once

#include <cstdint>

namespace mercer {

enum class Scalar : int { f32, f64 };

struct DenseView {
    const void* data;
    Scalar scalar;
    int64_t row_stride, column_stride;  // in elements
};

struct CsrView {
    const void* data;
    Scalar scalar;
    const void* indices;
    const void* indptr;
    bool wide_indices, wide_indptr;  // 64-bit rather than 32-bit
    const int32_t* places;           // of features: the common ones come first
    int32_t n_common;
};

// Rows whose columns take two values each, `step` apart: a bit says which. Bits beyond the last column are 0.
struct BitsView {
    const uint64_t* words;
    int64_t n_words;  // of a row
    double step;
};

// Dense rows whose numbers are multiples of `step`: the multiples, packed into units of 32 bits (integer_tile.hpp).
struct IntegerView {
    const int32_t* units;  // null where they are not
    int64_t n_units;       // of a row, behind which come its RowSums
    bool bytes;            // from 0 to 255, four a unit; otherwise 16-bit numbers, two a unit
    double step;
};

enum class RowsKind { dense, csr, bits };

// Rows of a table, in the order of `rows` (all of them where it is null).
struct RowsView {
    RowsKind kind;
    DenseView dense;
    CsrView csr;
    BitsView bits;
    IntegerView integers;  // of dense rows
    const int64_t* rows;
    int64_t count;
    int64_t n_features;

    int64_t row(int64_t i) const { return rows ? rows[i] : i; }
};

}  // namespace mercer
