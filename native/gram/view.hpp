// Non-owning views of the user's data: dense or CSR, float32 or float64, with any strides. The data is not copied.
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
    bool wide_indices, wide_indptr;  // whether they are 64-bit instead of 32-bit
    const int32_t* places;           // place of each feature; common features come first
    int32_t n_common;
};

// Rows whose columns have two values each, `step` apart. A bit says which value; bits beyond the last column are 0.
struct BitsView {
    const uint64_t* words;
    int64_t n_words;  // words of a row
    double step;
};

// Dense rows whose numbers are integer multiples of `step`. The integers are packed into units of 32 bits (see
// integer_tile.hpp).
struct IntegerView {
    const int32_t* units;  // null if the numbers are not such multiples
    int64_t n_units;       // units of a row; its RowSums follow them
    bool bytes;            // true: integers from 0 to 255, four in a unit; false: 16-bit integers, two in a unit
    double step;
};

enum class RowsKind { dense, csr, bits };

// Rows of a table, in the order of `rows`; all rows if it is null.
struct RowsView {
    RowsKind kind;
    DenseView dense;
    CsrView csr;
    BitsView bits;
    IntegerView integers;  // a second form of dense rows
    const int64_t* rows;
    int64_t count;
    int64_t n_features;

    int64_t row(int64_t i) const { return rows ? rows[i] : i; }
};

}  // namespace mercer
