// The rows that a linear machine sweeps over: a view of a dense or CSR table, with or without a column of a constant.
#pragma once

#include <cstdint>

namespace mercer {

struct LinearTable {
    enum class Value : int { f32, f64, i8, u8 };

    int64_t n_rows, n_columns;  // without the column of the constant
    double constant;            // 0: there is no such column
    Value value;
    const void* data;
    int64_t stride;  // dense: elements from one row to the next, at least n_columns

    // CSR; null for dense tables.
    const void* indices;
    const void* indptr;
    bool wide_indices, wide_indptr;  // whether they are 64-bit instead of 32-bit
    int64_t n_entries;

    bool is_sparse() const { return indptr != nullptr; }
    int64_t width() const { return n_columns + (constant != 0.0 ? 1 : 0); }
};

}  // namespace mercer
